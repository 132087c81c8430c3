"""Entry point of the command `windlass`: parse, call the SDK or the server, print. Imports are late, to start fast."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "program"]


def program() -> NoReturn:
    """Run the process. It exits by os._exit: the interpreter's teardown would be a fifth of a short command's time."""
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
            pass  # the reader is gone; exit_code_of() flushed the output before, and chose the exit code
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
            from windlass.cli.workbench.argv_secrets import hide_from_argv

            hide_from_argv(words)
        from windlass.cli.root import run

        return run(words)
    except KeyboardInterrupt:
        return 130


def _python(words: list[str]) -> None:
    """Replace this process by Python at once, without click. Returns for options of windlass, or on an error."""
    if words[1:2] and words[1].startswith(("-h", "--")):
        return
    from windlass.cli.azureml.launch import start_python

    try:
        start_python(None, words[1:])
    except Exception:
        return  # click runs the same command and reports the error


def _submit(words: list[str]) -> int:
    """Run `windlass submit` without click (half of its start), unless there is help or an error to print."""
    from windlass.cli.submit.options import parse

    parsed = parse(words[1:])
    if parsed is None:
        from windlass.cli.root import run

        return run(words)
    from windlass.cli.context import CommandContext
    from windlass.cli.errors import OWN_FAILURE
    from windlass.cli.exit import exit_code_of
    from windlass.cli.submit.project_defaults import with_project
    from windlass.cli.submit.watch import submit

    context = CommandContext()
    context.failure_code = OWN_FAILURE
    for name, value in parsed.shared.items():
        setattr(context, name, value)
    return exit_code_of(context, lambda: submit(context, with_project(parsed.values)))
