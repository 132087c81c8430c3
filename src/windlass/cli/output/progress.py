"""The progress of a transfer (client/http/progress.py), unless the answer is to be JSON."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.cli.context import Call

Advance = Callable[[int], None]


@contextlib.contextmanager
def progress(call: Call, what: str, total: int) -> Iterator[Advance]:
    """`advance(bytes)` moves a bar at a terminal; elsewhere a line is printed every ten seconds."""
    if call.json:
        yield lambda _: None
        return
    from windlass.client.http import progress

    with progress.progress(what, total) as shown:
        yield shown.advance
