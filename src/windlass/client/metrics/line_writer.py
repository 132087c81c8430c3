"""A file that one process appends whole lines to: how a script in a run tells what it did, without waiting."""

from __future__ import annotations

import errno
import os
import sys
import threading


class AppendFile:
    """`<folder>/<pid>-<random>.jsonl`, opened at the first line; a forked process gets its own.

    A line is one write to a file opened for appending, so threads need no lock, and a signal handler may log too.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = -1
        self._has_told = False
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._start_anew)

    def append(self, line: bytes) -> None:
        fd = self._fd
        try:
            if os.write(fd, line) == len(line):
                return
        except OSError:
            pass
        self._append_to_new(line, fd)

    def _append_to_new(self, line: bytes, failed: int) -> None:
        """The first line, or one that could not be written whole: it goes to a new file, after which all is well.

        The old file stays open, since another thread may be about to write to it. A disk that is full costs lines and
        a warning, not the training.
        """
        with self._lock:
            try:
                if self._fd == failed:
                    self._fd = self._begin(line)
                elif os.write(self._fd, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as e:
                self._fd = -1
                if not self._has_told:
                    self._has_told = True
                    print(f"Warning: what this run logs cannot be written: {e.strerror}", file=sys.stderr)

    def _begin(self, line: bytes) -> int:
        """A new file with this line, or none at all: as long as the disk is full, each line comes here."""
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

    def _start_anew(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._lock = threading.RLock()
