/** The submission of a run as a command and as Python code. */
import type { RunDetails } from "@/api/queries";
import { python, shellWord } from "@/lib/format";

type Spec = NonNullable<RunDetails["spec"]>;

/** What is started on the target, as one line of a shell. */
export function commandLine({ command, script, arguments: words }: Spec): string {
  const begin = command.length ? command : script === null ? [] : ["python", script];
  return [...begin, ...words].map(shellWord).join(" ");
}

/** The arguments of a script as names and values, as far as they can be told apart. */
export function argumentRows(words: string[]): { name: string; value: string }[] {
  const rows: { name: string; value: string }[] = [];
  for (const word of words) {
    const last = rows.at(-1);
    const assigned = /^(--?[A-Za-z][^=]*)=([^]*)$/.exec(word);
    if (assigned) rows.push({ name: assigned[1]!, value: assigned[2]! });
    else if (/^--?[A-Za-z]/.test(word)) rows.push({ name: word, value: "" });
    else if (last?.name.startsWith("-") && last.value === "") last.value = word;
    else rows.push({ name: "", value: word });
  }
  return rows;
}

/** `windlass submit …` that does the same from the folder of the source. */
export function submitCommand(run: RunDetails, spec: Spec): string {
  const options: string[] = [];
  const add = (name: string, value: string | number | null | undefined) => {
    if (value !== null && value !== undefined && value !== "") options.push(`${name} ${shellWord(String(value))}`);
  };
  add("--experiment", run.experiment);
  add("--target", spec.target);
  add("--name", run.name);
  addEnvironment(spec, add);
  Object.entries(spec.environment_variables ?? {}).forEach(([key, value]) => add("--env", `${key}=${value}`));
  spec.secrets.forEach((name) => add("--secret", name));
  Object.entries(run.tags).forEach(([key, value]) => add("--tag", `${key}=${value ?? ""}`));
  const { nodes, cpus, gpus, memory_mb } = spec.resources;
  add("--nodes", nodes);
  add("--cpus", cpus);
  add("--memory", memory_mb ? `${memory_mb}M` : null);
  add("--gpus", gpus);
  add("--timeout", spec.max_run_duration_seconds);
  add("--priority", spec.priority || null);
  add("--retries", spec.retries.count || null);
  if (spec.retries.count) add("--retry-on", spec.retries.on.join(","));
  if (spec.distribution) {
    add("--distribution", spec.distribution.framework);
    add("--processes-per-node", spec.distribution.processes_per_node);
  }
  const words = spec.command.length ? ["--", ...spec.command, ...spec.arguments] : [spec.script ?? "", ...spec.arguments];
  return ["windlass submit", ...options, words.filter(Boolean).map(shellWord).join(" ")].join(" \\\n  ");
}

function addEnvironment({ environment }: Spec, add: (name: string, value: string | null) => void): void {
  const { name, version, interpreter, python_version, pip, image } = environment;
  if (name && version) add("--environment", `${name}:${version}`);
  else {
    if (interpreter && interpreter !== "python3") add("--python", interpreter);
    if (!interpreter && python_version) add("--python", python_version);
    pip.forEach((each) => add("--pip", each));
  }
  add("--image", image);
}

/** The same with the SDK. */
export function submitPython(run: RunDetails, spec: Spec): string {
  const { environment } = spec;
  const names = ["Experiment", "ScriptRunConfig", "Workspace"];
  const lines: string[] = [];
  const given: string[] = ['source_directory="."'];
  if (spec.command.length) given.push(`command=${python([...spec.command, ...spec.arguments])}`);
  else {
    given.push(`script=${python(spec.script)}`);
    if (spec.arguments.length) given.push(`arguments=${python(spec.arguments)}`);
  }
  given.push(`compute_target=${python(spec.target)}`);
  const made = environmentPython(environment);
  if (made.lines.length) {
    names.push(...made.names);
    lines.push(...made.lines);
    given.push("environment=environment");
  }
  const variables = Object.entries(spec.environment_variables ?? {});
  const after = variables.length ? [`config.run_config.environment_variables = ${python(Object.fromEntries(variables))}`] : [];
  const { nodes, cpus, gpus, memory_mb } = spec.resources;
  if (nodes && nodes > 1) after.push(`config.run_config.node_count = ${nodes}`);
  const resources = [cpus && `cpus=${cpus}`, gpus && `gpus=${gpus}`, memory_mb && `memory_mb=${memory_mb}`].filter(Boolean);
  if (resources.length) {
    names.push("ResourceConfiguration");
    given.push(`resources=ResourceConfiguration(${resources.join(", ")})`);
  }
  if (spec.max_run_duration_seconds) given.push(`max_run_duration_seconds=${spec.max_run_duration_seconds}`);
  const tags = Object.keys(run.tags).length ? `, tags=${python(run.tags)}` : "";
  return [
    `from windlass import ${names.sort().join(", ")}`,
    "",
    `workspace = Workspace.get(${python(run.workspace)})`,
    ...lines,
    "config = ScriptRunConfig(",
    ...given.map((each) => `    ${each},`),
    ")",
    ...after,
    `run = Experiment(workspace, ${python(run.experiment)}).submit(config${tags})`,
  ].join("\n");
}

function environmentPython({ name, version, interpreter, python_version, pip, conda, image }: Spec["environment"]): {
  names: string[];
  lines: string[];
} {
  if (name && version) {
    return { names: ["Environment"], lines: [`environment = Environment.get(workspace, ${python(name)}, ${python(version)})`] };
  }
  const lines = [`environment = Environment(${python(name || "training")})`];
  const names = ["Environment"];
  if (!interpreter && (pip.length || conda.length || python_version)) {
    names.push("CondaDependencies");
    const parts = [
      python_version && `python_version=${python(python_version)}`,
      pip.length && `pip_packages=${python(pip)}`,
      conda.length && `conda_packages=${python(conda)}`,
    ].filter(Boolean);
    lines.push(`environment.python.conda_dependencies = CondaDependencies.create(${parts.join(", ")})`);
  } else if (interpreter && interpreter !== "python3") {
    lines.push("environment.python.user_managed_dependencies = True", `environment.python.interpreter_path = ${python(interpreter)}`);
  }
  if (image) lines.push(`environment.docker.base_image = ${python(image)}`);
  return lines.length > 1 ? { names, lines } : { names: [], lines: [] };
}
