import { describe, expect, it } from "vitest";

import { CHUNK, LongScroll, RowLayout, rowsOf } from "./row-layout";

describe("RowLayout", () => {
  it("is one row a line without wrapping", () => {
    const layout = new RowLayout(0);
    layout.resize(1_000_000);
    expect([layout.rowCount, layout.rowOf(123_456), layout.lineAt(123_456.7)]).toEqual([1_000_000, 123_456, 123_456]);
    expect(layout.lineAt(5_000_000)).toBe(999_999);
  });

  it("counts the rows of wrapped lines, and lines that are not loaded as one", () => {
    const layout = new RowLayout(10);
    layout.resize(CHUNK + 5);
    layout.measure(1, ["", "x".repeat(10), "x".repeat(11), "x".repeat(35), "y"]);
    expect(layout.rowCount).toBe(CHUNK + 1 + 1 + 2 + 4 + 1);
    expect(layout.rowOf(CHUNK + 4)).toBe(CHUNK + 8);
    expect([0, 1, 2, 3, 4, 7, 8].map((row) => layout.lineAt(CHUNK + row))).toEqual([0, 1, 2, 2, 3, 3, 4].map((line) => CHUNK + line));
  });

  it("grows at its end", () => {
    const layout = new RowLayout(10);
    layout.resize(2);
    layout.measure(0, ["x".repeat(20), "a"]);
    layout.resize(CHUNK + 1);
    expect(layout.rowCount).toBe(CHUNK + 2);
    expect(layout.rowOf(2)).toBe(3);
  });

  it("gives wide characters two columns", () => {
    expect(rowsOf("日本語ログ", 10)).toBe(1);
    expect(rowsOf("日本語ログx", 10)).toBe(2);
    expect(rowsOf("x".repeat(10), 10)).toBe(1);
  });
});

describe("LongScroll", () => {
  it("scrolls as the browser does while the content is not too high", () => {
    const scroll = new LongScroll();
    scroll.resize(10_000, 500);
    expect(scroll.scrolled(300)).toBeNull();
    expect([scroll.top, scroll.shift, scroll.lastTop]).toEqual([300, 0, 9500]);
  });

  it("reaches every line of ten million: near ones by small steps, far ones by the bar", () => {
    const scroll = new LongScroll();
    const height = 10_000_000 * 19;
    scroll.resize(height, 600);
    expect(scroll.goTo(height)).toBe(scroll.barHeight - 600);
    expect(scroll.top).toBe(height - 600);
    scroll.scrolled(scroll.barHeight - 600 - 100);
    expect(scroll.top).toBe(height - 700);
    scroll.scrolled((scroll.barHeight - 600) / 2);
    expect(Math.abs(scroll.top - (height - 600) / 2)).toBeLessThan(20);
  });

  it("moves the bar back when small steps have brought it to an edge too early", () => {
    const scroll = new LongScroll();
    scroll.resize(10_000_000 * 19, 600);
    let position = scroll.goTo(50_000);
    for (let steps = 0; steps < 1000 && scroll.top > 0; steps++) {
      position = Math.max(0, position - 120);
      position = scroll.scrolled(position) ?? position;
    }
    expect([scroll.top, position]).toEqual([0, 0]);
  });
});
