import { expect, it } from "vitest";

import { listOf, parseSearch, textOf, writeSearch } from "./search";

it("keeps texts as they are and repeats the key of a list", () => {
  const search = { search: "007", tag: ["a:1", "b=&?"], where: "metric.loss<1e5" };
  expect(parseSearch(writeSearch(search))).toEqual(search);
  expect(writeSearch({ run: ["a", "b"] })).toBe("?run=a&run=b");
});

it("leaves out what is empty", () => {
  expect(writeSearch({ a: "", b: undefined, c: [], d: null })).toBe("");
  expect(parseSearch("?a=&b=1")).toEqual({ b: "1" });
});

it("reads one and many values alike", () => {
  expect(listOf("a")).toEqual(["a"]);
  expect(listOf(undefined)).toEqual([]);
  expect(textOf(["a", "b"])).toBe("a");
  expect(textOf(undefined)).toBe("");
});
