"""The server's log: one line per record, on standard error, in files of a bounded size.

A server that is started in the background has `server.log` of its home as standard output and standard error. The
process itself renames that file when it is large, and moves both descriptors to a new one, so that what libraries and
the interpreter print follows.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
from pathlib import Path
from typing import Any

from windlass.server.security.log_rate import RateLimit

LONGEST_MESSAGE = 4000
LONGEST_LINE = 500  # of a traceback
MOST_LINES = 200
_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
# Control characters, line and paragraph separators, bidirectional overrides, halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class LineFormatter(logging.Formatter):
    """Text from machines, scripts and requests cannot add lines, control a terminal, or fill the log at once."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _safe(super().formatMessage(record), LONGEST_MESSAGE)

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).split("\n")
        return "\n".join(_safe(line, LONGEST_LINE) for line in lines[-MOST_LINES:])


class ServerLog(logging.StreamHandler[Any]):
    """Writes records to standard error, and rotates the file that it is."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter(_FORMAT))
        self.addFilter(RateLimit())
        self._path: Path | None = None
        self._limit = 0

    def rotate(self, path: Path, limit: int) -> None:
        """From now on, when standard error is the file `path`: keep it and one older file at `limit` bytes each."""
        output = os.fstat(2)
        if stat.S_ISREG(output.st_mode) and _is_same(output, path, _older(path)):
            self._path, self._limit = path, limit

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self._path is not None:
            # The disk is full, or the file was removed: go on with the open file.
            with contextlib.suppress(OSError):
                self._rotate_if_large(self._path)

    def _rotate_if_large(self, path: Path) -> None:
        output = os.fstat(2)
        if output.st_size < self._limit:
            return
        if _is_same(output, path):  # and was not renamed by a server that ended while this one started
            os.replace(path, _older(path))
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.path.samestat(os.fstat(1), output):
                os.dup2(opened, 1)
            os.dup2(opened, 2)
        finally:
            os.close(opened)


def start_logging() -> ServerLog:
    handler = ServerLog()
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    return handler


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _is_same(output: os.stat_result, *paths: Path) -> bool:
    for path in paths:
        with contextlib.suppress(OSError):
            if os.path.samestat(output, path.stat()):
                return True
    return False


def _safe(text: str, longest: int) -> str:
    text = _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text[: longest + 1])
    return text if len(text) <= longest else f"{text[:longest]}…"
