/** What the form of a submit holds, and the run's specification that is made of it. */
import type { Schemas } from "@/api/client";
import { shellWord } from "@/lib/format";

export type Spec = Partial<Schemas["RunSpec"]>;
type Environment = Partial<Schemas["EnvironmentSpec"]>;
type Count = number | "";

export type Draft = {
  experiment: string;
  name: string;
  mode: "script" | "command";
  script: string;
  arguments: string;
  command: string;
  target: string;
  environment: "kept" | "python" | "packages" | "registered" | "image";
  interpreter: string;
  pythonVersion: string;
  pip: string;
  registered: string;
  image: string;
  variables: string;
  secrets: string[];
  tags: string;
  nodes: Count;
  cpus: Count;
  gpus: Count;
  memoryGb: Count;
  minutes: Count;
  priority: Count;
  retries: Count;
  /** What the draft was made from. What the form does not show is taken over from it. */
  base: Spec | null;
};

export const EMPTY: Draft = {
  experiment: "",
  name: "",
  mode: "script",
  script: "",
  arguments: "",
  command: "",
  target: "local",
  environment: "python",
  interpreter: "python3",
  pythonVersion: "",
  pip: "",
  registered: "",
  image: "",
  variables: "",
  secrets: [],
  tags: "",
  nodes: "",
  cpus: "",
  gpus: "",
  memoryGb: "",
  minutes: "",
  priority: "",
  retries: "",
  base: null,
};

/** The form for a specification: of a run, or of a run configuration. */
export function draftOf(spec: Spec, more: Partial<Draft> = {}): Draft {
  const resources = spec.resources;
  const isPlain = spec.environment?.interpreter && !spec.environment.image && !spec.environment.dockerfile;
  return {
    ...EMPTY,
    mode: spec.command?.length ? "command" : "script",
    script: spec.script ?? "",
    arguments: (spec.arguments ?? []).map(shellWord).join(" "),
    command: (spec.command ?? []).map(shellWord).join(" "),
    target: spec.target ?? EMPTY.target,
    environment: isPlain ? "python" : "kept",
    interpreter: spec.environment?.interpreter ?? EMPTY.interpreter,
    pythonVersion: spec.environment?.python_version ?? "",
    pip: (spec.environment?.pip ?? []).join("\n"),
    image: spec.environment?.image ?? "",
    variables: Object.entries(spec.environment_variables ?? {}).map(([key, value]) => `${key}=${value}`).join("\n"),
    secrets: [...(spec.secrets ?? [])],
    nodes: resources?.nodes ?? "",
    cpus: resources?.cpus ?? "",
    gpus: resources?.gpus ?? "",
    memoryGb: resources?.memory_mb ? resources.memory_mb / 1024 : "",
    minutes: spec.max_run_duration_seconds ? spec.max_run_duration_seconds / 60 : "",
    priority: spec.priority || "",
    retries: spec.retries?.count || "",
    base: spec,
    ...more,
  };
}

/** The specification of a draft. `registered` is the definition of the chosen registered environment. */
export function specOf(draft: Draft, snapshot: string | null, registered?: Schemas["EnvironmentView"]): Spec {
  const { definition: _, ...base } = draft.base ?? {}; // Azure's form of the old specification, not of this one
  const isScript = draft.mode === "script";
  return {
    ...base,
    script: isScript ? draft.script.trim() : null,
    arguments: isScript ? words(draft.arguments) : [],
    command: isScript ? [] : words(draft.command),
    target: draft.target,
    environment: environmentOf(draft, registered) as Schemas["EnvironmentSpec"],
    container: draft.environment === "image" ? (base.container ?? ({} as Schemas["Container"])) : draft.environment === "kept" ? base.container : null,
    environment_variables: pairs(draft.variables),
    secrets: draft.secrets,
    resources: {
      nodes: draft.nodes === "" ? null : draft.nodes,
      cpus: draft.cpus === "" ? null : draft.cpus,
      gpus: draft.gpus === "" ? null : draft.gpus,
      memory_mb: draft.memoryGb === "" ? null : Math.round(draft.memoryGb * 1024),
    },
    max_run_duration_seconds: draft.minutes === "" ? null : Math.round(draft.minutes * 60),
    priority: draft.priority === "" ? 0 : draft.priority,
    retries: { ...base.retries, count: draft.retries === "" ? 0 : draft.retries } as Schemas["RetryPolicy"],
    ...(snapshot ? { snapshot } : { snapshot: null }),
  };
}

