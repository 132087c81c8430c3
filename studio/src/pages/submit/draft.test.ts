import { describe, expect, it } from "vitest";

import { commandOf, draftOf, EMPTY, environmentOfDefinition, pairs, problemsOf, specOf, words } from "./draft";

describe("words", () => {
  it.each([
    ["", []],
    ["--alpha 0.1", ["--alpha", "0.1"]],
    [`--name 'a b' "c \\"d\\"" e\\ f ''`, ["--name", "a b", 'c "d"', "e f", ""]],
    ["a\\\nb", ["ab"]],
    [`"$HOME" \\$x`, ["$HOME", "$x"]],
  ])("of %j", (text, expected) => expect(words(text)).toEqual(expected));

  it("refuses an open quotation", () => expect(() => words("'a")).toThrow("not closed"));
});

it("reads variables", () => {
  expect(pairs("A=1\n# no\n\nB=x=y")).toEqual({ A: "1", B: "x=y" });
  expect(() => pairs("A")).toThrow("KEY=VALUE");
});

describe("a draft of a run", () => {
  const spec = {
    script: "train.py",
    arguments: ["--name", "a b"],
    target: "gpu",
    environment: { pip: ["numpy"], python_version: "3.12", interpreter: null },
    environment_variables: { A: "1" },
    resources: { nodes: 2, cpus: null, gpus: 1, memory_mb: 8192 },
    distribution: { framework: "mpi" },
    definition: { script: "old" },
    snapshot: "d1",
  } as never;

  it("gives the same specification without changes", () => {
    const made = specOf(draftOf(spec), "d1");
    expect(made).toMatchObject({ script: "train.py", arguments: ["--name", "a b"], target: "gpu", snapshot: "d1" });
    expect(made.environment).toEqual({ pip: ["numpy"], python_version: "3.12", interpreter: null });
    expect(made.resources).toEqual({ nodes: 2, cpus: null, gpus: 1, memory_mb: 8192 });
    expect(made.distribution).toEqual({ framework: "mpi" });
    expect(made).not.toHaveProperty("definition");
  });

  it("is a rerun on the command line", () => {
    const draft = draftOf(spec, { experiment: "demo", arguments: "--x 1" });
    expect(commandOf(draft, "default", "run_1")).toBe(
      "windlass rerun run_1 -c gpu -e demo --nodes 2 --gpus 1 --memory 8192M --env A=1 -- --x 1",
    );
  });
});

it("names what is missing", () => {
  expect(Object.keys(problemsOf(EMPTY, null))).toEqual(["experiment", "script"]);
  const draft = { ...EMPTY, experiment: "a", script: "b.py" };
  expect(problemsOf(draft, ["c.py"])).toEqual({ script: "The folder has no such file." });
  expect(problemsOf(draft, ["b.py"])).toEqual({});
});

it("reads a registered environment", () => {
  const definition = {
    python: { condaDependencies: { channels: ["conda-forge"], dependencies: ["python=3.10", "pip", "scipy", { pip: ["a==1", "--pre"] }] } },
  };
  const view = { name: "e", version: "2", definition, created_by: "", created_at: "" };
  expect(environmentOfDefinition(view)).toMatchObject({
    name: "e",
    version: "2",
    python_version: "3.10",
    pip: ["a==1"],
    pip_options: ["--pre"],
    conda: ["scipy"],
    channels: ["conda-forge"],
  });
});
