"""Tables that fit the terminal. Columns are aligned, and the widest column that may be shortened is shortened first. A
table that is still too wide is printed as records, one cell per line. Without a terminal nothing is shortened.

No library does it: importing `rich` takes too long at a command's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from windlass.core.sanitize import escape

Paint = Callable[[str], str]
_GAP = "  "
# A column of sentences that is narrower is hard to read.
_LEAST_OF_SENTENCES = 20


class Column(NamedTuple):
    """`least` is how far it may be shortened; 0 means not at all, as for names that one copies. The cells of a column
    that `wraps` are sentences: they continue on the next lines. `paint` colours a cell that is already padded.
    """

    title: str
    right: bool = False
    least: int = 0
    paint: Callable[[str], Paint | None] | None = None
    wraps: bool = False


def lines(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int | None,
    ellipsis: str = "…",
    paint_title: Paint = str,
) -> list[str]:
    """The lines of the table, the heading first. Columns without content are left out. Without a `width` nothing is
    shortened.
    """
    cells = [[escape(cell) for cell in row] for row in rows]
    used = [i for i in range(len(columns)) if not cells or any(row[i] for row in cells)]
    columns = [columns[i] for i in used]
    cells = [[row[i] for i in used] for row in cells]
    widths = _fit(columns, cells, width)
    if widths is None:
        assert width is not None
        return [line for row in cells for line in _record(columns, row, width, ellipsis, paint_title)]
    heading = [_pad(_cut(c.title, w, ellipsis), w, c.right) for c, w in zip(columns, widths, strict=True)]
    body = [line for row in cells for line in _row(columns, row, widths, ellipsis)]
    return [paint_title(_GAP.join(heading).rstrip()), *body]


def _fit(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int | None) -> list[int] | None:
    """The width of each column, or None if the columns do not fit on a line."""
    widths = [
        max([cell_width(column.title), *(cell_width(row[i]) for row in cells)]) for i, column in enumerate(columns)
    ]
    if width is None:
        return widths
    room = width - len(_GAP) * (len(columns) - 1)
    least = [_least(column) or widths[i] for i, column in enumerate(columns)]
    while sum(widths) > room:
        flexible = [i for i in range(len(columns)) if widths[i] > least[i]]
        if not flexible:
            return None if len(columns) > 1 else widths
        widest = max(flexible, key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _least(column: Column) -> int:
    return column.least or (_LEAST_OF_SENTENCES if column.wraps else 0)


def _row(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int], ellipsis: str) -> Iterator[str]:
    """One row: one line, or several where a sentence continues."""
    parts = [
        _wrap(cell, width) if column.wraps else [_cut(cell, width, ellipsis)]
        for column, cell, width in zip(columns, row, widths, strict=True)
    ]
    for at in range(max(map(len, parts), default=0)):
        texts = [part[at] if at < len(part) else "" for part in parts]
        yield _line(columns, row, texts, widths)


def _line(columns: Sequence[Column], row: Sequence[str], texts: Sequence[str], widths: Sequence[int]) -> str:
    out = []
    last = len(columns) - 1
    for i, (column, cell, text, width) in enumerate(zip(columns, row, texts, widths, strict=True)):
        paint = column.paint(cell) if column.paint else None
        if i == last and not column.right:
            out.append(paint(text) if paint and text else text)
        else:
            padded = _pad(text, width, column.right)
            out.append(paint(padded) if paint else padded)
    return _GAP.join(out).rstrip()


def _record(
    columns: Sequence[Column], row: Sequence[str], width: int, ellipsis: str, paint_title: Paint
) -> Iterator[str]:
    """A row of a table that is too wide: its first cell, and the others below it, each after its title."""
    paint = columns[0].paint(row[0]) if columns[0].paint else None
    yield paint(row[0]) if paint else row[0]
    indent = max(cell_width(column.title) for column in columns) + 2 * len(_GAP)
    for column, cell in zip(columns[1:], row[1:], strict=True):
        paint = column.paint(cell) if column.paint else None
        title = paint_title(_pad(_GAP + column.title, indent, right=False))
        for part in _wrap(cell, width - indent) if cell else ():
            text = _cut(part, width - indent, ellipsis) if column.least else part
            yield title + (paint(text) if paint else text)
            title = " " * indent


def _wrap(text: str, width: int) -> list[str]:
    """A sentence in lines. A word that is longer than a line stays whole, so that it can be copied."""
    from textwrap import wrap

    return wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def cell_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    marks = sum(unicodedata.combining(c) != 0 for c in text)
    return len(text) + wide - marks


def _cut(text: str, width: int, ellipsis: str) -> str:
    if cell_width(text) <= width:
        return text
    kept = text
    while kept and cell_width(kept) + len(ellipsis) > width:
        kept = kept[:-1]
    return (kept + ellipsis)[: max(width, len(ellipsis))]


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_width(text))
    return space + text if right else text + space
