/** Where each line of a log is on the page: which row it begins at, when long lines take several. */

export const CHUNK = 1000;

/** Characters that take two columns of a monospaced font: East Asian ones and pictures. */
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\ud83c-\ud83e][\udc00-\udfff]/g;

/** How many rows a text takes. With 0 columns lines are not wrapped. */
export function rowsOf(text: string, columns: number): number {
  if (!columns || text.length * 2 <= columns) return 1;
  const wide = /[^\x00-\u10ff]/.test(text) ? (text.match(WIDE)?.filter((each) => each.length === 1).length ?? 0) : 0;
  return Math.max(1, Math.ceil((text.length + wide) / columns));
}

/** Rows of the lines of a log, by chunks of lines. A line that is not loaded counts as one row. */
export class RowLayout {
  private readonly heights: number[] = [];
  private readonly starts = new Map<number, Uint32Array>();
  lineCount = 0;

  constructor(readonly columns: number) {}

  /** Sets how many lines there are. */
  resize(lineCount: number): void {
    this.lineCount = lineCount;
    if (!this.columns) return;
    const chunks = Math.ceil(lineCount / CHUNK);
    this.heights.length = Math.min(this.heights.length, chunks);
    for (let chunk = Math.max(0, this.heights.length - 1); chunk < chunks; chunk++) {
      const length = Math.min(CHUNK, lineCount - chunk * CHUNK);
      const known = this.starts.get(chunk);
      this.heights[chunk] = known ? known.at(-1)! + Math.max(0, length - known.length + 1) : length;
    }
  }

  /** Takes over the texts of a chunk. */
  measure(chunk: number, texts: readonly string[]): void {
    if (!this.columns) return;
    const starts = new Uint32Array(texts.length + 1);
    texts.forEach((text, index) => (starts[index + 1] = starts[index]! + rowsOf(text, this.columns)));
    this.starts.set(chunk, starts);
    const length = Math.min(CHUNK, this.lineCount - chunk * CHUNK);
    this.heights[chunk] = starts.at(-1)! + Math.max(0, length - texts.length);
  }

  get rowCount(): number {
    return this.columns ? this.heights.reduce((sum, height) => sum + height, 0) : this.lineCount;
  }

  /** The first row of a line. */
  rowOf(line: number): number {
    if (!this.columns) return line;
    const chunk = Math.floor(line / CHUNK);
    let row = 0;
    for (let before = 0; before < chunk && before < this.heights.length; before++) row += this.heights[before]!;
    const starts = this.starts.get(chunk);
    const within = line - chunk * CHUNK;
    if (!starts) return row + within;
    const known = starts.length - 1;
    return row + (within <= known ? starts[within]! : starts[known]! + within - known);
  }

  /** The line that a row belongs to. */
  lineAt(row: number): number {
    if (!this.columns) return Math.max(0, Math.min(Math.floor(row), this.lineCount - 1));
    let chunk = 0;
    while (chunk < this.heights.length - 1 && row >= this.heights[chunk]!) row -= this.heights[chunk++]!;
    const starts = this.starts.get(chunk);
    const within = starts ? indexOf(starts, row) : Math.floor(row);
    return Math.max(0, Math.min(chunk * CHUNK + within, this.lineCount - 1));
  }
}

/** The last index whose start is at most `row`, continued by ones beyond the last. */
function indexOf(starts: Uint32Array, row: number): number {
  const known = starts.length - 1;
  if (row >= starts[known]!) return known + Math.floor(row - starts[known]!);
  let [low, high] = [0, known];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (starts[middle]! <= row) low = middle;
    else high = middle;
  }
  return low;
}

/** Browsers draw no element that is higher than some ten million pixels. */
const TALLEST = 8_000_000;
const MOST_DRIFT = 100_000;

/** Scrolls over content of any height with a scroll bar of limited length.
 *
 * `top` is the pixel of the content at the upper edge. A small movement moves the content by as much; a large one, by
 * the scroll bar, goes to that share of the content.
 */
export class LongScroll {
  top = 0;
  private position = 0;
  private height = 0;
  private viewport = 0;

  get barHeight(): number {
    return Math.min(this.height, TALLEST);
  }

  get lastTop(): number {
    return Math.max(0, this.height - this.viewport);
  }

  /** What is added to a pixel of the content to get its place in the scrolled element. */
  get shift(): number {
    return this.position - this.top;
  }

  resize(height: number, viewport: number): void {
    this.height = height;
    this.viewport = viewport;
    this.top = Math.min(this.top, this.lastTop);
    if (height <= TALLEST) this.position = this.top;
  }

  /** The browser has scrolled there. Returns where to put its scroll bar instead, if it must be moved. */
  scrolled(position: number): number | null {
    if (this.height <= TALLEST) {
      this.position = this.top = position;
      return null;
    }
    const step = position - this.position;
    this.position = position;
    if (Math.abs(step) >= this.viewport * 2) {
      this.top = Math.round((position / (TALLEST - this.viewport)) * this.lastTop);
      return null;
    }
    this.top = Math.max(0, Math.min(this.top + step, this.lastTop));
    const ideal = this.ideal();
    const isAtEdge = position <= 0 || position >= TALLEST - this.viewport || this.top === 0 || this.top === this.lastTop;
    if (Math.abs(ideal - position) < (isAtEdge ? 1 : MOST_DRIFT)) return null;
    this.position = ideal;
    return ideal;
  }

  /** Goes to a pixel of the content. Returns where the scroll bar belongs. */
  goTo(top: number): number {
    this.top = Math.max(0, Math.min(top, this.lastTop));
    this.position = this.ideal();
    return this.position;
  }

  private ideal(): number {
    if (this.height <= TALLEST) return this.top;
    const end = TALLEST - this.viewport;
    if (this.top === 0 || this.top === this.lastTop) return this.top && end;
    // Never at an end of the bar before the content is at its own: it could not be scrolled further.
    return Math.min(Math.max(1, Math.round((this.top / this.lastTop) * end)), end - 1);
  }
}
