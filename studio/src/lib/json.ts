/** JSON of the server, which has `NaN`, `Infinity` and `-Infinity` where a script has logged them. */

const STRING_OR_SPECIAL = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;

/** The same JSON with these numbers as texts; strings stay as they are. */
export function quoteSpecials(json: string): string {
  if (!json.includes("NaN") && !json.includes("Infinity")) return json;
  return json.replace(STRING_OR_SPECIAL, (found) => (found.startsWith('"') ? found : `"${found}"`));
}

/** The value of a JSON text; numbers that JSON does not have are texts. */
export const parseJson = (json: string): unknown => JSON.parse(quoteSpecials(json));
