"""The command `windlass`: thin; it parses, calls the SDK and prints. Everything is imported late, for a fast start."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Never raises, and never shows a traceback unless asked."""
    try:
        from windlass.cli.root import run

        return run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        return 130
