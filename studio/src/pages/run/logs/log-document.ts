/** The lines of a log: those of the past from the server's line index, in chunks; new ones from the run's stream. */
import { lastPart } from "./ansi";
import { CHUNK } from "./row-layout";

export type LinesPage = {
  first: number;
  lines: string[];
  line_count: number;
  /** Bytes of the log that the lines are made of. */
  size: number;
  is_complete: boolean;
  attempt: number;
  /** The line in which bytes were not kept, since the log reached its limit. */
  gap: { line: number; size: number } | null;
};

export type LogEvent =
  | { event: "log"; data: { path: string; offset: number; data: string } }
  | { event: "gap"; data: { path: string; offset: number; length: number } }
  | { event: "attempt"; data: { attempt: number } }
  | { event: "end"; data: unknown };

/** Where a log comes from. */
export interface LogSource {
  /** `first` is the number of a line; negative: so many before the end. Null if there is no such log yet. */
  lines(first: number, limit: number, signal: AbortSignal): Promise<LinesPage | null>;
  /** Follows the log from the position at each (re)connection, until the run has ended. */
  follow(position: () => { offset: number; attempt: number }, onEvent: (event: LogEvent) => void, signal: AbortSignal): Promise<void>;
}

/** A place in a log where bytes were not kept. */
export type Gap = { line: number; length: number };

const MOST_CHUNKS = 300;
const LONG_LINE = 8192;
/** So many bytes before the known end are asked for again: they show whether its last line goes on. */
const OVERLAP = 4;
const NEWLINE = 10;

export class LogDocument {
  lineCount = 0;
  attempt = 0;
  isLoaded = false;
  isComplete = false;
  error: unknown = null;
  gaps: Gap[] = [];
  /** Counts the changes, for React. */
  version = 0;

  /** The least recently used chunk is the first. */
  private readonly chunks = new Map<number, string[]>();
  private readonly requested = new Set<number>();
  private readonly listeners = new Set<() => void>();
  private stop = new AbortController();
  private decoder = new TextDecoder();
  private offset = 0;
  private lastLineIsOpen = false;
  private overlap: number[] | null = null;

