"""Note on the terminal of what a command waits for, printed if it takes longer than a moment."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.cli.context import CommandContext

_DELAY_SECONDS = 1.5


@contextlib.contextmanager
def waiting(context: CommandContext, what: str) -> Iterator[None]:
    """Print `what` at a terminal if the block takes longer than 1.5 seconds."""
    if context.json or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_DELAY_SECONDS, context.terminal.note, (what,))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
