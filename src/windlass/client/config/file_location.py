"""Source locations: the file and line of what a person wrote, for error messages about it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Tuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# The line of a list's item or a map's key: by the identity of the list or map, and index or key.
Places = Dict[Tuple[int, Any], int]
_LONGEST = 100


def text_of(path: str) -> str:
    """The text of a file; empty if the file cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class SourceFile:
    """The lines of a file. `places` maps the items of the value that was read from it to their lines."""

    def __init__(self, path: str, lines: Sequence[str], places: Places | None = None) -> None:
        self.path = path
        self.lines = lines
        self._places = places or {}

    @property
    def folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.path))

    def line(self, number: int) -> str:
        """The location of a line, and its text. Lines count from 1."""
        text = self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        return f"{self.path}, line {number}: {shown!r}"

    def at(self, whole: Any, key: Any) -> str:
        """The location of an item of a list, or of a key of a map."""
        number = self._places.get((id(whole), key))
        return self.line(number) if number else self.path

    def beginning(self) -> str:
        """The location of the first line that is neither empty nor a comment."""
        if not self.path:
            return ""
        content = (number for number, line in enumerate(self.lines, 1) if line.split("#")[0].strip() not in ("", "---"))
        number = next(content, None)
        return self.line(number) if number else f"{self.path}, which is empty"
