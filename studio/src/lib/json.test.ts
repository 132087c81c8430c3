import { expect, it } from "vitest";

import { parseJson } from "./json";

it("reads numbers that JSON does not have as texts, and leaves texts alone", () => {
  expect(parseJson('{"a":NaN,"b":[-Infinity,Infinity,1],"c":"is NaN, \\"NaN\\" too","NaN":2}')).toEqual({
    a: "NaN",
    b: ["-Infinity", "Infinity", 1],
    c: 'is NaN, "NaN" too',
    NaN: 2,
  });
  expect(parseJson('{"a":1}')).toEqual({ a: 1 });
});
