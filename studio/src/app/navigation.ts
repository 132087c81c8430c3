/** The parts of the studio, for the menu, the command palette and the keys. */
import {
  IconBox,
  IconBrandPython,
  IconFlask,
  IconHistory,
  IconHome,
  IconKey,
  IconLink,
  IconListDetails,
  IconSend,
  IconServer,
  IconSettings,
  IconUsers,
} from "@tabler/icons-react";

export type Place = {
  path: string;
  label: string;
  icon: typeof IconHome;
  /** The second key after `g`. */
  key: string;
  /** Without this permission the place is not shown. */
  permission: string;
  group: "work" | "assets" | "administration";
};

export const PLACES: Place[] = [
  { path: "", label: "Home", icon: IconHome, key: "h", permission: "runs.read", group: "work" },
  { path: "/runs", label: "Runs", icon: IconListDetails, key: "r", permission: "runs.read", group: "work" },
  { path: "/experiments", label: "Experiments", icon: IconFlask, key: "e", permission: "runs.read", group: "work" },
  { path: "/submit", label: "Submit", icon: IconSend, key: "n", permission: "runs.submit", group: "work" },
  { path: "/compute", label: "Compute", icon: IconServer, key: "c", permission: "targets.read", group: "assets" },
  { path: "/models", label: "Models", icon: IconBox, key: "m", permission: "models.read", group: "assets" },
  { path: "/environments", label: "Environments", icon: IconBrandPython, key: "v", permission: "environments.read", group: "assets" },
  { path: "/secrets", label: "Secrets", icon: IconKey, key: "k", permission: "secrets.use", group: "administration" },
  { path: "/connections", label: "Connections", icon: IconLink, key: "o", permission: "targets.read", group: "administration" },
  { path: "/members", label: "Members", icon: IconUsers, key: "t", permission: "tokens.read", group: "administration" },
  { path: "/audit", label: "Audit", icon: IconHistory, key: "a", permission: "audit.read", group: "administration" },
  { path: "/settings", label: "Settings", icon: IconSettings, key: "s", permission: "workspace.read", group: "administration" },
];