  constructor(
    private readonly source: LogSource,
    private readonly isLive: boolean,
  ) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Reads the end of the log, and follows it if it grows. */
  async open(): Promise<void> {
    const { signal } = this.stop;
    this.error = null;
    try {
      const page = await this.source.lines(-2 * CHUNK, 2 * CHUNK, signal);
      if (signal.aborted) return;
      if (page) this.begin(page);
      this.isLoaded = true;
      this.isComplete = !this.isLive;
      this.changed();
      if (!this.isLive) return;
      const position = () => ({ offset: this.overlap ? this.overlapStart : this.offset, attempt: this.attempt });
      await this.source.follow(position, (event) => !signal.aborted && this.take(event), signal);
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  close(): void {
    this.stop.abort();
    this.stop = new AbortController();
  }

  /** A line, if it is loaded. */
  line(number: number): string | undefined {
    return this.chunks.get(Math.floor(number / CHUNK))?.[number % CHUNK];
  }

  chunk(index: number): readonly string[] | undefined {
    return this.chunks.get(index);
  }

  /** Loads the lines from `first` to `last` that are missing. */
  need(first: number, last: number): void {
    for (let chunk = Math.floor(first / CHUNK); chunk <= Math.floor(last / CHUNK); chunk++) {
      const known = this.chunks.get(chunk);
      if (known) {
        this.chunks.delete(chunk);
        this.chunks.set(chunk, known);
      } else if (chunk * CHUNK < this.lineCount && !this.requested.has(chunk)) void this.load(chunk);
    }
  }

  /** All lines from `first` to `last`, loaded where they are missing. */
  async read(first: number, last: number): Promise<string[]> {
    const lines: string[] = [];
    for (let at = first; at <= last; at += CHUNK) {
      const page = await this.source.lines(at, Math.min(CHUNK, last - at + 1), this.stop.signal);
      lines.push(...(page?.lines ?? []));
    }
    return lines;
  }

  private begin(page: LinesPage): void {
    this.lineCount = page.line_count;
    this.attempt = page.attempt;
    this.offset = page.size;
    const end = page.first + page.lines.length;
    for (let chunk = Math.ceil(page.first / CHUNK); chunk * CHUNK < end; chunk++) {
      this.chunks.set(chunk, page.lines.slice(chunk * CHUNK - page.first, (chunk + 1) * CHUNK - page.first));
    }
    this.gaps = page.gap ? [{ line: page.gap.line, length: page.gap.size }] : [];
    this.overlap = page.size > 0 ? [] : null;
  }

  private get overlapStart(): number {
    return Math.max(0, this.offset - OVERLAP);
  }

  private async load(chunk: number): Promise<void> {
    const { attempt } = this;
    const { signal } = this.stop;
    this.requested.add(chunk);
    try {
      const page = await this.source.lines(chunk * CHUNK, CHUNK, signal);
      if (page && this.attempt === attempt && !this.chunks.has(chunk)) {
        this.chunks.set(chunk, page.lines);
        this.forget();
        this.changed();
      }
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    } finally {
      this.requested.delete(chunk);
    }
  }

  /** Drops the chunks that were not used for long; the last one stays, since it grows. */
  private forget(): void {
    const last = Math.floor((this.lineCount - 1) / CHUNK);
    for (const chunk of this.chunks.keys()) {
      if (this.chunks.size <= MOST_CHUNKS) return;
      if (chunk !== last) this.chunks.delete(chunk);
    }
  }

  private take({ event, data }: LogEvent): void {
    if (event === "log") this.append(data.offset, Uint8Array.from(atob(data.data), (each) => each.charCodeAt(0)));
    else if (event === "gap") this.skip(data.offset, data.length);
    else if (event === "attempt") this.restart(data.attempt);
    else if (event === "end") this.isComplete = true;
    this.changed();
  }

  /** Bytes that were received before are left out, so that no reconnection repeats a line. */
  private append(offset: number, bytes: Uint8Array): void {
    if (this.overlap) {
      const wanted = this.overlapStart + this.overlap.length;
      const known = bytes.subarray(Math.max(0, wanted - offset), Math.max(0, this.offset - offset));
      this.overlap.push(...known);
      if (this.overlapStart + this.overlap.length < this.offset) return;
      this.resume(Uint8Array.from(this.overlap));
      this.overlap = null;
    }
    const fresh = bytes.subarray(Math.max(0, this.offset - offset));
    this.offset = Math.max(this.offset, offset + bytes.length);
    if (fresh.length) this.write(this.decoder.decode(fresh, { stream: true }));
  }

  /** Finds out from the last known bytes whether the last line goes on, and whether a character was cut. */
  private resume(bytes: Uint8Array): void {
    this.lastLineIsOpen = bytes.at(-1) !== NEWLINE;
    let start = bytes.length - 1;
    while (start > 0 && (bytes[start]! & 0xc0) === 0x80) start--;
    const lead = bytes[start]!;
    const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (start + length <= bytes.length) return;
    const lines = this.chunks.get(Math.floor((this.lineCount - 1) / CHUNK));
    if (lines?.length) lines[lines.length - 1] = lines.at(-1)!.replace(/\ufffd+$/, "");
    this.decoder.decode(bytes.subarray(start), { stream: true });
  }

  private write(text: string): void {
    const parts = text.split("\n");
    parts.forEach((part, index) => {
      const isLast = index === parts.length - 1;
      if (this.lastLineIsOpen) this.extend(part);
      else if (!isLast || part) this.push(part);
      this.lastLineIsOpen = isLast && (this.lastLineIsOpen || part !== "");
    });
    this.forget();
  }

  private extend(part: string): void {
    const lines = this.chunks.get(Math.floor((this.lineCount - 1) / CHUNK))!;
    const line = lines.at(-1)! + part;
    lines[lines.length - 1] = line.length > LONG_LINE ? lastPart(line) : line;
  }

  private push(line: string): void {
    const chunk = Math.floor(this.lineCount / CHUNK);
    const lines = this.chunks.get(chunk);
    if (lines) lines.push(line);
    else this.chunks.set(chunk, [line]);
    this.lineCount++;
  }

  private skip(offset: number, length: number): void {
    if (offset + length <= this.offset) return;
    this.offset = offset + length;
    this.decoder = new TextDecoder();
    this.lastLineIsOpen = false;
    this.gaps.push({ line: this.lineCount, length });
  }

  private restart(attempt: number): void {
    this.attempt = attempt;
    this.chunks.clear();
    this.gaps = [];
    this.lineCount = this.offset = 0;
    this.overlap = null;
    this.lastLineIsOpen = false;
    this.decoder = new TextDecoder();
  }

  private fail(error: unknown): void {
    this.error = error;
    this.isLoaded = true;
    this.changed();
  }

  private changed(): void {
    this.version++;
    this.listeners.forEach((listener) => listener());
  }
}
