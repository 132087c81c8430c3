"""Progress bar of a transfer (client/http/progress.py); none with --json."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.cli.context import CommandContext

Advance = Callable[[int], None]


@contextlib.contextmanager
def progress(context: CommandContext, what: str, total: int) -> Iterator[Advance]:
    """Yield a function that is called with the bytes of each piece. At a terminal it moves a bar; elsewhere a line is
    printed every ten seconds.
    """
    if context.json:
        yield lambda _: None
        return
    from windlass.client.http import progress

    with progress.progress(what, total) as shown:
        yield shown.advance
