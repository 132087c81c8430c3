/** Metrics by their prefix: `train/loss` and `train/accuracy` are together. */
import type { Series } from "../queries";

export type Metric = { name: string; series: Series };
export type Shape = "value" | "chart" | "display";

/** How a metric is shown: one value as a tile, numbers as a chart, the rest in a display of its kind. */
export function shapeOf({ kind, count, values }: Series): Shape {
  if (kind !== "scalar") return "display";
  if (count === 1) return "value";
  const last = values.at(-1)?.v;
  return typeof last === "number" || last === "NaN" || last === "Infinity" || last === "-Infinity" || last === null ? "chart" : "display";
}

export function groupMetrics(metrics: Record<string, Series>, filter: string): { prefix: string; metrics: Metric[] }[] {
  const groups = new Map<string, Metric[]>();
  const matches = matcherOf(filter);
  for (const [name, series] of Object.entries(metrics)) {
    if (!matches(name)) continue;
    const at = name.search(/[/]/);
    const prefix = at > 0 ? name.slice(0, at) : "";
    groups.set(prefix, [...(groups.get(prefix) ?? []), { name, series }]);
  }
  return [...groups]
    .map(([prefix, found]) => ({ prefix, metrics: found }))
    .sort((a, b) => a.prefix.localeCompare(b.prefix, "en", { numeric: true }));
}

/** A filter by a part of the name, or by a regular expression between slashes. */
export function matcherOf(filter: string): (name: string) => boolean {
  const text = filter.trim().toLowerCase();
  const pattern = /^\/(.+)\/$/.exec(filter.trim());
  if (pattern) {
    try {
      const expression = new RegExp(pattern[1]!, "i");
      return (name) => expression.test(name);
    } catch {
      return () => false;
    }
  }
  return (name) => name.toLowerCase().includes(text);
}

/** The file of a logged image, from its address `aml://artifactId/ExperimentRun/dcid.<run>/<file>`. */
export function imageFile(address: unknown): string | null {
  if (typeof address !== "string") return null;
  return /^aml:\/\/artifactId\/ExperimentRun\/dcid\.[^/]+\/(.+)$/.exec(address)?.[1] ?? null;
}

export type Column = { name: string; values: unknown[] };

/** Rows and tables that were logged one after the other, as columns of one table. */
export function columnsOf(logged: unknown[]): Column[] {
  const columns = new Map<string, unknown[]>();
  let height = 0;
  for (const part of logged) {
    if (typeof part !== "object" || part === null) continue;
    const added = Object.entries(part).map(([name, value]): [string, unknown[]] => [name, Array.isArray(value) ? value : [value]]);
    const rows = Math.max(0, ...added.map(([, values]) => values.length));
    for (const [name] of added) if (!columns.has(name)) columns.set(name, Array(height).fill(null));
    const given = new Map(added);
    height += rows;
    for (const [name, values] of columns) {
      values.push(...(given.get(name) ?? []));
      while (values.length < height) values.push(null);
    }
  }
  return [...columns].map(([name, values]) => ({ name, values }));
}

/** A text for CSV: `step,time,value`, one line a point. */
export function csvOf(values: { s?: number; t: number; v: unknown }[]): string {
  const cell = (value: unknown) => {
    const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = values.map(({ s, t, v }, index) => [s ?? index, new Date(t * 1000).toISOString(), v].map(cell).join(","));
  return ["step,time,value", ...lines, ""].join("\n");
}
