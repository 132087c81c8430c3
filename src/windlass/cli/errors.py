"""Exit codes, and the text of errors: a message and a hint. A traceback is printed only with --debug."""

from __future__ import annotations

import errno
import os
from typing import Any, NamedTuple

OK = 0
OTHER = 1
USAGE = 2
TIME_LIMIT = 124  # as timeout(1) has it
OWN_FAILURE = 125  # of submit, whose exit code is otherwise the script's
INTERRUPTED = 130
BROKEN_PIPE = 141

# Exit code by error code. It is documented: scripts rely on it.
BY_CODE = {
    "invalid_request": USAGE,
    "credentials_needed": USAGE,
    "not_supported": USAGE,
    "not_found": 3,
    "denied": 4,
    "server_unavailable": 5,
    "conflict": 6,
    "already_exists": 6,
    "snapshot_incomplete": 6,
    "target_unreachable": 7,
    "login_refused": 7,
    "target_quarantined": 7,
    "target_rejected": 7,
    "target_error": 7,
    "no_capacity": 7,
    "storage_full": 8,
    "too_large": 8,
    "too_many": 9,
}

# Exit codes of `windlass az`, those of az; 1 for every other error.
AZ_BY_CODE = {"usage": USAGE, "not_found": 3}

MEANINGS = {
    OK: "done",
    OTHER: "something else went wrong; --debug shows where",
    USAGE: "the command line or the request is not valid",
    3: "not found: no such run, experiment, target, file",
    4: "denied: no or wrong token, or not allowed",
    5: "the server cannot be reached or started",
    6: "conflict: the thing is not in the state that the command needs",
    7: "the target refused, or cannot be reached",
    8: "no space left: the disk is full, or a size limit was exceeded",
    9: "too many requests; try again later",
    TIME_LIMIT: "submit, rerun, wait: the run was stopped at its time limit, or the time of `wait --timeout` is over",
    OWN_FAILURE: "submit, rerun, wait, exec, ssh: the script or command was not run, or it is not known how it ended",
    INTERRUPTED: "interrupted by Ctrl-C; submit, rerun, wait: also a run that was canceled",
    BROKEN_PIPE: "the reader of the output closed the pipe (as in windlass runs | head)",
}


class Problem(NamedTuple):
    """An error as it is printed."""

    code: str
    message: str
    hint: str = ""
    exit_code: int = OTHER

    def to_json(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint, "exit_code": self.exit_code}}


def problem(error: BaseException) -> Problem:
    """Describe any exception."""
    from windlass.core.errors import WindlassError

    if hasattr(error, "format_message"):  # click's errors, recognised without importing click
        return _from_usage_error(error)
    if isinstance(error, WindlassError):
        return Problem(error.code, error.message, error.hint, BY_CODE.get(error.code, OTHER))
    if isinstance(error, OSError):
        return _from_os_error(error)
    if isinstance(error, MemoryError):
        return Problem("storage_full", "This machine has no memory left.", "", BY_CODE["storage_full"])
    hint = "This should not happen. The same command with --debug shows where it happened."
    return Problem("internal_error", f"{type(error).__name__}: {error}", hint)


def _from_usage_error(error: Any) -> Problem:
    ctx = getattr(error, "ctx", None)
    help_line = f"Type `{ctx.command_path} --help` for how to use it." if ctx is not None else ""
    return Problem("usage", error.format_message(), getattr(error, "hint", "") or help_line, USAGE)


def _from_os_error(error: OSError) -> Problem:
    where = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, (str, bytes)) else ""
    message = f"{error.strerror or error}{where}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem(
            "storage_full", message, "Free some space: windlass gc shows what may go.", BY_CODE["storage_full"]
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Problem("denied", message, "", BY_CODE["denied"])
    if error.errno == errno.ENOENT:
        return Problem("not_found", message, "", BY_CODE["not_found"])
    return Problem("system_error", message)
