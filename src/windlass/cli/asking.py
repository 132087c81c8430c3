"""Asking a machine that may not answer for a while: who waits is told for what, and who leaves what that means."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any

from windlass.core.sanitize import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.cli.call import Call

_PATIENCE_SECONDS = 1.5


def identify(call: Call, config: dict[str, Any]) -> Any:
    """Who answers at the address."""
    with waiting(call, f"Asking {shown(config['address'])} for its host key ..."):
        return call.post("/identify", {"kind": "ssh", "config": config})


def attach(call: Call, body: dict[str, Any]) -> Any:
    """Try the machine, and keep it as a target."""
    try:
        with waiting(call, f"Logging in to {shown(body['config']['address'])} ..."):
            return call.post("/targets", body)
    except KeyboardInterrupt:
        # The server has the request, and does not notice that nobody waits any more.
        call.terminal.note(f"{shown(body['name'])} may be attached all the same: windlass compute list")
        raise


@contextlib.contextmanager
def waiting(call: Call, what: str) -> Iterator[None]:
    """A word on what is waited for, to people only, if it takes more than a moment."""
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
