/** The server as the source of a log: its line index, its search, and the run's stream. */
import { ApiError, request } from "@/api/client";
import { follow } from "@/api/events";

import { runPath } from "../queries";
import type { LinesPage, LogEvent, LogSource } from "./log-document";

type Of = { workspace: string; id: string };

const query = (values: Record<string, string | number | boolean>) =>
  new URLSearchParams(Object.entries(values).map(([name, value]) => [name, String(value)])).toString();

export function logSource(of: Of, path: string): LogSource {
  return {
    async lines(first, limit, signal): Promise<LinesPage | null> {
      try {
        return await (await request(runPath(of, `/lines?${query({ path, first, limit })}`), { signal })).json();
      } catch (error) {
        if (error instanceof ApiError && error.status === 404 && error.code === "not_found") return null;
        throw error;
      }
    },
    follow: (position, onEvent, signal) =>
      follow({
        path: () => {
          const { offset, attempt } = position();
          return runPath(of, `/stream?${query({ log: path, offset, attempt })}`);
        },
        onEvent: (event) => onEvent(event as unknown as LogEvent),
        signal,
      }),
  };
}

export type Matches = { lines: number[]; isComplete: boolean };

const MOST_MATCHES = 10_000;

/** The numbers of the lines after `after` that have a text; `onFound` is called with more and more of them. */
export async function searchLines(
  of: Of,
  path: string,
  text: string,
  after: number,
  onFound: (matches: Matches) => void,
  signal: AbortSignal,
): Promise<void> {
  const lines: number[] = [];
  let next: number | null = after;
  while (next !== null && lines.length < MOST_MATCHES) {
    const rest = `/lines/search?${query({ path, text, after: next, limit: 1000, ignore_case: true })}`;
    const found = (await (await request(runPath(of, rest), { signal })).json()) as {
      matches: { line: number }[];
      next: number | null;
    };
    lines.push(...found.matches.map(({ line }) => line));
    next = found.next;
    onFound({ lines: [...lines], isComplete: next === null });
  }
}
