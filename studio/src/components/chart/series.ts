/** The arithmetic of charts: smoothing, thinning to what a screen can show, and one common x for many series. */

/** A line of a chart. `x` rises (sorted by `sorted` if it did not); a `y` of null is a gap. */
export type ChartSeries = {
  name: string;
  x: ArrayLike<number>;
  y: ArrayLike<number | null>;
  /** A colour of CSS, also `var(--…)`. */
  color: string;
  dash?: number[];
};

export type XKind = "step" | "elapsed" | "time";

export type Points = { x: number[]; y: (number | null)[] };

/** A point of the API: index, step, time in seconds or as ISO text, value (a text for NaN and infinity). */
export type ApiPoint = readonly unknown[];

/** Points of the API as columns for an axis: steps, moments, or seconds since `start` (else the first point). */
export function columnsOf(points: readonly ApiPoint[], kind: XKind, start?: number): Points {
  const x = new Array<number>(points.length);
  const y = new Array<number | null>(points.length);
  const zero = kind === "elapsed" ? (start ?? seconds(points[0]?.[2])) : 0;
  points.forEach(([index, step, time, value], at) => {
    x[at] = kind === "step" ? Number(step ?? index) : seconds(time) - zero;
    y[at] = typeof value === "number" && Number.isFinite(value) ? value : null;
  });
  return sorted({ x, y });
}

function seconds(time: unknown): number {
  return typeof time === "string" ? Date.parse(time) / 1000 : Number(time ?? 0);
}

/** The points in the order of `x`; the same points if they are in order, as they nearly always are. */
export function sorted(points: Points): Points {
  const { x, y } = points;
  if (x.every((value, at) => at === 0 || value >= x[at - 1]!)) return points;
  const order = x.map((_, at) => at).sort((a, b) => x[a]! - x[b]!);
  return { x: order.map((at) => x[at]!), y: order.map((at) => y[at]!) };
}

/** How many steps of smoothing the whole width counts as. */
const SMOOTHING_STEPS = 1000;

/**
 * Exponential moving average from 0 (none) to below 1. A value weighs less with its distance in x, not in points:
 * so the line is the same however much the server has thinned the points.
 */
export function smooth(x: ArrayLike<number>, y: ArrayLike<number | null>, weight: number): (number | null)[] {
  const smoothed = new Array<number | null>(y.length);
  const range = x.length ? x[x.length - 1]! - x[0]! : 0;
  let sum = 0;
  let weights = 0;
  let before = NaN;
  let decay = weight;
  let distance = 1;
  for (let at = 0; at < y.length; at++) {
    const value = y[at]!;
    if (value === null || !Number.isFinite(value)) {
      smoothed[at] = null;
      continue;
    }
    const here = range && !Number.isNaN(before) ? ((x[at]! - before) / range) * SMOOTHING_STEPS : 1;
    if (here !== distance) decay = weight ** (distance = here); // steps are mostly alike, and powers are slow
    sum = sum * decay + value;
    weights = weights * decay + 1;
    before = x[at]!;
    smoothed[at] = sum / weights;
  }
  return smoothed;
}

/** The first index whose `x` is not below `value`. */
export function indexOf(x: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The index of the point nearest to `value`; -1 without points. */
export function nearest(x: ArrayLike<number>, value: number): number {
  const at = indexOf(x, value);
  if (at === 0) return x.length ? 0 : -1;
  return at < x.length && x[at]! - value < value - x[at - 1]! ? at : at - 1;
}

/**
 * What can be seen of a series between `min` and `max` on a number of pixel columns: the lowest and the highest
 * point of each column, so that no peak is lost; and a point beyond each edge, so that lines leave the picture.
 */
export function thin(x: ArrayLike<number>, y: ArrayLike<number | null>, min: number, max: number, columns: number): Points {
  const first = Math.max(0, indexOf(x, min) - 1);
  let last = indexOf(x, max);
  while (last < x.length - 1 && x[last]! <= max) last++;
  last = Math.min(last, x.length - 1);
  const kept: Points = { x: [], y: [] };
  const keep = (at: number) => (kept.x.push(x[at]!), kept.y.push(finite(y[at]!)));
  if (last - first <= 2 * columns) {
    for (let at = first; at <= last; at++) keep(at);
    return kept;
  }
  const scale = columns / (max - min || 1);
  let column = NaN;
  let low = -1;
  let high = -1;
  let gap = -1;
  const flush = () => {
    if (low >= 0) {
      keep(Math.min(low, high));
      if (low !== high) keep(Math.max(low, high));
    } else if (gap >= 0) keep(gap);
    low = high = gap = -1;
  };
  for (let at = first; at <= last; at++) {
    const here = Math.floor((x[at]! - min) * scale);
    if (here !== column) {
      flush();
      column = here;
    }
    const value = y[at]!;
    if (finite(value) === null) gap = at;
    else {
      if (low < 0 || value < y[low]!) low = at;
      if (high < 0 || value > y[high]!) high = at;
    }
  }
  flush();
  return kept;
}

const finite = (value: number | null): number | null => (value !== null && Number.isFinite(value) ? value : null);

/** Series on one common x, as uPlot takes them: undefined where a series has no point of its own there. */
export function align(series: Points[]): [number[], ...(number | null | undefined)[][]] {
  if (series.length === 1) return [series[0]!.x, series[0]!.y];
  const x: number[] = [];
  const ys = series.map((): (number | null | undefined)[] => []);
  const at = series.map(() => 0);
  for (;;) {
    let next = Infinity;
    series.forEach((each, index) => {
      const value = each.x[at[index]!];
      if (value !== undefined && value < next) next = value;
    });
    if (next === Infinity) return [x, ...ys];
    x.push(next);
    series.forEach((each, index) => ys[index]!.push(each.x[at[index]!] === next ? each.y[at[index]!++] : undefined));
  }
}

export type Extent = [number, number];

/** From the lowest to the highest x of all series; null without points. */
export function extentOf(series: { x: ArrayLike<number> }[]): Extent | null {
  let min = Infinity;
  let max = -Infinity;
  for (const { x } of series) {
    if (!x.length) continue;
    min = Math.min(min, x[0]!);
    max = Math.max(max, x[x.length - 1]!);
  }
  return min > max ? null : [min, max];
}

export type Summary = { count: number; last: number; min: number; minAt: number; max: number; maxAt: number };

/** The last, lowest and highest value of a series; null if it has no value. */
export function summaryOf(x: ArrayLike<number>, y: ArrayLike<number | null>): Summary | null {
  const found: Summary = { count: 0, last: NaN, min: Infinity, minAt: NaN, max: -Infinity, maxAt: NaN };
  for (let at = 0; at < y.length; at++) {
    const value = y[at]!;
    if (finite(value) === null) continue;
    found.count++;
    found.last = value;
    if (value < found.min) [found.min, found.minAt] = [value, x[at]!];
    if (value > found.max) [found.max, found.maxAt] = [value, x[at]!];
  }
  return found.count ? found : null;
}

/** The indices (first, last) of the points of the API that a range of x covers, with one more at each side. */
export function indicesOf(points: readonly ApiPoint[], kind: XKind, range: Extent, start?: number): Extent | null {
  const { x } = columnsOf(points, kind, start);
  if (!points.length) return null;
  const first = Math.max(0, indexOf(x, range[0]) - 1);
  const last = Math.min(points.length - 1, indexOf(x, range[1]) + 1);
  const indices = points.slice(first, last + 1).map(([index]) => Number(index));
  return [Math.min(...indices), Math.max(...indices)];
}
