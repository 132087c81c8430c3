/** What the table of runs shows, as it stands in the address: filters, sort and columns. */
import type { RunFilters } from "@/api/queries";
import { listOf, type Search, textOf } from "@/lib/search";

export const STATES = [
  "NotStarted", "Queued", "Provisioning", "Starting", "Preparing", "Running", "Finalizing",
  "NotResponding", "CancelRequested", "Completed", "Failed", "Canceled",
] as const;

/** The filters of an address, for the API. Times as "2d" become moments before `now`. */
export function filtersOf(search: Search, now = Date.now()): RunFilters {
  const archived = textOf(search.archived);
  return clean({
    search: textOf(search.search),
    state: listOf(search.state),
    experiment: textOf(search.experiment),
    target: textOf(search.target),
    submitted_by: listOf(search.submitted_by),
    tag: listOf(search.tag),
    where: listOf(search.where),
    type: textOf(search.type),
    parent: textOf(search.parent),
    since: moment(textOf(search.since), now),
    until: moment(textOf(search.until), now),
    archived: archived === "only" || archived === "all" ? archived : undefined,
    sort: textOf(search.sort),
  });
}

function clean(filters: RunFilters): RunFilters {
  const isSet = (value: unknown) => value !== undefined && value !== "" && !(Array.isArray(value) && !value.length);
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => isSet(value))) as RunFilters;
}

const FILTERS = ["search", "state", "experiment", "target", "submitted_by", "tag", "where", "type", "parent", "since", "until", "archived"];

/** Whether the address has a filter. */
export const isFiltered = (search: Search): boolean => FILTERS.some((key) => search[key] !== undefined);

/** The address without its filters; columns and sort stay. */
export const withoutFilters = (search: Search): Search =>
  Object.fromEntries(Object.entries(search).filter(([key]) => !FILTERS.includes(key)));

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** "2d", "12h", "30m", "1w" before now, or a date; undefined if it is neither. */
export function moment(text: string, now = Date.now()): string | undefined {
  const [, count, unit] = /^(\d{1,6})\s*([mhdw])$/.exec(text.trim()) ?? [];
  const time = count ? now - Number(count) * UNITS[unit!]! : Date.parse(text);
  return Number.isFinite(time) && Math.abs(time) < 8.64e15 ? new Date(time).toISOString() : undefined;
}

const CONDITION = /^(?:metric\.)?(.+?)(?<![<>=!\s])\s*(<=|>=|!=|==|=|<|>)\s*([^<>=!\s]+)$/;

/** A condition on a metric as the API takes it, `metric.loss<0.1`; null if the text is none. */
export function condition(text: string): string | null {
  const [, name, operator, value] = CONDITION.exec(text.trim()) ?? [];
  if (!name || value === undefined || Number.isNaN(Number(value))) return null;
  return `metric.${name}${operator === "==" ? "=" : operator}${value}`;
}

/** A condition as people read it: `loss < 0.1`. */
export function conditionText(text: string): string {
  const [, name, operator, value] = CONDITION.exec(text) ?? [];
  return name ? `${name} ${operator} ${value}` : text;
}

export type SortOrder = { key: string; isDescending: boolean };

export const DEFAULT_SORT = "-created_at";

export function sortOf(search: Search): SortOrder {
  const text = textOf(search.sort) || DEFAULT_SORT;
  return text.startsWith("-") ? { key: text.slice(1), isDescending: true } : { key: text, isDescending: false };
}

/** The sort after a click on a heading: descending at first, then ascending, then the usual one. */
export function nextSort(search: Search, key: string): string | undefined {
  const { key: now, isDescending } = sortOf(search);
  const next = now !== key ? `-${key}` : isDescending ? key : DEFAULT_SORT;
  return next === DEFAULT_SORT ? undefined : next;
}

/** Arguments given as `--name value`, `--name=value` or `--flag`; the last one of a name counts. */
export function parametersOf(args: readonly string[]): Map<string, string> {
  const parameters = new Map<string, string>();
  for (let at = 0; at < args.length; at++) {
    const [, name, value] = /^--?([A-Za-z][^=\s]*)(?:=([\s\S]*))?$/.exec(args[at]!) ?? [];
    if (!name) continue;
    const next = args[at + 1];
    const isValue = next !== undefined && (!next.startsWith("-") || isNumber(next));
    if (value !== undefined) parameters.set(name, value);
    else if (isValue) parameters.set(name, args[++at]!);
    else parameters.set(name, "true");
  }
  return parameters;
}

const isNumber = (text: string): boolean => text.trim() !== "" && !Number.isNaN(Number(text));
