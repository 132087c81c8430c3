"""Progress of a transfer on stderr: a bar at a terminal, a line every ten seconds elsewhere, nothing for short ones."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_BAR_AFTER_SECONDS = 0.5
_BAR_EVERY_SECONDS = 0.1
LINE_EVERY_SECONDS = 10.0
_WIDTH = 24
CLEAR_LINE = "\r\x1b[K"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@contextlib.contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Progress]:
    """Show the progress of a transfer that begins now. A total that is not known yet may be set later."""
    shown = Progress(what, total)
    try:
        yield shown
    finally:
        shown.close()


class Progress:
    def __init__(self, what: str, total: int | None = None) -> None:
        self.total = total
        self._what = what
        self._done = 0
        self._since = time.monotonic()
        self._stream: Any = sys.stderr
        self._is_terminal = is_terminal(self._stream)
        self._show_at = self._since + (_BAR_AFTER_SECONDS if self._is_terminal else LINE_EVERY_SECONDS)
        self._is_drawn = False

    def expect(self, total: int) -> None:
        self.total = total

    def advance(self, count: int) -> None:
        self.reach(self._done + count)

    def reach(self, done: int) -> None:
        """Set the number of bytes done. It may decrease when a part is sent again."""
        self._done = done
        now = time.monotonic()
        if now < self._show_at:
            return
        self._show_at = now + (_BAR_EVERY_SECONDS if self._is_terminal else LINE_EVERY_SECONDS)
        if self._is_terminal:
            self._is_drawn = True
            self._write(CLEAR_LINE + self._bar() + self._text())
        else:
            self._write(f"{self._what}: {self._text()}\n")

    def close(self) -> None:
        if self._is_drawn:
            self._write(CLEAR_LINE)
            self._is_drawn = False

    def _bar(self) -> str:
        filled = round(self._share * _WIDTH)
        return f"{self._what}  {'#' * filled}{'.' * (_WIDTH - filled)}  "

    @property
    def _share(self) -> float:
        return min(1.0, self._done / self.total) if self.total else 0.0

    def _text(self) -> str:
        if not self.total:
            return size(self._done)
        left = (time.monotonic() - self._since) / self._share * (1 - self._share) if self._share else None
        return f"{size(self._done)} of {size(self.total)}" + (f", {duration(left)} left" if left else "")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # no stderr, or a closed one
            self._stream.write(text)
            self._stream.flush()


def is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # no stream, or a closed one
        return False


def size(count: float | None) -> str:
    """'812 B', '1.2 MB'."""
    if count is None:
        return ""
    if count < 1000:
        return f"{int(count)} B"
    units = ["TB", "GB", "MB", "kB"]
    value = count / 1000
    while value >= 999.95 and len(units) > 1:
        value /= 1000
        units.pop()
    return f"{value:.1f} {units[-1]}"


def duration(seconds: float | None) -> str:
    """'0.8s', '12s', '3m20s', '1h05m', '2d03h'."""
    if seconds is None:
        return ""
    if seconds < 0:
        return "0.0s"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = int(seconds + 0.5)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"
