/** The use of resources over time, from the samples that the runner takes: counters become rates. */
import type { ChartSeries } from "@/components/chart/series";

export type Sample = Record<string, unknown>;

const numberOf = (sample: Sample, key: string): number | null => {
  const value = sample[key];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
};

/** Values of one field over time, in seconds since `start`. */
export function levelOf(samples: Sample[], key: string, start: number, factor = 1): { x: number[]; y: (number | null)[] } {
  const known = samples.filter((sample) => numberOf(sample, "at") !== null && numberOf(sample, key) !== null);
  return { x: known.map((sample) => numberOf(sample, "at")! - start), y: known.map((sample) => numberOf(sample, key)! * factor) };
}

/** How fast a counter grew between two samples. */
export function rateOf(samples: Sample[], key: string, start: number, factor = 1): { x: number[]; y: (number | null)[] } {
  const level = levelOf(samples, key, start, factor);
  const x: number[] = [];
  const y: (number | null)[] = [];
  for (let at = 1; at < level.x.length; at++) {
    const seconds = level.x[at]! - level.x[at - 1]!;
    if (seconds <= 0) continue;
    x.push(level.x[at]!);
    y.push(Math.max(0, (level.y[at]! - level.y[at - 1]!) / seconds));
  }
  return { x, y };
}

export const lineOf = (name: string, points: { x: number[]; y: (number | null)[] }, color: string): ChartSeries => ({ name, ...points, color });
