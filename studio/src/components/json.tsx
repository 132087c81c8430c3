import { Code } from "./code";

/** A value as indented JSON, to read and to copy. */
export function Json({ value, label }: { value: unknown; label?: string }) {
  return <Code text={JSON.stringify(value, null, 2)} label={label} />;
}
