"""The command `windlass`: thin; it parses, calls the SDK and prints. Everything is imported late, for a fast start."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "program"]


def program() -> NoReturn:
    """The process. It ends without taking itself apart, which would be a fifth of a short command's time."""
    import atexit
    import os
    import threading

    code = main()
    if threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # nobody reads it; what matters was flushed before, and counted
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Never raises, and never shows a traceback unless asked."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words[:1] == ["submit"]:
            return _submit(words)
        if words[:1] == ["python"]:
            _python(words)
        if arguments is None and ("computetarget" in words or "compute" in words):
            from windlass.cli.workbench.argv_secrets import conceal

            conceal(words)
        from windlass.cli.root import run

        return run(words)
    except KeyboardInterrupt:
        return 130


def _python(words: list[str]) -> None:
    """Become Python at once, without click. Returns if there are options for windlass, or something to explain."""
    if words[1:2] and words[1].startswith(("-h", "--")):
        return
    from windlass.cli.azureml.launch import start_python

    try:
        start_python(None, words[1:])
    except Exception:
        return  # the same call by way of click says what is wrong


def _submit(words: list[str]) -> int:
    """The command that is waited for most: without click, unless there is something to explain."""
    from windlass.cli.submit.options import parse

    parsed = parse(words[1:])
    if parsed is None:
        from windlass.cli.root import run

        return run(words)
    from windlass.cli.context import Call
    from windlass.cli.errors import OWN_FAILURE
    from windlass.cli.exit import conclude
    from windlass.cli.submit.watch import submit

    call = Call()
    call.failure_code = OWN_FAILURE
    for name, value in parsed.shared.items():
        setattr(call, name, value)
    return conclude(call, lambda: submit(call, parsed.values))
