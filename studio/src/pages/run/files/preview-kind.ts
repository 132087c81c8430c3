/** How a file is shown: by its name, and by its first bytes where the name does not say. */

export type PreviewKind = "image" | "csv" | "json" | "text" | "binary";

const IMAGES: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  bmp: "image/bmp",
  avif: "image/avif",
  ico: "image/x-icon",
  // A browser runs no script of an SVG that is an <img>, and loads nothing for it.
  svg: "image/svg+xml",
};

const extensionOf = (path: string) => /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? "";

export const imageTypeOf = (path: string): string | undefined => IMAGES[extensionOf(path)];

export const MOST_IMAGE = 32 << 20;
export const MOST_JSON = 2 << 20;
export const MOST_TEXT = 512 << 10;

export function kindOf(path: string, size: number, head: Uint8Array | null): PreviewKind {
  if (imageTypeOf(path)) return size <= MOST_IMAGE ? "image" : "binary";
  if (head && !isText(head)) return "binary";
  const extension = extensionOf(path);
  if (extension === "csv" || extension === "tsv") return "csv";
  if ((extension === "json" || extension === "ipynb") && size <= MOST_JSON) return "json";
  return "text";
}

/** Whether bytes, perhaps cut at the end, are text in UTF-8. */
export function isText(head: Uint8Array): boolean {
  if (head.includes(0)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** Lines of a text up to a limit; a line that was cut at the end is left out. */
export function firstLines(text: string, isCut: boolean, most: number): { lines: string[]; isCut: boolean } {
  const lines = text.replace(/\n$/, "").split("\n");
  if (isCut && lines.length > 1) lines.pop();
  return { lines: lines.slice(0, most), isCut: isCut || lines.length > most };
}
