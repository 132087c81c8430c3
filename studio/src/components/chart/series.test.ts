import { describe, expect, it } from "vitest";

import { align, columnsOf, extentOf, nearest, smooth, sorted, summaryOf, thin } from "./series";

describe("columnsOf", () => {
  const points = [
    [0, 10, 1000, 1],
    [1, null, 1002.5, "NaN"],
    [2, 30, 1005, 3],
  ];

  it("takes steps, or the index where there is none", () => {
    expect(columnsOf(points, "step").x).toEqual([1, 10, 30]);
  });

  it("counts seconds since the first point or since a start", () => {
    expect(columnsOf(points, "elapsed").x).toEqual([0, 2.5, 5]);
    expect(columnsOf(points, "elapsed", 990).x).toEqual([10, 12.5, 15]);
  });

  it("reads moments as ISO text too, and makes values that are no numbers gaps", () => {
    const { x, y } = columnsOf([[0, 0, "1970-01-01T00:00:05Z", "Infinity"]], "time");
    expect(x).toEqual([5]);
    expect(y).toEqual([null]);
  });
});

describe("sorted", () => {
  it("leaves points in order alone and sorts others with their values", () => {
    const inOrder = { x: [1, 1, 2], y: [1, 2, 3] };
    expect(sorted(inOrder)).toBe(inOrder);
    expect(sorted({ x: [3, 1, 2], y: [30, null, 20] })).toEqual({ x: [1, 2, 3], y: [null, 20, 30] });
  });
});

describe("smooth", () => {
  it("leaves a constant constant, from the first value on", () => {
    const x = [0, 1, 2, 3, 4];
    smooth(x, [7, 7, 7, 7, 7], 0.9).forEach((value) => expect(value).toBeCloseTo(7, 9));
  });

  it("does nothing at weight 0, keeps gaps, and lies between neighbours otherwise", () => {
    expect(smooth([0, 1, 2], [1, null, 3], 0)).toEqual([1, null, 3]);
    const x = Array.from({ length: 1001 }, (_, at) => at);
    const y = x.map((at) => at % 2);
    const smoothed = smooth(x, y, 0.9) as number[];
    expect(Math.abs(smoothed[1000]! - 0.5)).toBeLessThan(0.06);
  });

  it("draws nearly the same line through thinned points", () => {
    const x = Array.from({ length: 10_001 }, (_, at) => at);
    const y = x.map((at) => Math.sin(at / 1000));
    const whole = smooth(x, y, 0.9);
    const some = x.filter((at) => at % 10 === 0);
    const thinned = smooth(some, some.map((at) => y[at]!), 0.9);
    expect(thinned[500]!).toBeCloseTo(whole[5000]!, 1);
  });
});

describe("thin", () => {
  const x = Float64Array.from({ length: 1_000_000 }, (_, at) => at);
  const y = Array.from(x, (at) => (at === 123_456 ? 99 : at === 654_321 ? -99 : Math.sin(at / 5000)));

  it("keeps at most two points a column, and every peak", () => {
    const kept = thin(x, y, 0, 999_999, 800);
    expect(kept.x.length).toBeLessThanOrEqual(2 * 801);
    expect(kept.y).toContain(99);
    expect(kept.y).toContain(-99);
    expect(kept.x).toEqual([...kept.x].sort((a, b) => a - b));
  });

  it("keeps all points of a small range and one beyond each edge", () => {
    expect(thin(x, y, 10, 13, 800).x).toEqual([9, 10, 11, 12, 13, 14]);
  });

  it("keeps a gap of whole columns", () => {
    const withGap = Array.from(y, (value, at) => (at > 400_000 && at < 600_000 ? null : value));
    expect(thin(x, withGap, 0, 999_999, 100).y).toContain(null);
  });
});

describe("align", () => {
  it("puts series on one x, each with its own points", () => {
    expect(align([{ x: [1, 3], y: [10, 30] }, { x: [2, 3], y: [null, 31] }])).toEqual([
      [1, 2, 3],
      [10, undefined, 30],
      [undefined, null, 31],
    ]);
  });

  it("keeps points at the same x", () => {
    expect(align([{ x: [1, 1], y: [10, 11] }, { x: [1], y: [20] }])).toEqual([
      [1, 1],
      [10, 11],
      [20, undefined],
    ]);
  });
});

it("finds the nearest point, the extent and the summary", () => {
  expect(nearest([0, 10, 20], 14)).toBe(1);
  expect(nearest([0, 10, 20], 16)).toBe(2);
  expect(nearest([0, 10, 20], 99)).toBe(2);
  expect(nearest([], 1)).toBe(-1);
  expect(extentOf([{ x: [5, 9] }, { x: [] }, { x: [2, 3] }])).toEqual([2, 9]);
  expect(extentOf([{ x: [] }])).toBeNull();
  expect(summaryOf([1, 2, 3, 4], [5, 2, null, 4])).toEqual({ count: 3, last: 4, min: 2, minAt: 2, max: 5, maxAt: 1 });
  expect(summaryOf([1], [null])).toBeNull();
});
