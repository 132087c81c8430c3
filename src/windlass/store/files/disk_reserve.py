"""Disk space that new data must leave free, so that the runs that exist can still be recorded to their end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from windlass.core.errors import StorageFull

_HINT = "Free some space: windlass gc shows what can be removed."


@dataclass(frozen=True, slots=True)
class DiskReserve:
    """The disk of `folder` must keep `reserve_bytes` free."""

    folder: Path
    reserve_bytes: int

    def free_bytes(self) -> int:
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize

    def check(self, nbytes: int = 0) -> None:
        """Raise StorageFull if writing `nbytes` more would use space of the reserve."""
        free = self.free_bytes()
        if free - nbytes >= self.reserve_bytes or not self.reserve_bytes:  # without a reserve, the disk itself refuses
            return
        left = f"{self.folder} has {_mb(free)} left, and {_mb(self.reserve_bytes)} are kept free for runs that exist."
        if free < self.reserve_bytes:
            raise StorageFull(f"The server's disk is nearly full: {left}", hint=_HINT)
        raise StorageFull(f"The server's disk has no room for {_mb(nbytes)} more: {left}", hint=_HINT)

    def guard(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass a stream through to its writer, and raise StorageFull at the chunk that would use space of the reserve.

        Free space is read again for each chunk (about 1 µs), so that streams that are written at the same time are
        stopped too.
        """
        for chunk in chunks:
            self.check(len(chunk))
            yield chunk


def _mb(nbytes: int) -> str:
    return f"{nbytes // 1_000_000} MB"
