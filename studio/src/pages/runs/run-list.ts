/**
 * The rows of the table of runs. Pages are fetched one after the other, ahead of the scroll position, since a page
 * begins where the one before ended. Changed runs are fetched again by their pages and replaced in place.
 */
import type { Run } from "@/api/queries";
import { parametersOf } from "./filters";

export type Row = Omit<Run, "url" | "version" | "root" | "properties" | "usage" | "workspace"> & {
  archived_at?: string | null;
  parameters: Map<string, string>;
  script: string;
};

export type RunPage = { runs: Run[]; next: string | null };
export type FetchPage = (cursor: string, limit: number, signal: AbortSignal) => Promise<RunPage>;

export type ListState = {
  rows: readonly Row[];
  /** Whether the first page is there. */
  isReady: boolean;
  /** Whether there are no further pages. */
  isComplete: boolean;
  error: unknown;
  /** Runs that would stand at the top, but are not shown yet, because the table is scrolled down. */
  newRuns: number;
};

type Page = { cursor: string; rows: Row[]; isStale: boolean };
type View = { first: number; last: number; isAtTop: boolean };

const FIRST_PAGE = 100; // the first page is small, so that it is soon there
const NEXT_PAGE = 500;
const AHEAD = 1500; // rows that are there below those that are visible
const MARGIN = 20; // rows that a page may have gained since it was fetched
const LARGEST_PAGE = 1000;
const PAUSE_MS = 400; // between two rounds of fetching what changed

export class RunList {
  private pages: Page[] = [];
  private next: string | null | undefined; // undefined: nothing was fetched yet
  private state: ListState = { rows: [], isReady: false, isComplete: false, error: null, newRuns: 0 };
  private view: View = { first: 0, last: 0, isAtTop: true };
  private listeners = new Set<() => void>();
  private stop = new AbortController();
  private isLoading = false;
  private isRefreshing = false;
  private isTopStale = false;

  constructor(private fetchPage: FetchPage) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly getState = (): ListState => this.state;

  /** Begins, also again after `close`. */
  open(): void {
    if (this.stop.signal.aborted) this.stop = new AbortController();
    void this.load();
  }

  close(): void {
    this.stop.abort();
    this.isLoading = this.isRefreshing = false;
  }

  /** Takes another way to fetch pages of the same list, for example with more columns, and fetches all rows anew. */
  refetchBy(fetchPage: FetchPage): void {
    this.fetchPage = fetchPage;
    this.changed(null);
  }

  /** The rows that are visible now. Loads further pages, and those that changed while they were out of sight. */
  look(view: View): void {
    this.view = view;
    void this.load();
    if (this.visiblePages().some((page) => page.isStale)) void this.refresh();
  }

  retry(): void {
    this.set({ error: null });
    void this.load();
  }

  /** These runs have changed; null: any may have changed. */
  changed(ids: readonly string[] | null): void {
    const unknown = new Set(ids);
    for (const page of this.pages) {
      if (ids === null) page.isStale = true;
      else for (const { id } of page.rows) if (unknown.delete(id)) page.isStale = true;
    }
    if (ids === null || unknown.size) this.isTopStale = true;
    if (this.isTopStale || this.visiblePages().some((page) => page.isStale)) void this.refresh();
  }

  /** Puts the runs at the top that were only counted so far. */
  showNew(): void {
    this.view = { ...this.view, isAtTop: true };
    this.isTopStale = true;
    void this.refresh();
  }

  private async load(): Promise<void> {
    if (this.isLoading || this.next === null || this.state.error) return;
    const { signal } = this.stop;
    this.isLoading = true;
    try {
      while (!signal.aborted && this.next !== null && this.state.rows.length - this.view.last < AHEAD) {
        const cursor: string = this.next ?? "";
        const found = await this.fetchPage(cursor, cursor ? NEXT_PAGE : FIRST_PAGE, signal);
        if (signal.aborted) return;
        if (cursor !== (this.next ?? "")) continue; // the list began anew meanwhile
        const known = this.ids();
        this.pages.push({ cursor, rows: found.runs.map(toRow).filter(({ id }) => !known.has(id)), isStale: false });
        this.next = found.next;
        this.publish();
      }
    } catch (error) {
      if (!signal.aborted) this.set({ error });
    } finally {
      if (this.stop.signal === signal) this.isLoading = false;
    }
  }

