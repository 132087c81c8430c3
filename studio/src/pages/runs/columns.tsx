/** The columns that the table of runs can show. */
import type { ReactNode } from "react";

import { Duration } from "@/components/time";
import { ago, number } from "@/lib/format";
import { listOf, type Search } from "@/lib/search";
import { isFinal, toneOf } from "@/lib/states";
import type { Row } from "./run-list";
import classes from "./run-table.module.css";

export type CellContext = { now: number; hrefOf: (id: string) => string };

export type Column = {
  /** As in the address: `state`, `metric.loss`, `parameter.alpha`, `tag.model`. */
  id: string;
  label: string;
  width: number;
  isNumber?: boolean;
  /** The server's sort key; without it the table cannot be sorted by this column. */
  sort?: string;
  cell: (row: Row, context: CellContext) => ReactNode;
};

const text = (id: keyof Row & string, label: string, width: number, sort?: string): Column => ({
  id,
  label,
  width,
  sort,
  cell: (row) => String(row[id] ?? "") || "–",
});

const time = (id: "created_at" | "started_at" | "ended_at", label: string): Column => ({
  id,
  label,
  width: 112,
  sort: id,
  cell: (row, { now }) => {
    const value = row[id];
    return value ? <time dateTime={value} title={new Date(value).toLocaleString()}>{ago(value, now)}</time> : "–";
  },
});

/** A dot and a word for the state: lighter than StateBadge, for many rows. */
export function State({ row }: { row: Row }) {
  return (
    <span className={classes.state} data-tone={toneOf(row.state)} title={row.message || undefined}>
      <span className={classes.dot} aria-hidden />
      {row.state}
    </span>
  );
}

export const nameOf = (row: Row): string => row.name || row.id;

const FIXED: Column[] = [
  { id: "state", label: "State", width: 128, sort: "state", cell: (row) => <State row={row} /> },
  {
    id: "name",
    label: "Name",
    width: 260,
    sort: "name",
    cell: (row, { hrefOf }) => (
      <a href={hrefOf(row.id)} data-run={row.id} tabIndex={-1} className={classes.name} title={row.id}>
        {nameOf(row)}
        {row.archived_at && <span className={classes.archived}>archived</span>}
      </a>
    ),
  },
  text("experiment", "Experiment", 150, "experiment"),
  { ...text("target", "Target", 120), cell: (row) => row.target || <span className={classes.dim}>this process</span> },
  text("submitted_by", "By", 110),
  time("created_at", "Created"),
  {
    id: "duration",
    label: "Duration",
    width: 112,
    sort: "duration",
    cell: (row) => <Duration start={row.started_at} end={isFinal(row.state) ? (row.ended_at ?? row.started_at) : null} />,
  },
  { id: "number", label: "Number", width: 90, sort: "number", isNumber: true, cell: (row) => number(row.number) },
  time("started_at", "Started"),
  time("ended_at", "Ended"),
  { ...text("message", "Reason", 260), cell: (row) => <span title={row.message}>{row.message || "–"}</span> },
  { ...text("script", "Script", 150) },
  { ...text("attempt", "Attempt", 90), isNumber: true },
  { ...text("exit_code", "Exit code", 96), isNumber: true },
  text("type", "Type", 150),
  text("id", "Id", 260),
  {
    id: "tags",
    label: "Tags",
    width: 200,
    cell: ({ tags }) =>
      Object.entries(tags).map(([key, value]) => (
        <span key={key} className={classes.tag}>
          {value ? `${key}: ${value}` : key}
        </span>
      )),
  },
];

const BY_ID = new Map(FIXED.map((column) => [column.id, column]));

export const DEFAULT_COLUMNS = ["state", "name", "experiment", "target", "submitted_by", "created_at", "duration"];

/** The column with an id of the address; null if there is none. */
export function columnOf(id: string): Column | null {
  const known = BY_ID.get(id);
  if (known) return known;
  const [, kind, name] = /^(metric|parameter|tag)\.([\s\S]+)$/.exec(id) ?? [];
  if (!name) return null;
  if (kind === "metric") {
    return { id, label: name, width: 110, isNumber: true, sort: id, cell: (row) => number(row.metrics?.[name]) };
  }
  if (kind === "parameter") return { id, label: name, width: 110, cell: (row) => row.parameters.get(name) ?? "–" };
  return { id, label: name, width: 120, cell: (row) => (name in row.tags ? (row.tags[name] ?? "set") : "–") };
}

const OWN_COLUMNS = 3; // of parameters and of metrics

/** The usual columns of an experiment: its parameters and metrics in place of what is the same for all its runs. */
export function experimentColumns({ parameters, metrics }: { parameters: string[]; metrics: string[] }): string[] {
  const own = [
    ...parameters.slice(0, OWN_COLUMNS).map((name) => `parameter.${name}`),
    ...metrics.slice(0, OWN_COLUMNS).map((name) => `metric.${name}`),
  ];
  return ["state", "name", ...own, "submitted_by", "created_at", "duration"];
}

export function columnsOf(search: Search, usual: readonly string[] = DEFAULT_COLUMNS): Column[] {
  const ids = listOf(search.column);
  return [...new Set(ids.length ? ids : usual)].flatMap((id) => columnOf(id) ?? []);
}

/** The names of the metrics among columns, which the server must be asked for. */
export const metricsOf = (columns: Column[]): string[] =>
  columns.filter(({ id }) => id.startsWith("metric.")).map(({ id }) => id.slice("metric.".length));

export const hasArguments = (columns: Column[]): boolean =>
  columns.some(({ id }) => id.startsWith("parameter.") || id === "script");

export const fixedColumns = (): Column[] => FIXED;
