import { describe, expect, it } from "vitest";

import { codesAfter, lastPart, markSpans, plain, rangesOf, spansOf } from "./ansi";

const ESC = "\x1b";

describe("lastPart", () => {
  it("is what was written after the last carriage return", () => {
    expect(lastPart("10%\r50%\r100%")).toBe("100%");
  });

  it("keeps the last text when the line ends with carriage returns, as lines of Windows do", () => {
    expect(lastPart("100%\r")).toContain("100%");
    expect(plain("done\r\r")).toBe("done");
  });

  it("keeps the colour that an earlier part has set", () => {
    expect(spansOf(`${ESC}[32m10%\r90%`)).toEqual([{ text: "90%", className: "ansi-green-fg" }]);
  });
});

describe("plain", () => {
  it("leaves out everything that is not text", () => {
    expect(plain(`${ESC}[1;31mred${ESC}[0m ${ESC}[2K${ESC}[1A${ESC}]0;title\x07ok${ESC}]8;;http://x${ESC}\\link${ESC}]8;;${ESC}\\`)).toBe("red oklink");
    expect(plain(`a\x00b\x08c${ESC}`)).toBe("abc");
    expect(plain(`cut ${ESC}[3`)).toBe("cut ");
  });

  it("never makes markup", () => {
    expect(plain("<script>alert(1)</script>")).toBe("<script>alert(1)</script>");
    expect(spansOf(`${ESC}[31m<b>&amp;</b>`)[0]!.text).toBe("<b>&amp;</b>");
  });
});

describe("spansOf", () => {
  it("names the sixteen colours by classes", () => {
    expect(spansOf(`a ${ESC}[1;94mb${ESC}[0m c`)).toEqual([{ text: "a " }, { text: "b", className: "ansi-bold ansi-bright-blue-fg" }, { text: " c" }]);
  });

  it("has palette and true colours, with colons too", () => {
    expect(spansOf(`${ESC}[38;5;196mx`)[0]!.color).toBe("rgb(255, 0, 0)");
    expect(spansOf(`${ESC}[38;5;244mx`)[0]!.color).toBe("rgb(128, 128, 128)");
    expect(spansOf(`${ESC}[48;2;1;2;3mx`)[0]!.background).toBe("rgb(1, 2, 3)");
    expect(spansOf(`${ESC}[38:2::255:0:128mx`)[0]!.color).toBe("rgb(255, 0, 128)");
  });

  it("continues the colours of the lines before", () => {
    const codes = codesAfter("", `${ESC}[31mbegin`);
    expect(spansOf("next", codes)[0]!.className).toBe("ansi-red-fg");
    expect(codesAfter(codes, `end${ESC}[0m`)).toBe("");
    expect(codesAfter(codes, `end${ESC}[m`)).toBe("");
  });
});

describe("marks", () => {
  it("finds a text in any case and cuts spans around it", () => {
    const ranges = rangesOf("an Error, error", "error");
    expect(ranges).toEqual([[3, 8], [10, 15]]);
    const parts = markSpans([{ text: "an Er" }, { text: "ror, error", className: "ansi-red-fg" }], ranges);
    expect(parts.map(({ text, isMarked }) => [text, isMarked ?? false])).toEqual([
      ["an ", false],
      ["Er", true],
      ["ror", true],
      [", ", false],
      ["error", true],
    ]);
    expect(parts.map(({ text }) => text).join("")).toBe("an Error, error");
  });
});
