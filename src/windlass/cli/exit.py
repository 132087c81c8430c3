"""Run a command and return its exit code. Errors are printed in two lines at most; no exception leaves."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.cli.errors import AZ_BY_CODE, BROKEN_PIPE, INTERRUPTED, OTHER, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.cli.context import CommandContext


def exit_code_of(context: CommandContext, act: Callable[[], int]) -> int:
    """Call `act`. An exception is printed and becomes an exit code."""
    _fill_standard_streams()
    try:
        code = act()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _handle_broken_pipe()
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:
        return _report(context, error)
    finally:
        context.close()


def _interrupted() -> int:
    """End the line of ^C, so that the shell's prompt begins a new one."""
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    return INTERRUPTED


def _report(context: CommandContext, error: Exception) -> int:
    found = problem(error)
    if found.code == "internal_error" and (versions := context.version_mismatch()):
        found = found._replace(hint=versions)
    if context.debug and found.code != "usage":
        import traceback

        traceback.print_exception(error)
    if context.is_az:
        found = found._replace(exit_code=AZ_BY_CODE.get(found.code, OTHER))
    elif context.failure_code is not None:
        found = found._replace(exit_code=context.failure_code)
    try:
        context.print_error(found)
    except OSError:
        pass  # stderr is closed; the exit code remains
    return found.exit_code


def _handle_broken_pipe() -> int:
    """The reader of stdout is gone: redirect it to /dev/null, so that the flush at exit does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return BROKEN_PIPE


def _fill_standard_streams() -> None:
    """Open /dev/null for closed standard streams, so that no socket or file gets descriptor 0, 1 or 2."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        _replace_unencodable(stream)


def _replace_unencodable(stream: Any) -> None:
    """Print '?' for a character that the terminal's encoding lacks, instead of raising."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
