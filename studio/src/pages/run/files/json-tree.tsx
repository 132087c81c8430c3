import { UnstyledButton } from "@mantine/core";
import { useState } from "react";

import { plural } from "@/lib/format";

import classes from "./files.module.css";

const MOST_ENTRIES = 200;

type Props = { value: unknown; name?: string; depth?: number };

/** JSON as a tree that opens and closes. */
export function JsonTree({ value, name, depth = 0 }: Props) {
  const [isOpen, setOpen] = useState(depth < 2);
  const [most, setMost] = useState(MOST_ENTRIES);
  const label = name !== undefined && <span className={classes.jsonKey}>{name}: </span>;
  if (typeof value !== "object" || value === null) {
    return (
      <div className={classes.jsonLine}>
        {label}
        <span data-type={value === null ? "null" : typeof value} className={classes.jsonValue}>
          {typeof value === "string" ? JSON.stringify(value) : String(value)}
        </span>
      </div>
    );
  }
  const entries = Object.entries(value);
  const count = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (!entries.length) return <div className={classes.jsonLine}>{label}{Array.isArray(value) ? "[]" : "{}"}</div>;
  return (
    <div>
      <UnstyledButton className={classes.jsonLine} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span aria-hidden>{isOpen ? "▾ " : "▸ "}</span>
        {label}
        <span className={classes.jsonCount}>{count}</span>
      </UnstyledButton>
      {isOpen && (
        <div className={classes.jsonInner}>
          {entries.slice(0, most).map(([key, each]) => (
            <JsonTree key={key} name={key} value={each} depth={depth + 1} />
          ))}
          {entries.length > most && (
            <UnstyledButton className={classes.jsonMore} onClick={() => setMost(most + MOST_ENTRIES * 5)}>
              {plural(entries.length - most, "more entry", "more entries")} …
            </UnstyledButton>
          )}
        </div>
      )}
    </div>
  );
}
