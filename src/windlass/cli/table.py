"""Plain tables that fit the terminal: columns aligned, the widest flexible one shortened first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from windlass.core.sanitize import shown

Paint = Callable[[str], str]
_GAP = "  "


class Column(NamedTuple):
    """`least` is how far it may be shortened; 0 means not at all. `paint` colours a cell that is already padded."""

    title: str
    right: bool = False
    least: int = 0
    paint: Callable[[str], Paint | None] | None = None


def lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, ellipsis: str = "…") -> list[str]:
    """The table's lines, heading first. Columns without any content are left out."""
    cells = [[shown(cell) for cell in row] for row in rows]
    used = [i for i in range(len(columns)) if not cells or any(row[i] for row in cells)]
    columns = [columns[i] for i in used]
    cells = [[row[i] for i in used] for row in cells]
    widths = _fit(columns, cells, width)
    heading = [_pad(_cut(c.title, w, ellipsis), w, c.right) for c, w in zip(columns, widths, strict=True)]
    return [_GAP.join(heading).rstrip(), *(_line(columns, row, widths, ellipsis) for row in cells)]


def _fit(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    widths = [
        max([cell_width(column.title), *(cell_width(row[i]) for row in cells)]) for i, column in enumerate(columns)
    ]
    room = width - len(_GAP) * (len(columns) - 1)
    while sum(widths) > room:
        flexible = [i for i, column in enumerate(columns) if column.least and widths[i] > column.least]
        if not flexible:
            break
        widest = max(flexible, key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _line(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int], ellipsis: str) -> str:
    out = []
    last = len(columns) - 1
    for i, (column, cell, width) in enumerate(zip(columns, row, widths, strict=True)):
        text = _cut(cell, width, ellipsis)
        paint = column.paint(cell) if column.paint else None
        if i == last and not column.right:
            out.append(paint(text) if paint and text else text)
        else:
            padded = _pad(text, width, column.right)
            out.append(paint(padded) if paint else padded)
    return _GAP.join(out).rstrip()


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
