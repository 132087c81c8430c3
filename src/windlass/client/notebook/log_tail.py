"""Tail of a log, as a terminal would show it."""

from __future__ import annotations

import re
from collections import deque
from typing import Deque

from windlass.core.sanitize import SafeText

_COLOURS = re.compile("\x1b\\[[0-9;:]*m")
_MOVES = re.compile("([\n\r\b])")
# Only the end of a longer piece is processed.
_LONGEST_PIECE = 1 << 16
_LONGEST_LINE = 2000


class LogTail:
    """Processes a log in pieces cut anywhere. Escape sequences and colours are removed; \\r and \\b move the column."""

    def __init__(self, lines: int) -> None:
        self.path = ""
        self._lines: Deque[str] = deque(maxlen=lines)
        self._line, self._column = "", 0
        self._offset = 0
        self._safe = SafeText()

    def feed(self, path: str, offset: int, data: bytes) -> None:
        """Add the bytes at an offset of a log. Another path, or a lower offset, starts again with an empty tail."""
        if path != self.path or offset < self._offset:
            self._restart(path, offset)
        self._offset = offset + len(data)
        for part in _MOVES.split(_COLOURS.sub("", self._safe.feed(data[-_LONGEST_PIECE:]))):
            self._write(part)

    def skip(self, path: str, offset: int, length: int) -> None:
        """Add a line that bytes of the log are missing at an offset."""
        self.feed(path, offset, f"\n[... {length} bytes of this log were not kept ...]\n".encode())
        self._offset = offset + length

    def text(self) -> str:
        return "\n".join([*self._lines, self._line] if self._line else self._lines)

    def _restart(self, path: str, offset: int) -> None:
        self.path, self._offset = path, offset
        self._lines.clear()
        self._safe = SafeText()
        self._line, self._column = "", 0

    def _write(self, part: str) -> None:
        if part == "\n":
            self._lines.append(self._line)
            self._line, self._column = "", 0
        elif part == "\r":
            self._column = 0
        elif part == "\b":
            self._column = max(0, self._column - 1)
        else:
            line = self._line[: self._column] + part + self._line[self._column + len(part) :]
            self._line = line[:_LONGEST_LINE]
            self._column = min(self._column + len(part), _LONGEST_LINE)
