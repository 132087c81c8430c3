/** Lines of logs as a terminal would show them: the last part of a progress line, and colours as spans with classes. */
import Anser from "anser";

export type Span = { text: string; className?: string; color?: string; background?: string };

const SGR = /\x1b\[[\d;:]*m/g;
/** Sequences that do something else than colour: cursor, title, links. Their text is no text of the log. */
const OTHER_SEQUENCES = /\x1b\[[0-?]*[ -/]*[@-ln-~]|\x1b\[[<=>?][0-?]*m|\x1b[\]P^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-OQ-Z\\`-~]/g;
const UNFINISHED = /\x1b(?!\[[\d;:]*m)[^\x1b]{0,3}$/;
const CONTROLS = /[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]/g;
const TAB = "        ";
const MOST_CODES = 256;

/** What a terminal shows of a line in which `\r` went back to its start: the last part, in the colours so far. */
export function lastPart(line: string): string {
  if (!line.includes("\r")) return line;
  const parts = line.split("\r");
  let last = parts.length - 1;
  while (last > 0 && !parts[last]!.replace(SGR, "")) last--;
  const codes = parts.slice(0, last).join("").match(SGR) ?? [];
  return codes.reduce(after, "") + parts.slice(last).join("");
}

/** A line without what is not shown; codes of colours stay. */
function clean(line: string): string {
  const shown = lastPart(line);
  if (!/[\x00-\x1f\x7f]/.test(shown)) return shown;
  return shown
    .replace(OTHER_SEQUENCES, "")
    .replace(UNFINISHED, "")
    .replace(/\x1b\[[\d;:]*:[\d;:]*m/g, (code) => code.replace(/(2):\d*:(\d+:\d+:\d+)/, "$1:$2").replaceAll(":", ";"))
    .replaceAll("\t", TAB)
    .replace(CONTROLS, "");
}

/** The text that is shown of a line. */
export function plain(line: string): string {
  return clean(line).replace(SGR, "").replaceAll("\x1b", "");
}

function after(codes: string, code: string): string {
  if (/^\x1b\[0*m$/.test(code)) return "";
  if (/^\x1b\[0+;/.test(code) || codes.length + code.length > MOST_CODES) return code;
  return codes + code;
}

/** The codes of colours that are in effect after a line, if `codes` were before it. */
export function codesAfter(codes: string, line: string): string {
  return line.includes("\x1b[") ? (line.match(SGR) ?? []).reduce(after, codes) : codes;
}

/** The parts of a line with their colours. */
export function spansOf(line: string, codes = ""): Span[] {
  const text = clean(line);
  if (!codes && !text.includes("\x1b")) return [{ text }];
  return Anser.ansiToJson(codes + text, { json: true, use_classes: true, remove_empty: true })
    .map(({ content, fg, bg, fg_truecolor, bg_truecolor, decorations }) => {
      const span: Span = { text: content.replaceAll("\x1b", "") };
      const classes = decorations.map((name) => `ansi-${name}`);
      const [color, colorClass] = colorOf(fg, fg_truecolor, "fg");
      const [background, backgroundClass] = colorOf(bg, bg_truecolor, "bg");
      if (color) span.color = color;
      if (background) span.background = background;
      span.className = [...classes, colorClass, backgroundClass].filter(Boolean).join(" ") || undefined;
      return span;
    })
    .filter(({ text: content }) => content);
}

function colorOf(name: string | null, truecolor: string | null, side: "fg" | "bg"): [string | undefined, string | undefined] {
  if (!name) return [undefined, undefined];
  if (name === "ansi-truecolor") return [`rgb(${truecolor})`, "ansi-own"];
  const palette = /^ansi-palette-(\d+)$/.exec(name);
  return palette ? [paletteColor(Number(palette[1])), "ansi-own"] : [undefined, `${name}-${side}`];
}

/** A colour of the 6 × 6 × 6 cube, or one of the 24 greys, of terminals with 256 colours. */
function paletteColor(index: number): string {
  if (index >= 232) return `rgb(${Array(3).fill(8 + (index - 232) * 10).join(", ")})`;
  const level = (step: number) => (step ? 55 + step * 40 : 0);
  const at = index - 16;
  return `rgb(${level(Math.floor(at / 36))}, ${level(Math.floor(at / 6) % 6)}, ${level(at % 6)})`;
}

/** Cuts spans at the ranges `[start, end)` of their text; the parts inside are marked. */
export function markSpans(spans: Span[], ranges: [number, number][]): (Span & { isMarked?: boolean })[] {
  if (!ranges.length) return spans;
  const cuts = ranges.flat();
  let start = 0;
  return spans.flatMap((span) => {
    const end = start + span.text.length;
    const edges = [start, ...cuts.filter((cut) => cut > start && cut < end), end];
    const parts = edges.slice(1).map((edge, index) => {
      const from = edges[index]!;
      const isMarked = ranges.some(([first, last]) => from >= first && edge <= last);
      return { ...span, text: span.text.slice(from - start, edge - start), ...(isMarked ? { isMarked } : {}) };
    });
    start = end;
    return parts;
  });
}

/** Where a text occurs in another, in any case. */
export function rangesOf(text: string, search: string): [number, number][] {
  if (!search) return [];
  const [where, what] = [text.toLowerCase(), search.toLowerCase()];
  const ranges: [number, number][] = [];
  for (let at = where.indexOf(what); at >= 0 && ranges.length < 1000; at = where.indexOf(what, at + what.length)) {
    ranges.push([at, at + what.length]);
  }
  return ranges;
}
