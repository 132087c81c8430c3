"""A file that somebody wrote by hand: where in it something stands, so that a mistake is told with its place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 100


class Written:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._lines = text.splitlines()

    @property
    def folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.path))

    def line(self, number: int) -> str:
        """The place of a line, and the line itself. Lines count from 1."""
        text = self._lines[number - 1].strip() if 0 < number <= len(self._lines) else ""
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        return f"{self.path}, line {number}: {shown!r}"

    def item(self, text: str) -> str:
        """Where a list has this item."""
        return self._where(lambda line: _bare(line.lstrip().lstrip("-")) == text.strip()) or self._containing(text)

    def key(self, name: str) -> str:
        """Where a map has this key."""
        return self._where(lambda line: _bare(line.partition(":")[0]) == name) or self._containing(name)

    def _containing(self, text: str) -> str:
        return self._where(lambda line: text in line) or self.path

    def _where(self, fits: Callable[[str], bool]) -> str:
        found = [number for number, line in enumerate(self._lines, 1) if fits(line)]
        return self.line(found[0]) if found else ""


def _bare(text: str) -> str:
    """Without comment, space and quotes."""
    text = text.partition(" #")[0].strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text
