import { describe, expect, it } from "vitest";

import { parseCsv } from "./csv";
import { firstOpen, rowsOf } from "./file-tree";
import { firstLines, isText, kindOf } from "./preview-kind";

const files = ["outputs/a/model.bin", "outputs/b10.txt", "outputs/b2.txt", "user_logs/std_log.txt"].map((path, index) => ({ path, size: 10 ** index }));

describe("the tree of files", () => {
  it("shows folders first, with the size of what is in them, and numbers in order", () => {
    expect(rowsOf(files, new Set(["outputs"])).map(({ path, size }) => [path, size])).toEqual([
      ["outputs", 111],
      ["outputs/a", 1],
      ["outputs/b2.txt", 100],
      ["outputs/b10.txt", 10],
      ["user_logs", 1000],
    ]);
  });

  it("opens everything that matches a filter", () => {
    expect(rowsOf(files, new Set(), "MODEL").map(({ path }) => path)).toEqual(["outputs", "outputs/a", "outputs/a/model.bin"]);
  });

  it("opens all folders of a few files, and the way to the chosen one of many", () => {
    expect([...firstOpen(files)]).toEqual(["outputs", "outputs/a", "user_logs"]);
    const many = Array.from({ length: 100 }, (_, index) => ({ path: `deep/in/${index}`, size: 1 }));
    expect([...firstOpen(many)]).toEqual([]);
    expect([...firstOpen(many, "deep/in/7")]).toEqual(["deep", "deep/in"]);
  });
});

describe("previews", () => {
  const text = new TextEncoder().encode("日本語");

  it("know text by its bytes, also when it is cut in a character", () => {
    expect([isText(text), isText(text.slice(0, 4)), isText(Uint8Array.from([0xff, 0xfe])), isText(Uint8Array.from([65, 0]))]).toEqual([true, true, false, false]);
  });

  it("are chosen by name and content; pages are shown as text", () => {
    const kinds = ["a.png", "a.CSV", "a.json", "a.html", "a.svg", "a"].map((path) => kindOf(path, 10, text));
    expect(kinds).toEqual(["image", "csv", "json", "text", "image", "text"]);
    expect(kindOf("model.json", 10, Uint8Array.from([0]))).toBe("binary");
    expect(kindOf("a.json", 1e9, text)).toBe("text");
  });

  it("leave out what was cut", () => {
    expect(firstLines("a\nb\nc", true, 10)).toEqual({ lines: ["a", "b"], isCut: true });
    expect(firstLines("a\nb\n", false, 10)).toEqual({ lines: ["a", "b"], isCut: false });
    expect(firstLines("a\nb\nc", false, 2)).toEqual({ lines: ["a", "b"], isCut: true });
  });

  it("read CSV with quotes, up to a thousand rows", async () => {
    expect(await parseCsv('id,text\n1,"a, ""b""\nc"\n', false)).toEqual({ header: ["id", "text"], rows: [["1", 'a, "b"\nc']], isCut: false });
    const long = await parseCsv("id\n" + Array.from({ length: 3000 }, (_, row) => `${row}\n`).join(""), false);
    expect([long.rows.length, long.isCut]).toEqual([1000, true]);
    expect((await parseCsv("id\n1\n2", true)).rows).toEqual([["1"]]);
  });
});
