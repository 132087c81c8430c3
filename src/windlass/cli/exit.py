"""How a call ends, whatever happens in it: an exit code, and two lines at most on what went wrong."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from windlass.cli.errors import AZ_BY_CODE, BROKEN_PIPE, INTERRUPTED, OTHER, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from windlass.cli.context import Call


def conclude(call: Call, act: Callable[[], int]) -> int:
    """Do it, and turn whatever is raised into an exit code."""
    _fill_standard_streams()
    try:
        code = act()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:
        return _report(call, error)
    finally:
        call.close()


def _interrupted() -> int:
    """The shell's prompt does not stand right after ^C."""
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    return INTERRUPTED


def _report(call: Call, error: Exception) -> int:
    found = problem(error)
    if found.code == "internal_error" and (versions := call.other_version()):
        found = found._replace(hint=versions)
    if call.debug and found.code != "usage":
        import traceback

        traceback.print_exception(error)
    if call.is_az:
        found = found._replace(exit_code=AZ_BY_CODE.get(found.code, OTHER))
    elif call.failure_code is not None:
        found = found._replace(exit_code=call.failure_code)
    try:
        call.tell(found)
    except OSError:
        pass  # nobody reads stderr; the exit code still tells
    return found.exit_code


def _reader_left() -> int:
    """Say nothing more to a reader that is gone, not even when the interpreter flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return BROKEN_PIPE


def _fill_standard_streams() -> None:
    """Where stdin, stdout or stderr were closed, no socket or file of ours may take their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        _never_fail_on_characters(stream)


def _never_fail_on_characters(stream: Any) -> None:
    """A character that the terminal's encoding lacks is shown as '?' instead of raising."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
