"""Says what a command waits for, to a person, once it takes longer than a moment."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.cli.context import Call

_PATIENCE_SECONDS = 1.5


@contextlib.contextmanager
def waiting(call: Call, what: str) -> Iterator[None]:
    """Print `what` to the terminal if the block takes longer than a moment."""
    if call.json or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_PATIENCE_SECONDS, call.terminal.note, (what,))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
