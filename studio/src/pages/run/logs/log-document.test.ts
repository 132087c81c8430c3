import { describe, expect, it } from "vitest";

import { LogDocument, type LogEvent, type LogSource } from "./log-document";

const encoder = new TextEncoder();

/** A log as the server keeps it: lines by its index, and a stream that a test continues or breaks. */
class Server implements LogSource {
  bytes = new Uint8Array();
  attempt = 1;
  streams: { offset: number; attempt: number }[] = [];
  reads = 0;
  private send: ((event: LogEvent) => void) | null = null;
  private position: (() => { offset: number; attempt: number }) | null = null;

  print(text: string | Uint8Array): void {
    const more = typeof text === "string" ? encoder.encode(text) : text;
    this.bytes = Uint8Array.from([...this.bytes, ...more]);
  }

  async lines(first: number, limit: number) {
    this.reads++;
    const text = new TextDecoder().decode(this.bytes);
    const lines = text === "" ? [] : text.replace(/\n$/, "").split("\n");
    const start = first < 0 ? Math.max(0, lines.length + first) : first;
    return {
      first: start,
      lines: lines.slice(start, start + limit),
      line_count: lines.length,
      size: this.bytes.length,
      is_complete: false,
      attempt: this.attempt,
      gap: null,
    };
  }

  follow(position: () => { offset: number; attempt: number }, onEvent: (event: LogEvent) => void): Promise<void> {
    this.position = position;
    this.send = onEvent;
    return new Promise(() => undefined);
  }

  /** Sends what is new, from the position at which the client connects. */
  connect(piece = 1 << 18): void {
    const { offset, attempt } = this.position!();
    this.streams.push({ offset, attempt });
    for (let at = offset; at < this.bytes.length; at += piece) {
      const data = btoa(String.fromCharCode(...this.bytes.slice(at, at + piece)));
      this.send!({ event: "log", data: { path: "log", offset: at, data } });
    }
  }

  emit(event: LogEvent): void {
    this.send!(event);
  }
}

const linesOf = (document: LogDocument) => Array.from({ length: document.lineCount }, (_, number) => document.line(number));

async function opened(server: Server): Promise<LogDocument> {
  const document = new LogDocument(server, true);
  void document.open();
  await new Promise((resolve) => setTimeout(resolve));
  return document;
}

describe("LogDocument", () => {
  it("continues the index with the stream: no line twice, none left out", async () => {
    const server = new Server();
    server.print("one\ntwo\n");
    const document = await opened(server);
    server.print("three\nfo");
    server.connect();
    expect(linesOf(document)).toEqual(["one", "two", "three", "fo"]);
    server.print("ur\n\nfive");
    server.connect(1);
    expect(linesOf(document)).toEqual(["one", "two", "three", "four", "", "five"]);
  });

  it("continues a last line that was not at its end", async () => {
    const server = new Server();
    server.print("one\n10%");
    const document = await opened(server);
    server.print("\r20%");
    server.connect();
    expect(linesOf(document)).toEqual(["one", "10%\r20%"]);
  });

  it("continues in the middle of a character", async () => {
    const server = new Server();
    const bytes = encoder.encode("日本\n");
    for (const cut of [1, 2, 4, 5]) {
      server.bytes = bytes.slice(0, cut);
      const document = await opened(server);
      server.bytes = bytes;
      server.connect(1);
      expect(linesOf(document)).toEqual(["日本"]);
    }
  });

  it("takes bytes once, however often they are sent again", async () => {
    const server = new Server();
    const document = await opened(server);
    server.print("one\ntwo");
    server.connect();
    const again = btoa("one\ntwo\nthree\n");
    server.emit({ event: "log", data: { path: "log", offset: 0, data: again } });
    expect(linesOf(document)).toEqual(["one", "two", "three"]);
    server.bytes = encoder.encode("one\ntwo\nthree\n");
    server.connect();
    expect(server.streams.at(-1)!.offset).toBe(14);
    expect(document.lineCount).toBe(3);
  });

  it("begins again with a later attempt", async () => {
    const server = new Server();
    server.print("first\n");
    const document = await opened(server);
    server.connect();
    server.emit({ event: "attempt", data: { attempt: 2 } });
    server.bytes = encoder.encode("second\n");
    server.connect();
    expect([linesOf(document), document.attempt, server.streams.at(-1)]).toEqual([["second"], 2, { offset: 0, attempt: 2 }]);
  });

  it("names the place of bytes that were not kept", async () => {
    const server = new Server();
    const document = await opened(server);
    server.print("head\n");
    server.connect();
    server.emit({ event: "gap", data: { path: "log", offset: 5, length: 100 } });
    server.emit({ event: "log", data: { path: "log", offset: 105, data: btoa("tail\n") } });
    server.emit({ event: "end", data: {} });
    expect([linesOf(document), document.gaps, document.isComplete]).toEqual([["head", "tail"], [{ line: 1, length: 100 }], true]);
  });

  it("loads what is scrolled to from a long log, once", async () => {
    const server = new Server();
    server.print(Array.from({ length: 5_500 }, (_, number) => `line ${number}\n`).join(""));
    const document = await opened(server);
    expect([document.lineCount, document.line(5_499), document.line(10)]).toEqual([5_500, "line 5499", undefined]);
    document.need(0, 1_100);
    document.need(0, 1_100);
    await new Promise((resolve) => setTimeout(resolve));
    expect([document.line(10), document.line(1_999), document.line(2_500)]).toEqual(["line 10", "line 1999", undefined]);
    expect(server.reads).toBe(3);
  });

  it("keeps a progress line short", async () => {
    const server = new Server();
    const document = await opened(server);
    server.print(Array.from({ length: 20_000 }, (_, number) => `\r${number} of 20000`).join(""));
    server.connect(1000);
    expect(document.line(0)!.length).toBeLessThan(20_000);
    expect(document.line(0)!.endsWith("\r19999 of 20000")).toBe(true);
  });
});
