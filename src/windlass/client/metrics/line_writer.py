"""Append-only file of JSON lines, one per process: how a script in a run logs metrics and calls without a request."""

from __future__ import annotations

import errno
import os
import sys
import threading


class LineWriter:
    """`<folder>/<pid>-<random>.jsonl`, opened at the first line; a forked process gets its own.

    A line is one write to a file opened for appending, so threads need no lock, and a signal handler may log too.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = -1
        self._has_warned = False
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def append(self, line: bytes) -> None:
        fd = self._fd
        try:
            if os.write(fd, line) == len(line):
                return
        except OSError:
            pass
        self._append_to_new(line, fd)

    def _append_to_new(self, line: bytes, failed: int) -> None:
        """Write the first line, or one that could not be written whole, to a new file; later lines go there too.

        The old file stays open, since another thread may be about to write to it. On a full disk lines are lost, with a
        warning; the training goes on.
        """
        with self._lock:
            try:
                if self._fd == failed:
                    self._fd = self._begin(line)
                elif os.write(self._fd, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as e:
                self._fd = -1
                if not self._has_warned:
                    self._has_warned = True
                    print(f"Warning: what this run logs cannot be written: {e.strerror}", file=sys.stderr)

    def _begin(self, line: bytes) -> int:
        """Create a file with this line, or no file at all: while the disk is full, this is tried for each line."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = os.path.join(self._folder, f"{os.getpid()}-{os.urandom(4).hex()}.jsonl")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.write(fd, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.close(fd)
            os.unlink(path)
            raise
        return fd

    def _reset_after_fork(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._lock = threading.RLock()
