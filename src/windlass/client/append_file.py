"""A file that one process appends whole lines to: how a script in a run tells what it did, without waiting."""

from __future__ import annotations

import os
import sys
import threading


class AppendFile:
    """`<folder>/<pid>-<random>.jsonl`, opened at the first line; a forked process gets its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = -1
        self._is_torn = False
        self._has_told = False
        # Reentrant, since a signal handler may log in the middle of a call.
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._start_anew)

    def append(self, line: bytes) -> None:
        """One write a line. A disk that is full costs the line and a warning, not the training."""
        with self._lock:
            try:
                if self._fd < 0:
                    self._fd = self._open()
                if self._is_torn:
                    line = b"\n" + line
                done = os.write(self._fd, line)
                while done < len(line):
                    self._is_torn = True
                    done += os.write(self._fd, line[done:])
                self._is_torn = False
            except OSError as e:
                self._tell(e)

    def _open(self) -> int:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = os.path.join(self._folder, f"{os.getpid()}-{os.urandom(4).hex()}.jsonl")
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _start_anew(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._is_torn = False
        self._lock = threading.RLock()

    def _tell(self, error: OSError) -> None:
        if not self._has_told:
            self._has_told = True
            print(f"Warning: what this run logs cannot be written: {error.strerror}", file=sys.stderr)
