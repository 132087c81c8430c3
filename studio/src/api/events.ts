/** Server-sent events by fetch: with the session's header, and reconnecting with growing pauses. */
import { parseJson } from "@/lib/json";
import { ApiError, request } from "./client";

export type ServerEvent = { event: string; id: string; data: unknown };

type Options = {
  /** The path at each (re)connection, so that the caller can continue at its position. */
  path: () => string;
  onEvent: (event: ServerEvent) => void;
  /** Called with false when the connection is lost, and with true when it stands again. */
  onConnection?: (isConnected: boolean) => void;
  signal: AbortSignal;
};

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 5000;

/** Follows a stream until it is aborted, the server ends it with the event `end`, or it is refused. */
export async function follow({ path, onEvent, onConnection, signal }: Options): Promise<void> {
  let pause = FIRST_PAUSE;
  while (!signal.aborted) {
    try {
      const response = await request(path(), { signal, headers: { accept: "text/event-stream" } });
      onConnection?.(true);
      pause = FIRST_PAUSE;
      for await (const event of parse(response)) {
        onEvent(event);
        if (event.event === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
      onConnection?.(false);
    }
    await sleep(pause, signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

async function* parse(response: Response): AsyncGenerator<ServerEvent> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      let end: number;
      let start = 0;
      while ((end = rest.indexOf("\n\n", start)) >= 0) {
        const event = parseFrame(rest.slice(start, end));
        start = end + 2;
        if (event) yield event;
      }
      rest = rest.slice(start);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function parseFrame(frame: string): ServerEvent | null {
  let event = "message";
  let id = "";
  const data: string[] = [];
  for (const line of frame.split("\n")) {
    if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  return data.length ? { event, id, data: parseJson(data.join("\n")) } : null;
}

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
