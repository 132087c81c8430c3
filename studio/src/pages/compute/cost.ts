/** Sums of the cost of runs: by target, by member, by day. */
import type { Schemas } from "@/api/client";

export type RunCost = Schemas["RunCost"];
export type Period = "24h" | "7d" | "30d" | "90d";
export type Sum = { name: string; runs: number; seconds: number; cost: number | null };

export const PERIODS: { value: Period; label: string }[] = [
  { value: "24h", label: "24 hours" },
  { value: "7d", label: "7 days" },
  { value: "30d", label: "30 days" },
  { value: "90d", label: "90 days" },
];
const HOUR = 3_600_000;
const HOURS: Record<Period, number> = { "24h": 24, "7d": 7 * 24, "30d": 30 * 24, "90d": 90 * 24 };

/** The beginning of a period, at a full hour, so that the same question has the same key. */
export const sinceOf = (period: Period, now = Date.now()): string =>
  new Date(Math.floor(now / HOUR - HOURS[period]) * HOUR).toISOString();

export const isPeriod = (text: string): text is Period => PERIODS.some(({ value }) => value === text);

/** The sums by what `name` says of a run, the most expensive first. */
export function sumBy(runs: RunCost[], name: (run: RunCost) => string): Sum[] {
  const sums = new Map<string, Sum>();
  for (const run of runs) {
    const key = name(run);
    const sum = sums.get(key) ?? { name: key, runs: 0, seconds: 0, cost: null };
    sum.runs += 1;
    sum.seconds += run.node_seconds;
    if (run.cost !== null) sum.cost = (sum.cost ?? 0) + run.cost;
    sums.set(key, sum);
  }
  return [...sums.values()].sort((one, other) => (other.cost ?? 0) - (one.cost ?? 0) || other.seconds - one.seconds);
}

export type Slice = { start: Date; seconds: number; cost: number };

/** The sums by day, or by hour for a day; slices without runs too. A run counts where it was submitted. */
export function overTime(runs: RunCost[], period: Period, now = Date.now()): Slice[] {
  const width = period === "24h" ? HOUR : 24 * HOUR;
  const count = (HOURS[period] * HOUR) / width;
  const first = now - count * width;
  const slices = Array.from({ length: count }, (_, index) => ({ start: new Date(first + index * width), seconds: 0, cost: 0 }));
  for (const run of runs) {
    const slice = slices[Math.min(count - 1, Math.floor((Date.parse(run.created_at) - first) / width))];
    if (!slice) continue;
    slice.seconds += run.node_seconds;
    slice.cost += run.cost ?? 0;
  }
  return slices;
}
