"""A progress bar, for people only, and only when there is something to wait for."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from windlass.cli.call import Call

Advance = Callable[[int], None]
_PATIENCE_SECONDS = 0.5


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
        self._drawn: Progress | None = None

    def advance(self, count: int) -> None:
        self._done += count
        if self._drawn is None and time.monotonic() - self._since > _PATIENCE_SECONDS:
            self._drawn = self._draw()
        if self._drawn is not None:
            self._drawn.update(self._drawn.task_ids[0], completed=self._done)

    def _draw(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        drawn = Progress(*columns, console=Console(stderr=True), transient=True)
        drawn.add_task(self._what, total=self._total)
        drawn.start()
        return drawn

    def close(self) -> None:
        if self._drawn is not None:
            self._drawn.stop()