  private async refresh(): Promise<void> {
    if (this.isRefreshing || this.next === undefined) return;
    const { signal } = this.stop;
    this.isRefreshing = true;
    try {
      for (;;) {
        const stale = this.visiblePages().filter((page) => page.isStale);
        if (!stale.length && !this.isTopStale) break;
        if (this.isTopStale || stale.includes(this.pages[0]!)) await this.refetchTop(signal);
        for (const page of stale) if (page.isStale) await this.refetch(page, signal);
        await pause(PAUSE_MS, signal);
        if (signal.aborted) return;
      }
    } catch {
      // The server does not answer now. After the connection is there again, everything is fetched anew.
    } finally {
      if (this.stop.signal === signal) this.isRefreshing = false;
    }
  }

  private async refetch(page: Page, signal: AbortSignal): Promise<void> {
    page.isStale = false;
    const found = await this.fetchPage(page.cursor, Math.min(page.rows.length + MARGIN, LARGEST_PAGE), signal);
    const fresh = new Map(found.runs.map((run) => [run.id, run]));
    page.rows = page.rows.flatMap(({ id }) => (fresh.has(id) ? [toRow(fresh.get(id)!)] : []));
    this.publish();
  }

  private async refetchTop(signal: AbortSignal): Promise<void> {
    this.isTopStale = false;
    const [first] = this.pages;
    if (first) first.isStale = false;
    const limit = Math.min(Math.max(FIRST_PAGE, (first?.rows.length ?? 0) + MARGIN), LARGEST_PAGE);
    const found = await this.fetchPage("", limit, signal);
    const known = this.ids();
    const unknown = found.runs.filter(({ id }) => !known.has(id)).length;
    const isApart = unknown === found.runs.length && unknown > 0;
    if (found.next === null || isApart ? this.view.isAtTop || !unknown : false) {
      this.pages = [{ cursor: "", rows: found.runs.map(toRow), isStale: false }];
      this.next = found.next;
      this.publish(0);
      void this.load();
      return;
    }
    const rows = new Map(found.runs.map((run) => [run.id, toRow(run)]));
    const isWhole = unknown <= MARGIN; // else rows of the page may be missing only because they moved down
    this.pages.forEach((page, at) => {
      if (at === 0 && isWhole) page.rows = page.rows.filter(({ id }) => rows.has(id));
      if (!this.view.isAtTop) page.rows = page.rows.map((row) => rows.get(row.id) ?? row);
      else page.rows = page.rows.filter(({ id }) => !rows.has(id));
    });
    if (this.view.isAtTop) this.pages[0]!.rows = [...rows.values(), ...this.pages[0]!.rows];
    this.publish(this.view.isAtTop ? 0 : unknown);
  }

  private ids(): Set<string> {
    return new Set(this.state.rows.map(({ id }) => id));
  }

  private visiblePages(): Page[] {
    let start = 0;
    return this.pages.filter((page) => {
      const end = start + page.rows.length;
      const isVisible = start <= this.view.last && end >= this.view.first;
      start = end;
      return isVisible;
    });
  }

  private publish(newRuns = this.state.newRuns): void {
    this.set({ rows: this.pages.flatMap(({ rows }) => rows), isReady: true, isComplete: this.next === null, newRuns });
  }

  private set(change: Partial<ListState>): void {
    this.state = { ...this.state, ...change };
    this.listeners.forEach((listener) => listener());
  }
}

/** What the table needs of a run. 100,000 of them stay in memory, so the rest is left out. */
function toRow(run: Run): Row {
  const { url: _url, version: _version, root: _root, properties: _properties, usage: _usage, workspace: _workspace, ...rest } = run;
  const { arguments: given = [], script = "", ...row } = rest as typeof rest & { arguments?: string[]; script?: string };
  return { ...row, script, parameters: parametersOf(given) };
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
