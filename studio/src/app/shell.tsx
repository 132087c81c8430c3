/** The frame around every page of a workspace: menu, search, who is signed in, whether the server answers. */
import {
  ActionIcon,
  AppShell,
  Burger,
  Group,
  Kbd,
  Menu,
  NavLink,
  Select,
  Text,
  Tooltip,
  UnstyledButton,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { spotlight } from "@mantine/spotlight";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { IconLogout, IconMoon, IconSearch, IconSun, IconUser, IconWifiOff } from "@tabler/icons-react";
import { Link, Outlet, useNavigate, useParams, useRouterState } from "@tanstack/react-router";
import { Suspense, useEffect } from "react";

import { onSignedOut } from "@/api/client";
import { useLiveUpdates } from "@/api/live";
import { queryClient, workspaces } from "@/api/queries";
import { session, signOut, useMay } from "@/api/session";
import { Loading } from "@/components/states";
import { PLACES } from "./navigation";
import { Palette } from "./palette";
import classes from "./shell.module.css";
import { useKeys } from "./keys";

const GROUPS = [
  ["work", ""],
  ["assets", "Assets"],
  ["administration", "Administration"],
] as const;

export function Shell() {
  const { workspace } = useParams({ strict: false }) as { workspace: string };
  const [isOpen, menu] = useDisclosure();
  const isConnected = useLiveUpdates(workspace);
  const navigate = useNavigate();
  const path = useRouterState({ select: (state) => state.location.pathname });
  useKeys(workspace);
  useEffect(() => localStorage.setItem("windlass.workspace", workspace), [workspace]);
  useEffect(() => menu.close(), [path]); // eslint-disable-line react-hooks/exhaustive-deps
  useEffect(
    () =>
      onSignedOut(() => {
        queryClient.clear();
        void navigate({ to: "/signin", search: { next: location.pathname + location.search } });
      }),
    [navigate],
  );
  return (
    <AppShell header={{ height: 48 }} navbar={{ width: 208, breakpoint: "sm", collapsed: { mobile: !isOpen } }}>
      <a href="#content" className={classes.skip}>
        Skip to the content
      </a>
      <AppShell.Header className={classes.header}>
        <Burger opened={isOpen} onClick={menu.toggle} hiddenFrom="sm" size="sm" aria-label="Menu" />
        <Link to="/workspaces/$workspace" params={{ workspace }} className={classes.brand}>
          <img src="icon.svg" alt="" width={22} height={22} />
          <span>Windlass</span>
        </Link>
        <WorkspaceSelect workspace={workspace} />
        <UnstyledButton className={classes.search} onClick={spotlight.open} aria-label="Search and commands">
          <IconSearch size={15} />
          <Text span size="sm" visibleFrom="sm">
            Search runs, go to a page …
          </Text>
          <Kbd size="xs" className={classes.key}>
            /
          </Kbd>
        </UnstyledButton>
        <Group gap={4} ml="auto" wrap="nowrap">
          {!isConnected && (
            <Tooltip label="The server does not answer. The page reconnects by itself.">
              <Group gap={6} wrap="nowrap" role="status" className={classes.offline}>
                <IconWifiOff size={16} />
                <Text size="sm" visibleFrom="xs">
                  Reconnecting …
                </Text>
              </Group>
            </Tooltip>
          )}
          <ThemeSwitch />
          <UserMenu />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar className={classes.navbar} aria-label="Pages">
        <Places workspace={workspace} path={path} />
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1} className={classes.main}>
        <Suspense fallback={<div className={classes.loading}><Loading /></div>}>
          <Outlet />
        </Suspense>
      </AppShell.Main>
      <Palette workspace={workspace} />
    </AppShell>
  );
}

function Places({ workspace, path }: { workspace: string; path: string }) {
  const may = useMay();
  const home = `/workspaces/${workspace}`;
  const here = decodeURIComponent(path).slice(home.length).replace(/\/$/, "").replace(/^\/(new-compute|quotas)/, "/compute");
  return GROUPS.map(([group, title]) => {
    const places = PLACES.filter((place) => place.group === group && may(place.permission));
    if (!places.length) return null;
    return (
      <div key={group} className={classes.group}>
        {title && (
          <Text size="xs" c="dimmed" className={classes.groupTitle}>
            {title}
          </Text>
        )}
        {places.map(({ path: to, label, icon: Icon }) => (
          <NavLink
            key={label}
            component={Link}
            to={home + to}
            label={label}
            leftSection={<Icon size={16} stroke={1.7} />}
            active={to === "" ? here === "" : here === to || here.startsWith(`${to}/`)}
            className={classes.place}
          />
        ))}
      </div>
    );
  });
}

function WorkspaceSelect({ workspace }: { workspace: string }) {
  const { data } = useQuery(workspaces());
  const navigate = useNavigate();
  const names = data?.workspaces.map(({ name }) => name) ?? [workspace];
  return (
    <Select
      aria-label="Workspace"
      size="xs"
      variant="unstyled"
      className={classes.workspace}
      data={names.includes(workspace) ? names : [workspace, ...names]}
      value={workspace}
      searchable={names.length > 8}
      onChange={(name) => name && void navigate({ to: "/workspaces/$workspace", params: { workspace: name } })}
      comboboxProps={{ width: 220, position: "bottom-start" }}
    />
  );
}

function ThemeSwitch() {
  const { setColorScheme } = useMantineColorScheme();
  const isDark = useComputedColorScheme("light") === "dark";
  const label = isDark ? "Light theme" : "Dark theme";
  return (
    <Tooltip label={label}>
      <ActionIcon size="lg" aria-label={label} onClick={() => setColorScheme(isDark ? "light" : "dark")}>
        {isDark ? <IconSun size={17} /> : <IconMoon size={17} />}
      </ActionIcon>
    </Tooltip>
  );
}

function UserMenu() {
  const { data } = useSuspenseQuery(session());
  const navigate = useNavigate();
  async function leave() {
    await signOut().catch(() => undefined);
    queryClient.clear();
    await navigate({ to: "/signin" });
  }
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <ActionIcon size="lg" aria-label={`Signed in as ${data.name}`}>
          <IconUser size={17} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          {data.name} · {data.role}
        </Menu.Label>
        <Menu.Label>Windlass {data.version}</Menu.Label>
        <Menu.Item leftSection={<IconLogout size={15} />} onClick={() => void leave()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
