"""Limits of what one run may store: bytes of logs, bytes of metrics and calls, number of files, disk space."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.store.files.disk_reserve import DiskReserve

MOST_FOLLOWED = 10_000  # files of one run that are read while they grow
_SMALL_RECORD = 1 << 20
_BLOCK = 4096  # what a small file takes of a disk


@dataclass(slots=True)
class RunBudget:
    """What this server has stored of one attempt of a run. Only the thread that has acquired the run changes it."""

    log_bytes: int | None = None  # None until they were counted
    line_bytes: int = 0  # of metrics and calls
    followed: set[int] = field(default_factory=set)  # hashes of paths: a path may have 4,096 bytes
    reported: set[str] = field(default_factory=set)  # limits that the run's events name
    notes: list[str] = field(default_factory=list)  # what is not stored, and why: part of the run's message

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def may_follow(self, path: str) -> bool:
        """Whether a file is among those that are read while they grow; counts it if it is new."""
        if hash(path) in self.followed:
            return True
        if len(self.followed) >= MOST_FOLLOWED:
            return False
        self.followed.add(hash(path))
        return True


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """`log_bytes` of one log, `run_bytes` of all logs of a run and as much of its metrics and calls. Files of runs
    stop above the disk reserve, so that new runs can still be submitted; only a run's first megabyte may use the first
    half of the reserve, so that short runs keep their logs. The second half is for the database.
    """

    log_bytes: int
    run_bytes: int
    reserve: DiskReserve

    def has_room(self, nbytes: int, stored: int = 0) -> bool:
        """Whether the disk has room for `nbytes` more of a run that has `stored` bytes here."""
        if stored + nbytes <= _SMALL_RECORD:
            return self.reserve.free_bytes() - nbytes >= self.reserve.reserve_bytes // 2
        return nbytes <= self.room()

    def room(self) -> int:
        """Bytes that a run with much data may still write."""
        kept_free = self.reserve.reserve_bytes
        return self.reserve.free_bytes() - kept_free - kept_free // 4


def on_disk(nbytes: int) -> int:
    return max(nbytes, _BLOCK)
