import { expect, it } from "vitest";

import type { RunDetails } from "@/api/queries";
import { differs, factsOf, fileFacts, flat, metricFacts, parameterFacts } from "./differences";

it("has a row for each name, with nothing for runs that lack it", () => {
  const facts = factsOf([new Map([["a", "1"]]), new Map([["a", "1"], ["b", "2"]])]);
  expect(facts).toEqual([
    { name: "a", values: ["1", "1"] },
    { name: "b", values: [undefined, "2"] },
  ]);
  expect(facts.map(differs)).toEqual([false, true]);
});

it("flattens objects and leaves out what is empty", () => {
  expect(Object.fromEntries(flat({ image: "x", pip: ["a", "b"], conda: [], variables: { A: "1" }, strict: false, name: "" }))).toEqual({
    image: "x", pip: "a, b", "variables.A": "1", strict: "false",
  });
});

it("compares arguments of scripts and of commands", () => {
  const runs = [{ spec: { arguments: ["--lr", "0.1"] } }, { spec: { command: ["python", "x.py", "--lr=0.2"] } }, { spec: null }];
  expect(parameterFacts(runs as unknown as RunDetails[])).toEqual([{ name: "lr", values: ["0.1", "0.2", undefined] }]);
});

it("compares last, lowest and highest values of scalars only", () => {
  const series = { loss: { kind: "scalar", count: 2, values: [{ v: 0.5, t: 0 }], min: 0.25, max: 1 }, image: { kind: "image", count: 1, values: [] } };
  expect(metricFacts([series as never, undefined]).map(({ name, values }) => [name, ...values])).toEqual([
    ["loss", "0.5", undefined],
    ["loss, lowest", "0.25", undefined],
    ["loss, highest", "1", undefined],
  ]);
});

it("tells files apart by their digests", () => {
  const file = (path: string, digest: string) => ({ path, digest, size: 10 });
  const facts = fileFacts([[file("b.py", "1".repeat(64)), file("a.py", "2".repeat(64))], [file("b.py", "3".repeat(64)), file("a.py", "2".repeat(64))]]);
  expect(facts.map(({ name }) => name)).toEqual(["a.py", "b.py"]);
  expect(facts.map(differs)).toEqual([false, true]);
});
