/** The search of an address as texts and lists of texts: `?state=Failed&tag=a&tag=b`. Nothing is read as JSON. */

export type Search = Record<string, string | string[] | undefined>;

export function parseSearch(text: string): Search {
  const parameters = new URLSearchParams(text);
  const search: Search = {};
  for (const key of new Set(parameters.keys())) {
    const values = parameters.getAll(key).filter(Boolean);
    if (values.length) search[key] = values.length > 1 ? values : values[0];
  }
  return search;
}

/** The search as text, with its question mark; what is empty is left out. */
export function writeSearch(search: Record<string, unknown>): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") parameters.append(key, String(each));
    }
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

/** A value of a search as a list. */
export const listOf = (value: string | string[] | undefined): string[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value];

/** A value of a search as one text: the first. */
export const textOf = (value: string | string[] | undefined): string => listOf(value)[0] ?? "";
