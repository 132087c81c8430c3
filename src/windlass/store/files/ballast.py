"""A file that reserves disk space for the database. It is removed when the disk is full.

So a cancel, a detach, the end of a run and a gc can be written although other programs have filled the disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path

log = logging.getLogger(__name__)

LARGEST = 16 << 20


class Ballast:
    """A file of `size` bytes whose blocks are allocated."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = min(size, LARGEST)
        self._lock = threading.Lock()

    def fill(self, kept_free: int) -> None:
        """Allocate the file, if the disk then still has `kept_free` bytes."""
        with self._lock, contextlib.suppress(OSError):
            disk = os.statvfs(self._path.parent)
            taken = self._path.stat().st_size if self._path.exists() else 0
            if taken >= self._size or disk.f_bavail * disk.f_frsize < kept_free + self._size - taken:
                return
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, self._size)
            finally:
                os.close(file)

    @property
    def is_filled(self) -> bool:
        return self._path.exists()

    def release(self) -> bool:
        """Remove the file; False if there was none."""
        with self._lock:
            try:
                self._path.unlink()
            except FileNotFoundError:
                return False
        log.warning("the disk of the database is full: removed %s to make room", self._path)
        return True
