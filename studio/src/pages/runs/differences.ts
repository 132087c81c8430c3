/** What runs have in common and where they differ, as rows of texts. */
import type { RunDetails } from "@/api/queries";
import { bytes, number } from "@/lib/format";
import { parametersOf } from "./filters";
import type { Series } from "./queries";

/** A property of the compared runs: a text for each; undefined for a run that has none. */
export type Fact = { name: string; values: (string | undefined)[] };

/** Whether not all runs have the same value. */
export const differs = ({ values }: Fact): boolean => new Set(values).size > 1;

/** One row for each name that some run has, in the order in which they appear. */
export function factsOf(all: readonly ReadonlyMap<string, string>[]): Fact[] {
  const names = new Set(all.flatMap((each) => [...each.keys()]));
  return [...names].map((name) => ({ name, values: all.map((each) => each.get(name)) }));
}

/** The values inside an object as texts, under dotted names; what is null or empty is left out. */
export function flat(value: unknown, prefix = ""): Map<string, string> {
  const found = new Map<string, string>();
  if (value === null || value === undefined || value === "") return found;
  if (Array.isArray(value)) return value.length ? found.set(prefix, value.map(String).join(", ")) : found;
  if (typeof value !== "object") return found.set(prefix, String(value));
  for (const [key, each] of Object.entries(value)) {
    for (const [name, text] of flat(each, prefix ? `${prefix}.${key}` : key)) found.set(name, text);
  }
  return found;
}

export function parameterFacts(runs: RunDetails[]): Fact[] {
  return factsOf(runs.map(({ spec }) => parametersOf([...(spec?.arguments ?? []), ...(spec?.command?.slice(1) ?? [])])));
}

export function environmentFacts(runs: RunDetails[]): Fact[] {
  return factsOf(
    runs.map(({ spec }) => new Map([...flat(spec?.environment), ...flat(spec?.environment_variables, "variable"), ...flat(spec?.container, "container")])),
  );
}

export function resourceFacts(runs: RunDetails[]): Fact[] {
  return factsOf(
    runs.map(({ spec, target, usage }) => {
      const given = { target: target || "this process", ...spec?.resources, distribution: spec?.distribution, priority: spec?.priority };
      return new Map([...flat(given), ...flat(usage, "used")]);
    }),
  );
}

export function metricFacts(runs: (Record<string, Series> | undefined)[]): Fact[] {
  return factsOf(
    runs.map((series) => {
      const scalars = Object.entries(series ?? {}).filter(([, { kind }]) => kind === "scalar");
      return new Map(
        scalars.flatMap(([name, { values, min, max }]) => [
          [name, number(values.at(-1)?.v)] as const,
          [`${name}, lowest`, number(min)] as const,
          [`${name}, highest`, number(max)] as const,
        ]),
      );
    }),
  );
}

type SnapshotFile = { path: string; digest: string; size: number };

/** The files of the snapshots, by their digests: equal texts are equal files. */
export function fileFacts(snapshots: (readonly SnapshotFile[] | undefined)[]): Fact[] {
  return factsOf(
    snapshots.map((files) => new Map((files ?? []).map(({ path, digest, size }) => [path, `${digest.slice(0, 8)} · ${bytes(size)}`]))),
  ).sort((a, b) => a.name.localeCompare(b.name));
}
