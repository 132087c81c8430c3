import { expect, it } from "vitest";

import type { RunDetails } from "@/api/queries";
import { argumentRows, commandLine, submitCommand, submitPython } from "./equivalent";

const spec = {
  arguments: ["--alpha", "0.1", "--name=a b", "-v", "data.csv"],
  command: [],
  script: "train.py",
  target: "gpu-box",
  secrets: ["HF_TOKEN"],
  environment: { name: "training", version: "2", interpreter: null, python_version: null, pip: [], conda: [], channels: [], image: null },
  environment_variables: { MODE: "it's" },
  resources: { nodes: null, cpus: null, gpus: 1, memory_mb: 8192 },
  retries: { count: 2, evictions: 3, on: ["node-loss"] },
  distribution: null,
  max_run_duration_seconds: null,
  priority: 0,
} as unknown as NonNullable<RunDetails["spec"]>;
const run = { workspace: "default", experiment: "vision", name: "", tags: { stage: "test" } } as unknown as RunDetails;

it("is a line that a shell takes", () => {
  expect(commandLine(spec)).toBe("python train.py --alpha 0.1 '--name=a b' -v data.csv");
});

it("has names and values of arguments", () => {
  expect(argumentRows([...spec.arguments, "more"])).toEqual([
    { name: "--alpha", value: "0.1" },
    { name: "--name", value: "a b" },
    { name: "-v", value: "data.csv" },
    { name: "", value: "more" },
  ]);
});

it("is the same as a command, quoted", () => {
  expect(submitCommand(run, spec).replaceAll(" \\\n  ", " ")).toBe(
    `windlass submit --experiment vision --target gpu-box --environment training:2 --env 'MODE=it'"'"'s' --secret HF_TOKEN ` +
      "--tag stage=test --memory 8192M --gpus 1 --retries 2 --retry-on node-loss train.py --alpha 0.1 '--name=a b' -v data.csv",
  );
});

it("is the same in Python", () => {
  const code = submitPython(run, spec);
  expect(code).toContain('arguments=["--alpha", "0.1", "--name=a b", "-v", "data.csv"],');
  expect(code).toContain('environment = Environment.get(workspace, "training", "2")');
  expect(code).toContain('Experiment(workspace, "vision").submit(config, tags={"stage": "test"})');
});
