"""A progress bar, for people only, and only when there is something to wait for."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from windlass.cli import words

if TYPE_CHECKING:
    from windlass.cli.call import Call

Advance = Callable[[int], None]
_PATIENCE_SECONDS = 0.5
_BETWEEN_SECONDS = 0.1
_WIDTH = 24
_CLEAR_LINE = "\r\x1b[K"


@contextlib.contextmanager
def progress(call: Call, what: str, total: int) -> Iterator[Advance]:
    """`advance(bytes)` moves a bar that appears after half a second, on stderr, if that is a terminal."""
    if call.json or not sys.stderr.isatty():
        yield lambda _: None
        return
    bar = _Bar(what, total)
    try:
        yield bar.advance
    finally:
        bar.close()


class _Bar:
    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._since = time.monotonic()
        self._draw_at = self._since + _PATIENCE_SECONDS
        self._is_drawn = False

    def advance(self, count: int) -> None:
        self._done += count
        if time.monotonic() >= self._draw_at:
            self._draw_at = time.monotonic() + _BETWEEN_SECONDS
            self._is_drawn = True
            sys.stderr.write(_CLEAR_LINE + self._line())
            sys.stderr.flush()

    def _line(self) -> str:
        share = min(1.0, self._done / self._total) if self._total else 1.0
        filled = round(share * _WIDTH)
        left = (time.monotonic() - self._since) / share * (1 - share) if share else None
        bar = "#" * filled + "." * (_WIDTH - filled)
        amount = f"{words.size(self._done)} of {words.size(self._total)}"
        return f"{self._what}  {bar}  {amount}" + (f", {words.duration(left)} left" if left else "")

    def close(self) -> None:
        if self._is_drawn:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