function environmentOf(draft: Draft, registered?: Schemas["EnvironmentView"]): Environment {
  const kept = draft.base?.environment;
  switch (draft.environment) {
    case "kept":
      return kept ?? { interpreter: EMPTY.interpreter };
    case "python":
      return { interpreter: draft.interpreter.trim() || EMPTY.interpreter };
    case "packages":
      return { pip: lines(draft.pip), python_version: draft.pythonVersion.trim() || null };
    case "image":
      return { interpreter: "python3", image: draft.image.trim() };
    case "registered":
      if (!registered) throw new Error("Choose a registered environment.");
      return environmentOfDefinition(registered);
  }
}

type Definition = {
  python?: {
    interpreterPath?: string;
    userManagedDependencies?: boolean;
    condaDependencies?: { channels?: string[]; dependencies?: (string | { pip?: string[] })[] };
  };
  docker?: { baseImage?: string | null; baseDockerfile?: string | null };
  environmentVariables?: Record<string, string>;
};

const PYTHON = /^python\s*(?:==?\s*)?([0-9][0-9.*]*)?/;

/** A registered environment, whose definition has Azure's form, as a run needs it. */
export function environmentOfDefinition({ name, version, definition }: Schemas["EnvironmentView"]): Environment {
  const { python, docker, environmentVariables } = definition as Definition;
  const common = {
    name,
    version,
    variables: environmentVariables ?? {},
    image: docker?.baseImage || null,
    dockerfile: docker?.baseDockerfile || null,
  };
  const dependencies = python?.condaDependencies?.dependencies ?? [];
  if (python?.userManagedDependencies || !python?.condaDependencies) {
    return { ...common, interpreter: python?.interpreterPath || "python3" };
  }
  const conda = dependencies.filter((each): each is string => typeof each === "string");
  const pip = dependencies.flatMap((each) => (typeof each === "string" ? [] : (each.pip ?? [])));
  const chosen = conda.find((line) => PYTHON.test(line) && /^python(?![\w-])/.test(line));
  const packages = conda.filter((line) => line !== chosen && !/^(pip|setuptools|wheel)(?![\w-])/.test(line));
  return {
    ...common,
    python_version: chosen ? (PYTHON.exec(chosen)?.[1] ?? null) : null,
    pip: pip.filter((line) => !line.startsWith("-")),
    pip_options: pip.filter((line) => line.startsWith("-")),
    conda: packages,
    channels: packages.length ? (python.condaDependencies.channels ?? []) : [],
  };
}

/** The words of a command line, read as a POSIX shell does, without variables or other expansions. */
export function words(text: string): string[] {
  const found: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]!;
    if (quote) {
      if (sign === quote) quote = "";
      else if (sign === "\\" && quote === '"' && /["\\$`]/.test(text[at + 1] ?? "")) word += text[++at]!;
      else word += sign;
    } else if (sign === "'" || sign === '"') {
      quote = sign;
      word ??= "";
    } else if (sign === "\\" && at + 1 < text.length) {
      at++;
      if (text[at] !== "\n") word = (word ?? "") + text[at]!;
    } else if (/\s/.test(sign)) {
      if (word !== null) found.push(word);
      word = null;
    } else {
      word = (word ?? "") + sign;
    }
  }
  if (quote) throw new Error(`A quotation mark ${quote} is not closed.`);
  if (word !== null) found.push(word);
  return found;
}

export function lines(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));
}

