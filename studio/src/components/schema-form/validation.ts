/** Checks values against the fields of a schema, in the browser. The server checks them again. */
import { type Field, isEmpty, shownValue, type Values } from "./fields";

export type Errors = Record<string, string>;

/** The message of each field that is not valid. `isChange`: what is missing stays as it is. */
export function validate(fields: Field[], values: Values, isChange = false): Errors {
  const errors: Errors = {};
  for (const field of fields) {
    const value = values[field.name];
    const problem = isEmpty(value)
      ? field.isRequired && !isChange && isEmpty(field.default)
        ? `${field.label} is required.`
        : ""
      : problemOf(field, value);
    const order = problem || orderProblem(field, fields, values);
    if (order) errors[field.name] = order;
  }
  return errors;
}

function orderProblem(field: Field, fields: Field[], values: Values): string {
  const other = fields.find(({ name }) => name === field.atLeast);
  if (!other) return "";
  const [own, least] = [shownValue(field, values), shownValue(other, values)];
  if (typeof own !== "number" || typeof least !== "number" || own >= least) return "";
  return `This must not be less than ${other.label.toLowerCase()} (${least}).`;
}

/** The problem of a value, or "". */
export function problemOf(field: Field, value: unknown): string {
  switch (field.type) {
    case "integer":
    case "number":
      return numberProblem(field, value);
    case "choice":
      return field.choices.some(({ raw }) => raw === value)
        ? ""
        : `Choose one of ${field.choices.map(({ label }) => label).join(", ")}.`;
    case "boolean":
      return typeof value === "boolean" ? "" : "This is yes or no.";
    case "list":
      return first(value as unknown[], (each) => (field.items && !isEmpty(each) ? problemOf(field.items, each) : ""));
    case "map":
      return mapProblem(field, value as Values);
    case "object":
      return first(Object.values(validate(field.fields ?? [], value as Values)), (each) => each);
    default:
      return textProblem(field, value);
  }
}

function numberProblem(field: Field, value: unknown): string {
  const kind = field.type === "integer" ? "a whole number" : "a number";
  if (typeof value !== "number" || !Number.isFinite(value) || (field.type === "integer" && !Number.isInteger(value))) {
    return `This is ${kind}.`;
  }
  const { minimum: low, maximum: high, isOpen } = field;
  const isLow = low !== undefined && (value < low || (isOpen.minimum && value === low));
  const isHigh = high !== undefined && (value > high || (isOpen.maximum && value === high));
  if (!isLow && !isHigh) return "";
  const least = low === undefined ? "" : `${isOpen.minimum ? "more than" : "at least"} ${low}`;
  const most = high === undefined ? "" : `${isOpen.maximum ? "less than" : "at most"} ${high}`;
  return `This is ${kind}: ${[least, most].filter(Boolean).join(", ")}.`;
}

function textProblem(field: Field, value: unknown): string {
  if (typeof value !== "string") return "This is a text.";
  const length = [...value].length;
  if (field.minLength !== undefined && length < field.minLength) return `At least ${field.minLength} characters.`;
  if (field.maxLength !== undefined && length > field.maxLength) {
    return `At most ${field.maxLength} characters; these are ${length}.`;
  }
  if (field.pattern && !field.pattern.test(value)) return field.example ? `It looks like ${field.example}.` : "This has not the right form.";
  return "";
}

function mapProblem(field: Field, value: Values): string {
  if (Object.keys(value).some((key) => !key)) return "Each value needs a name.";
  return first(Object.values(value), (each) => (field.items ? problemOf(field.items, each) : ""));
}

function first<Each>(values: Each[], problem: (each: Each) => string): string {
  for (const each of values) {
    const found = problem(each);
    if (found) return found;
  }
  return "";
}

/** The names of fields that an error of the server names, with its messages: `details.invalid`, or `details.fields`. */
export function errorsOf(details: Record<string, unknown>, part: "config" | "credentials"): Errors {
  const errors: Errors = {};
  const { invalid, fields } = details;
  if (invalid && typeof invalid === "object" && !Array.isArray(invalid)) {
    for (const [path, message] of Object.entries(invalid)) {
      const [where, name] = path.split(".");
      if (where === part && name) errors[name] = capital(String(message));
    }
  }
  if (part === "credentials" && Array.isArray(fields)) {
    for (const name of fields) errors[String(name)] = "This is needed to log in.";
  }
  return errors;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
