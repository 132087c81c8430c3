/** The tabs of compute: the groups that the kinds declare. A kind that comes later appears by its group. */
import type { Target } from "@/api/queries";
import type { Kind } from "./queries";

const TITLES: Record<string, string> = {
  instances: "Instances",
  clusters: "Clusters",
  attached: "Attached",
  serverless: "Serverless",
  "built-in": "This computer",
};

export const titleOfGroup = (group: string): string => TITLES[group] ?? group.charAt(0).toUpperCase() + group.slice(1);

/** The groups of the kinds that the server has, in Azure's order, others last. */
export function groupsOf(kinds: Kind[]): string[] {
  const names = [...new Set(kinds.map(({ group }): string => group))];
  const known = Object.keys(TITLES);
  const place = (name: string) => (known.includes(name) ? known.indexOf(name) : known.length);
  return names.sort((one, other) => place(one) - place(other));
}

export const groupOf = (target: Target, kinds: Kind[]): string => kinds.find(({ kind }) => kind === target.kind)?.group ?? "other";
export const titleOfKind = (name: string, kinds: Kind[]): string => kinds.find(({ kind }) => kind === name)?.title ?? name;

/** The first paragraph of a description. */
export const summary = (text: string): string => text.split("\n\n")[0]!.replaceAll("\n", " ");
