/** The first rows of a CSV file. */

const MOST_ROWS = 1_000;

export type Csv = { header: string[]; rows: string[][]; isCut: boolean };

/** Parses the first rows of a CSV file. */
export async function parseCsv(text: string, isCut: boolean): Promise<Csv> {
  const { default: Papa } = await import("papaparse");
  const { data, meta } = Papa.parse<string[]>(text, { preview: MOST_ROWS + 2, skipEmptyLines: true });
  const [header = [], ...rows] = data;
  if (isCut && !meta.truncated) rows.pop(); // the last row may be incomplete
  return { header, rows: rows.slice(0, MOST_ROWS), isCut: isCut || rows.length > MOST_ROWS };
}
