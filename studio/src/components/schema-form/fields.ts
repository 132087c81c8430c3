/** Fields of a form, read from a JSON schema with the extras of drivers (windlass.drivers.base.shown_in_form). */

export type Schema = {
  type?: string;
  title?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  writeOnly?: boolean;
  items?: Schema;
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  required?: string[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  // extras
  examples?: unknown[];
  group?: string;
  labels?: Record<string, string>;
  unit?: string;
  hidden?: boolean;
  at_least?: string;
  cli?: Partial<Cli>;
  python?: PythonClass;
};

/** The options of a field on the command line. */
export type Cli = { options: string[]; metavar: string; flags: Record<string, string[]>; is_file: boolean };

/** The class that makes such targets in Python, with an argument for each field. */
export type PythonClass = { class: string; arguments: Record<string, string | Record<string, string>>; always: string[] };

export type FieldType = "text" | "number" | "integer" | "boolean" | "choice" | "list" | "map" | "object";
export type Choice = { value: string; label: string; raw: unknown };

export type Field = {
  name: string;
  label: string;
  help: string;
  type: FieldType;
  isRequired: boolean;
  isNullable: boolean;
  isSecret: boolean;
  default: unknown;
  group: string;
  format: string;
  choices: Choice[];
  minimum?: number;
  maximum?: number;
  isOpen: { minimum: boolean; maximum: boolean };
  minLength?: number;
  maxLength?: number;
  pattern?: RegExp;
  unit: string;
  example: string;
  atLeast?: string;
  /** Of the elements of a list, or the values of a map. */
  items?: Field;
  /** Of a nested object. */
  fields?: Field[];
  cli: Cli;
};

export type Values = Record<string, unknown>;

export const BASICS = "";
export const LOGIN = "login";
export const ADVANCED = "advanced";

/** The fields that people fill in, in the order of the schema; `only` limits them to these names. */
export function readFields(schema: Schema | undefined, group = BASICS, only?: readonly string[]): Field[] {
  const found: Field[] = [];
  for (const [name, each] of Object.entries(schema?.properties ?? {})) {
    const field = readField(name, each, schema!, group);
    if (!isHidden(each, field) && (!only || only.includes(name))) found.push(field);
  }
  return found;
}

/** Constants have nothing to fill in. What the command line hides is hidden here too, unless it has a group. */
function isHidden(schema: Schema, field: Field): boolean {
  if (schema.hidden || "const" in schema) return true;
  const { options, flags } = field.cli;
  return !schema.group && options.includes("") && !Object.keys(flags).length;
}

function readField(name: string, schema: Schema, parent: Schema, group: string): Field {
  const alternatives = (schema.anyOf ?? schema.oneOf ?? [schema]).map((each) => resolve(each, parent));
  const shapes = alternatives.filter((each) => each.type !== "null");
  const shape: Schema = shapes[0] ?? {};
  const choices = choicesOf(shape, schema.labels ?? {});
  const type = typeOf(shape, choices);
  const pattern = schema.pattern ?? shape.pattern;
  const valueSchema = typeof shape.additionalProperties === "object" ? shape.additionalProperties : undefined;
  const inner = shape.items ?? valueSchema;
  return {
    name,
    label: labelOf(name, schema.title),
    help: (schema.description ?? "").trim(),
    type,
    isRequired: parent.required?.includes(name) ?? false,
    isNullable: shapes.length < alternatives.length,
    isSecret: shape.writeOnly === true || shape.format === "password",
    default: schema.default,
    group: schema.group ?? group,
    format: schema.format ?? shape.format ?? "",
    choices,
    minimum: shape.exclusiveMinimum ?? shape.minimum,
    maximum: shape.exclusiveMaximum ?? shape.maximum,
    isOpen: { minimum: shape.exclusiveMinimum !== undefined, maximum: shape.exclusiveMaximum !== undefined },
    minLength: shape.minLength,
    maxLength: shape.maxLength,
    pattern: pattern === undefined ? undefined : expression(pattern),
    unit: schema.unit ?? "",
    example: String(schema.examples?.[0] ?? ""),
    atLeast: schema.at_least,
    items: inner && (type === "list" || type === "map") ? readField("", inner, parent, group) : undefined,
    fields: type === "object" ? readFields({ ...shape, $defs: parent.$defs }, group) : undefined,
    cli: { options: [], metavar: "", flags: {}, is_file: false, ...schema.cli },
  };
}

function resolve(schema: Schema, parent: Schema): Schema {
  if (schema.$ref) return { ...parent.$defs?.[schema.$ref.split("/").pop()!], ...schema };
  if (schema.allOf?.length === 1) return { ...resolve(schema.allOf[0]!, parent), ...schema };
  return schema;
}

function choicesOf(shape: Schema, labels: Record<string, string>): Choice[] {
  return (shape.enum ?? []).map((raw) => ({ raw, value: String(raw), label: labels[String(raw)] ?? String(raw) }));
}

function typeOf(shape: Schema, choices: Choice[]): FieldType {
  if (choices.length) return "choice";
  if (shape.type === "integer" || shape.type === "number" || shape.type === "boolean") return shape.type;
  if (shape.type === "array") return "list";
  if (shape.type === "object") return shape.properties ? "object" : "map";
  return "text";
}

/** The title, or the name as words if the title was made from it. */
function labelOf(name: string, title?: string): string {
  const words = name.replaceAll("_", " ").trim();
  const generated = words.toLowerCase().replace(/(^|[^a-z])([a-z])/g, (_, before: string, letter: string) => before + letter.toUpperCase());
  if (title && title !== generated) return title;
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Patterns of Python that this browser cannot read are left to the server. */
function expression(pattern: string): RegExp | undefined {
  try {
    return new RegExp(pattern.replace(/\\Z$/, "$"), "u");
  } catch {
    return undefined;
  }
}

export type Group = { name: string; fields: Field[] };

/** The fields by group: the basics first, then the login, the advanced ones last. */
export function groupsOf(fields: Field[]): Group[] {
  const names = [...new Set(fields.map((field) => field.group))];
  const rank = (name: string) => (name === BASICS ? 0 : name === LOGIN ? 1 : name === ADVANCED ? 3 : 2);
  return names
    .sort((one, other) => rank(one) - rank(other)) // stable
    .map((name) => ({ name, fields: fields.filter((field) => field.group === name) }));
}

export const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === "" ||
  (Array.isArray(value) && !value.length) ||
  (typeof value === "object" && !Array.isArray(value) && !Object.keys(value).length);

export const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

/** The value that a field shows: the given one, or its default. */
export const shownValue = (field: Field, values: Values): unknown =>
  values[field.name] === undefined ? field.default : values[field.name];

/** What a request sends: the given values, without those that are empty or the default. */
export function toRequest(fields: Field[], values: Values): Values {
  const sent: Values = {};
  for (const field of fields) {
    let value = values[field.name];
    if (field.type === "object" && value !== undefined) value = toRequest(field.fields ?? [], value as Values);
    if (field.type === "list" && Array.isArray(value)) value = value.filter((each) => !isEmpty(each));
    if (isEmpty(value) || isSame(value, field.default)) continue;
    sent[field.name] = value;
  }
  return sent;
}

/** The values that differ from the current ones, for a change. A field that was emptied gets null or its default. */
export function toChange(fields: Field[], current: Values, values: Values): Values {
  const sent: Values = {};
  for (const field of fields) {
    if (!(field.name in values)) continue;
    let value = values[field.name];
    if (isEmpty(value) && field.type !== "list" && field.type !== "map") value = field.isNullable ? null : field.default;
    if (!isSame(value ?? null, current[field.name] ?? null)) sent[field.name] = value ?? null;
  }
  return sent;
}
