/** Forms from JSON schemas: fields, validation, the form itself, and what it does as a command and as Python code. */
export { command, type Draft, pythonCode, updateCode, updateCommand } from "./equivalents";
export { type Field, readFields, type Schema, shownValue, toChange, toRequest, type Values } from "./fields";
export { frame, type InputProps, type Inputs } from "./inputs";
export { SchemaForm } from "./schema-form";
export { type Errors, errorsOf, validate } from "./validation";
