/** The series of a run's metrics: thinned by the server when they are first shown, then continued by the run's stream. */
import type { ApiPoint } from "@/components/chart/series";

export type StoredSeries = {
  name: string;
  /** How many points were logged. */
  count: number;
  /** Points of the whole series, thinned: index, step, time, value. */
  points: ApiPoint[];
};

type Thinned = { name: string; kind: string; count: number; points: ApiPoint[] };
export type MetricLine = { n: string; v: unknown; t: number; i: number; k?: string; s?: number };

/** Where series come from. */
export interface SeriesSource {
  series(names: string[], maxPoints: number, signal: AbortSignal): Promise<Thinned[]>;
  /** Follows new points; `seen` is asked at each (re)connection for the points that are known: `name:count`. */
  follow(seen: () => string[], onMetric: (line: MetricLine) => void, signal: AbortSignal): Promise<void>;
}

export const MAX_POINTS = 2000;
const NAMES_AT_ONCE = 100;
/** A series that has grown to so many points since it was thinned is thinned again. */
const MOST_POINTS = 3 * MAX_POINTS;
/** The stream takes no more names than these. */
export const MOST_SEEN = 1000;

export class SeriesStore {
  version = 0;
  error: unknown = null;

  private readonly counts = new Map<string, number>();
  private readonly known = new Map<string, StoredSeries>();
  private readonly wanted = new Set<string>();
  private readonly loading = new Set<string>();
  private readonly listeners = new Set<() => void>();
  private stop = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** `onNewName` is called when a metric is logged for the first time, or is a number no longer logged once. */
  constructor(
    private readonly source: SeriesSource,
    private readonly onNewName: () => void,
  ) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Follows the stream. `counts` are the metrics that are known, with the number of their points. */
  follow(counts: Record<string, number>): void {
    Object.entries(counts).forEach(([name, count]) => this.counts.set(name, Math.max(count, this.counts.get(name) ?? 0)));
    const { signal } = this.stop;
    const seen = () => [...this.counts].map(([name, count]) => `${name}:${count}`);
    this.source.follow(seen, (line) => !signal.aborted && this.take(line), signal).catch((error: unknown) => {
      if (!signal.aborted) this.fail(error);
    });
  }

  close(): void {
    this.stop.abort();
    clearTimeout(this.timer);
    this.timer = undefined;
    this.stop = new AbortController();
    this.wanted.clear();
    this.loading.clear();
  }

  get(name: string): StoredSeries | undefined {
    return this.known.get(name);
  }

  /** Loads a series, together with others that are asked for at the same time. */
  need(name: string): void {
    if (this.known.has(name) || this.loading.has(name)) return;
    this.wanted.add(name);
    this.timer ??= setTimeout(() => void this.load(), 10);
  }

  private async load(): Promise<void> {
    this.timer = undefined;
    const names = [...this.wanted];
    this.wanted.clear();
    names.forEach((name) => this.loading.add(name));
    const { signal } = this.stop;
    for (let at = 0; at < names.length; at += NAMES_AT_ONCE) {
      const some = names.slice(at, at + NAMES_AT_ONCE);
      try {
        this.put(await this.source.series(some, MAX_POINTS, signal));
      } catch (error) {
        if (!signal.aborted) this.fail(error);
      }
      some.forEach((name) => this.loading.delete(name));
    }
  }

  private put(found: Thinned[]): void {
    for (const { name, count, points } of found) {
      const before = this.known.get(name);
      // Points that came by the stream while this was on its way go after it.
      const after = before?.points.filter(([index]) => Number(index) >= count) ?? [];
      this.known.set(name, { name, count: Math.max(count, before?.count ?? 0), points: [...points, ...after] });
    }
    this.changed();
  }

  private take({ n: name, v: value, t: time, i: index, s: step }: MetricLine): void {
    const count = this.counts.get(name) ?? 0;
    const isRestarted = index === 0 && count > 0; // a later attempt logs it again
    if (index < count && !isRestarted) return;
    this.counts.set(name, index + 1);
    if (count < 2) this.onNewName();
    const series = this.known.get(name);
    if (series) {
      if (isRestarted) series.points = [];
      if (index >= series.count || isRestarted) {
        series.points.push([index, step ?? null, time, value]);
        series.count = index + 1;
      }
      if (series.points.length > MOST_POINTS && !this.loading.has(name)) this.thin(name);
    } else if (this.loading.has(name)) {
      this.known.set(name, { name, count: index + 1, points: [[index, step ?? null, time, value]] });
    }
    this.changed();
  }

  private thin(name: string): void {
    this.wanted.add(name);
    this.timer ??= setTimeout(() => void this.load(), 10);
  }

  private fail(error: unknown): void {
    this.error = error;
    this.changed();
  }

  private changed(): void {
    this.version++;
    this.listeners.forEach((listener) => listener());
  }
}

/** The indexes of the first and last of the points whose x is in a range; null without any. */
export function indexRange(points: readonly ApiPoint[], xs: ArrayLike<number>, [low, high]: [number, number]): [number, number] | null {
  let first = Infinity;
  let last = -Infinity;
  for (let at = 0; at < points.length; at++) {
    const x = xs[at]!;
    // The neighbours beyond the edges count: between them and the edge there may be points that were thinned away.
    if (x >= low && x <= high) {
      first = Math.min(first, Number(points[Math.max(0, at - 1)]![0]));
      last = Math.max(last, Number(points[Math.min(points.length - 1, at + 1)]![0]));
    }
  }
  return first <= last ? [first, last] : null;
}

/** The coarse points, with the fine ones in place of those between the same indexes. */
export function refine(coarse: readonly ApiPoint[], fine: readonly ApiPoint[]): readonly ApiPoint[] {
  if (!fine.length) return coarse;
  const first = Number(fine[0]![0]);
  const last = Number(fine.at(-1)![0]);
  return [...coarse.filter(([index]) => Number(index) < first), ...fine, ...coarse.filter(([index]) => Number(index) > last)];
}
