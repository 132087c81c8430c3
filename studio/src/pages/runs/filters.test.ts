import { describe, expect, it } from "vitest";

import { condition, conditionText, filtersOf, isFiltered, moment, nextSort, parametersOf, withoutFilters } from "./filters";

const NOW = Date.parse("2026-05-04T12:00:00Z");

describe("filtersOf", () => {
  it("takes single values and lists, and leaves out what is not set", () => {
    expect(filtersOf({ state: "Failed", tag: ["a", "b:1"], search: "" }, NOW)).toEqual({ state: ["Failed"], tag: ["a", "b:1"] });
  });

  it("makes moments of times before now, and ignores what is no time", () => {
    expect(filtersOf({ since: "2d" }, NOW).since).toBe("2026-05-02T12:00:00.000Z");
    expect(filtersOf({ since: "yesterday" }, NOW)).toEqual({});
  });

  it("passes only known values of archived", () => {
    expect(filtersOf({ archived: "all" }, NOW)).toEqual({ archived: "all" });
    expect(filtersOf({ archived: "maybe" }, NOW)).toEqual({});
  });
});

it("clears filters and keeps columns and sort", () => {
  const search = { state: "Failed", column: ["name"], sort: "name" };
  expect(isFiltered(search)).toBe(true);
  expect(withoutFilters(search)).toEqual({ column: ["name"], sort: "name" });
  expect(isFiltered(withoutFilters(search))).toBe(false);
});

it("reads moments", () => {
  expect(moment("90m", NOW)).toBe("2026-05-04T10:30:00.000Z");
  expect(moment("2026-01-02", NOW)).toBe("2026-01-02T00:00:00.000Z");
  expect(moment("2x", NOW)).toBeUndefined();
});

describe("condition", () => {
  it.each([
    ["loss<0.1", "metric.loss<0.1"],
    ["metric.loss <= 1e-3", "metric.loss<=1e-3"],
    ["val/top 1 == 3", "metric.val/top 1=3"],
    ["loss", null],
    ["loss<abc", null],
    ["loss << 1", null],
  ])("reads %s", (text, expected) => expect(condition(text)).toBe(expected));

  it("is shown without its prefix", () => expect(conditionText("metric.loss<0.1")).toBe("loss < 0.1"));
});

it("sorts descending, ascending, and as usual again", () => {
  expect(nextSort({}, "metric.loss")).toBe("-metric.loss");
  expect(nextSort({ sort: "-metric.loss" }, "metric.loss")).toBe("metric.loss");
  expect(nextSort({ sort: "metric.loss" }, "metric.loss")).toBeUndefined();
  expect(nextSort({}, "created_at")).toBe("created_at");
});

it("reads parameters from arguments", () => {
  const args = ["train.py", "--alpha", "-0.5", "--name=a=b", "--verbose", "--batch", "32", "-x", "1", "--alpha", "2", "--last"];
  expect(Object.fromEntries(parametersOf(args))).toEqual({
    alpha: "2", name: "a=b", verbose: "true", batch: "32", x: "1", last: "true",
  });
  expect(parametersOf([])).toEqual(new Map());
});
