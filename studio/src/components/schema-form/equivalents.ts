/** What a form does, as a command and as Python code, with the names of the schema. Secrets are never in them. */
import { python, shellWord } from "@/lib/format";

import { type Field, isEmpty, type PythonClass, toRequest, type Values } from "./fields";

export type Draft = {
  kind: string;
  name: string;
  workspace: string;
  isAttached: boolean;
  fields: Field[];
  secrets: Field[];
  values: Values;
  /** The names of the secrets that are given. */
  given: string[];
  /** The files that secrets were read from, by name. */
  files: Record<string, string>;
  slots: number | null;
  /** The fingerprint of the identity, once it was compared. */
  fingerprint: string;
  /** The identity itself. */
  pin: string;
  python?: PythonClass;
};

const ATTACH_OPTIONS = ["--slots", "--update", "--pin", "--host-key", "-y", "--yes"];
const CREATE_OPTIONS = ["--slots", "--no-wait"];

/** The command, and the labels of what it has no option for. */
export function command(draft: Draft): { text: string; missing: string[] } {
  const words = ["windlass", "compute", draft.isAttached ? "attach" : "create", draft.kind, draft.name || "NAME"];
  if (draft.workspace !== "default") words.push("-w", draft.workspace);
  const taken = new Set(["-h", "--help", ...(draft.isAttached ? ATTACH_OPTIONS : CREATE_OPTIONS)]);
  const { options, missing } = optionsOf(draft.fields, settingsOf(draft), taken, false);
  words.push(...options);
  for (const field of draft.secrets) {
    if (draft.given.includes(field.name)) words.push(...secretOption(field, draft.files[field.name], taken));
  }
  if (draft.fingerprint) words.push("--pin", draft.fingerprint);
  if (draft.slots !== null) words.push("--slots", String(draft.slots));
  return { text: wrapped(words), missing };
}

/** The settings, with a word for each required one that is still empty. */
function settingsOf({ fields, values }: Draft): Values {
  const empty = fields.filter((field) => field.isRequired && isEmpty(values[field.name]) && isEmpty(field.default));
  const words = empty.map((field) => [field.name, field.cli.metavar || field.name.toUpperCase()]);
  return { ...Object.fromEntries(words), ...toRequest(fields, values) } as Values;
}

/** The command that changes settings of a target. */
export function updateCommand(name: string, workspace: string, fields: Field[], changes: Values, slots?: number | null): string {
  const words = ["windlass", "compute", "update", name];
  if (workspace !== "default") words.push("-w", workspace);
  words.push(...optionsOf(fields, changes, new Set(["-h", "--help", ...CREATE_OPTIONS]), true).options);
  if (slots !== undefined && slots !== null) words.push("--slots", String(slots));
  return wrapped(words);
}

function optionsOf(fields: Field[], values: Values, taken: Set<string>, isChange: boolean) {
  const options: string[] = [];
  const missing: string[] = [];
  for (const field of fields) {
    if (!(field.name in values)) continue;
    const found = optionOf(field, values[field.name], taken, isChange);
    if (found) options.push(...found);
    else if (!Object.keys(field.cli.flags).length) missing.push(field.label);
  }
  return { options, missing };
}

/** The words of an option with its value, or null if there is none for it. */
function optionOf(field: Field, value: unknown, taken: Set<string>, isChange: boolean): string[] | null {
  const flags = field.cli.flags[String(value)];
  if (flags) return [preferred(flags.filter((word) => word.startsWith("-")))];
  const { options } = field.cli;
  if (options.includes("")) return null;
  const free = (options.length ? options : [`--${dashed(field.name)}`]).filter((each) => !taken.has(each));
  const name = free.length ? preferred(free) : `--config-${dashed(field.name)}`;
  if (field.type === "boolean") return [flagOf(name, value === true, isChange || field.default !== false)];
  if (field.type === "list") return (value as unknown[]).flatMap((each) => [name, String(each)]);
  if (field.type === "map") return Object.entries(value as Values).flatMap(([key, each]) => [name, `${key}=${String(each)}`]);
  if (field.type === "object") return null;
  return [name, value === null ? "" : spelled(field, value)];
}

/** A flag, or the side of a pair of flags that sets or unsets the field. */
function flagOf(name: string, isOn: boolean, isPair: boolean): string {
  const [on = name, off] = name.split("/");
  if (isOn) return on;
  return off ?? (isPair ? `--no-${on.slice(2)}` : on);
}

/** The value as the option spells it: `low` for the second of dedicated|low. */
function spelled(field: Field, value: unknown): string {
  const own = field.cli.metavar.split("|");
  const place = field.choices.findIndex(({ raw }) => raw === value);
  return own.length > 1 && own[place] ? own[place] : String(value);
}