/** KEY=VALUE lines. A line without a value is refused. */
export function pairs(text: string): Record<string, string> {
  return Object.fromEntries(
    lines(text).map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`Write KEY=VALUE: ${line.slice(0, 60)}`);
      return [line.slice(0, at).trim(), line.slice(at + 1)];
    }),
  );
}

/** What is missing or wrong, by field. Empty if the draft can be submitted. */
export function problemsOf(draft: Draft, files: string[] | null): Partial<Record<keyof Draft, string>> {
  const problems: Partial<Record<keyof Draft, string>> = {};
  const check = (key: keyof Draft, read: () => unknown) => {
    try {
      read();
    } catch (error) {
      problems[key] = (error as Error).message;
    }
  };
  if (!draft.experiment.trim()) problems.experiment = "Name an experiment.";
  else if (!/^[a-zA-Z0-9][a-zA-Z0-9_-]*$/.test(draft.experiment.trim())) problems.experiment = "Letters, digits, '-' and '_'.";
  if (!draft.target) problems.target = "Choose a target.";
  if (draft.mode === "script") {
    check("arguments", () => words(draft.arguments));
    if (!draft.script.trim()) problems.script = "Choose the script.";
    else if (files && !files.includes(draft.script.trim())) problems.script = "The folder has no such file.";
  } else {
    check("command", () => words(draft.command));
    if (!draft.command.trim()) problems.command = "Type the command.";
  }
  if (draft.environment === "packages" && !lines(draft.pip).length && !draft.pythonVersion.trim()) {
    problems.pip = "Name at least one package, or a version of Python.";
  }
  if (draft.environment === "registered" && !draft.registered) problems.registered = "Choose an environment.";
  if (draft.environment === "image" && !draft.image.trim()) problems.image = "Name the image.";
  check("variables", () => pairs(draft.variables));
  check("tags", () => pairs(draft.tags));
  return problems;
}

/** The same submit as a command line, for the folder that has the files. */
export function commandOf(draft: Draft, workspace: string, fromRun: string | null): string {
  const options: string[] = [];
  const add = (option: string, value: string | number) => value !== "" && options.push(option, shellWord(String(value)));
  if (workspace !== "default") add("-w", workspace);
  add("-c", draft.target);
  add("-e", draft.experiment.trim());
  add("-n", draft.name.trim());
  add("--nodes", draft.nodes);
  add("--cpus", draft.cpus);
  add("--gpus", draft.gpus);
  if (draft.memoryGb !== "") add("--memory", `${Math.round(draft.memoryGb * 1024)}M`);
  if (draft.minutes !== "") add("--timeout", `${draft.minutes}m`);
  add("--priority", draft.priority);
  add("--retries", draft.retries);
  if (draft.environment === "packages") {
    for (const line of lines(draft.pip)) add("--pip", line);
    add("--python", draft.pythonVersion.trim());
  } else if (draft.environment === "image") add("--image", draft.image.trim());
  else if (draft.environment === "registered") add("--environment", draft.registered);
  else if (draft.environment === "python" && draft.interpreter.trim() !== EMPTY.interpreter) add("--python", draft.interpreter.trim());
  for (const [key, value] of safePairs(draft.variables)) add("--env", `${key}=${value}`);
  for (const secret of draft.secrets) add("--secret", secret);
  for (const [key, value] of safePairs(draft.tags)) add("--tag", `${key}=${value}`);
  const what = draft.mode === "script" ? `${shellWord(draft.script || "train.py")} ${draft.arguments}` : `-- ${draft.command}`;
  if (fromRun) {
    const changed = draft.mode === "script" ? (draft.arguments.trim() ? `-- ${draft.arguments}` : "") : `-- ${draft.command}`;
    return `windlass rerun ${shellWord(fromRun)} ${options.join(" ")} ${changed}`.trim();
  }
  return `windlass submit ${options.join(" ")} ${what}`.trim();
}

function safePairs(text: string): [string, string][] {
  try {
    return Object.entries(pairs(text));
  } catch {
    return [];
  }
}