function secretOption(field: Field, file: string | undefined, taken: Set<string>): string[] {
  const own = field.cli.options.filter((each) => each.startsWith("--") && !taken.has(each));
  const dashes = dashed(field.name);
  if (field.cli.is_file) return [own[0] ?? `--${dashes.replace(/-file$/, "")}-file`, file ?? "FILE"];
  return [`--ask-${(own[0] ?? `--${dashes}`).slice(2)}`];
}

const preferred = (names: string[]): string => names.find((each) => each.startsWith("--")) ?? names[0]!;
const dashed = (name: string): string => name.replaceAll("_", "-");

/** One line, or one option a line if it is long. */
function wrapped(words: string[]): string {
  const quoted = words.map(shellWord);
  const line = quoted.join(" ");
  if (line.length <= 76) return line;
  const lines: string[] = [];
  quoted.forEach((word, index) => {
    const isOption = words[index]!.startsWith("-") && words[index] !== "-w";
    if (isOption || !lines.length) lines.push(word);
    else lines[lines.length - 1] += ` ${word}`;
  });
  return lines.join(" \\\n  ");
}

/** Python code with the class of the kind, or by the settings of the kind if the class has no argument for one. */
export function pythonCode(draft: Draft): string {
  const secrets = draft.secrets.filter(({ name }) => draft.given.includes(name));
  const settings = settingsOf(draft);
  const own = draft.slots === null ? ownClass(draft, settings, secrets) : null;
  const [className, configuration] = own ?? anyKind(draft, settings, secrets);
  const imports = ["ComputeTarget", "Workspace", className].sort();
  const usesPrompt = configuration.some((line) => line.includes("getpass("));
  const workspace = draft.workspace === "default" ? "Workspace.from_config()" : `Workspace.get(${python(draft.workspace)})`;
  return [
    ...(usesPrompt ? ["from getpass import getpass", ""] : []),
    `from windlass import ${imports.join(", ")}`,
    "",
    `workspace = ${workspace}`,
    ...configuration,
    `target = ComputeTarget.${draft.isAttached ? "attach" : "create"}(workspace, ${python(draft.name || "NAME")}, configuration)`,
    "target.wait_for_completion(show_output=True)",
  ].join("\n");
}

function ownClass(draft: Draft, settings: Values, secrets: Field[]): [string, string[]] | null {
  if (!draft.python) return null;
  const { class: name, arguments: known, always } = draft.python;
  const texts: string[] = [];
  const all: Values = { ...settings };
  for (const field of draft.fields) {
    if (always.includes(field.name) && !(field.name in all)) all[field.name] = draft.values[field.name] ?? field.default;
  }
  for (const field of draft.fields) {
    if (!(field.name in all)) continue;
    const argument = known[field.name];
    const value = all[field.name];
    if (argument === undefined) return null;
    if (typeof argument === "string") texts.push(`${argument}=${python(value)}`);
    else if (argument[String(value)]) texts.push(`${argument[String(value)]}=True`);
  }
  for (const field of secrets) {
    const argument = known[field.name];
    if (typeof argument !== "string") return null;
    texts.push(`${argument}=${field.cli.is_file ? python(draft.files[field.name] ?? "FILE") : prompt(field)}`);
  }
  if (draft.pin && typeof known.pin === "string") texts.push(`${known.pin}=${python(draft.pin)}`);
  const method = draft.isAttached ? "attach_configuration" : "provisioning_configuration";
  return [name, called(`configuration = ${name}.${method}`, texts)];
}

function anyKind(draft: Draft, settings: Values, secrets: Field[]): [string, string[]] {
  const name = draft.isAttached ? "KindAttachConfiguration" : "KindProvisioningConfiguration";
  const texts = [python(draft.kind), python(settings)];
  if (secrets.length) {
    const entries = secrets.map((field) => `${python(field.name)}: ${secretValue(field, draft.files[field.name])}`);
    texts.push(`{${entries.join(", ")}}`);
  }
  if (draft.pin) texts.push(`pin=${python(draft.pin)}`, "pin_confirmed=True");
  if (draft.slots !== null) texts.push(`slots=${draft.slots}`);
  return [name, called(`configuration = ${name}`, texts)];
}

const secretValue = (field: Field, file?: string): string =>
  field.cli.is_file ? `open(${python(file ?? "FILE")}).read()` : prompt(field);
const prompt = (field: Field): string => `getpass(${python(`${field.label}: `)})`;

function called(head: string, texts: string[]): string[] {
  const line = `${head}(${texts.join(", ")})`;
  return line.length <= 88 ? [line] : [`${head}(`, ...texts.map((each) => `    ${each},`), ")"];
}

/** Python code that changes settings of a target. */
export function updateCode(name: string, workspace: string, changes: Values): string {
  const found = workspace === "default" ? "Workspace.from_config()" : `Workspace.get(${python(workspace)})`;
  const texts = Object.entries(changes).map(([key, value]) => `${key}=${python(value)}`);
  return [
    "from windlass import ComputeTarget, Workspace",
    "",
    `target = ComputeTarget(${found}, ${python(name)})`,
    ...called("target.update_settings", texts),
  ].join("\n");
}
