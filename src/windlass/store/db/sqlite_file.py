"""The SQLite file: lock for one process, check for network disks, backup before a migration."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from windlass.core.errors import Conflict, InternalError, InvalidRequest
from windlass.core.file_systems import NETWORK_FILE_SYSTEMS


class FileLock:
    """An flock that is held while the store is open. The kernel releases it when the process dies."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise Conflict(
                f"The store {path.with_suffix('')} is in use by the process {pid}.",
                hint="One server at a time uses an SQLite store: use that one, stop it, or choose another home.",
                details={"pid": pid},
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._file)


def prepare(path: Path) -> None:
    """Create the file, readable by its owner only; refuse network disks and an old SQLite."""
    if sqlite3.sqlite_version_info < (3, 35):
        raise InternalError(
            f"This Python has SQLite {sqlite3.sqlite_version}; 3.35 or newer is needed.", hint="Use a newer Python."
        )
    refuse_network_disk(path.resolve(), read_mounts())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise InternalError(
            f"The database {path} cannot be opened: {error.strerror}.", hint="Check who owns it and its folder."
        ) from error


def refuse_network_disk(path: Path, mounts: str) -> None:
    """SQLite's locks and its write-ahead log do not hold on network file systems. `mounts` is /proc/self/mountinfo."""
    kind = file_system(path, mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        raise InvalidRequest(
            f"The store {path} is on a network disk ({kind}), where SQLite can lose data.",
            hint="Set WINDLASS_HOME to a folder on a local disk, or use PostgreSQL.",
        )


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system at a path: that of the longest mount point above it, the last one mounted there."""
    kind, depth = "", -1
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), left.split()[4]))
        if (path == point or point in path.parents) and len(point.parts) >= depth:
            kind, depth = right.split()[0], len(point.parts)
    return kind


def read_mounts() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:  # not Linux
        return ""


def back_up(path: Path, version: int) -> None:
    """Copy the database to a file beside it, before its first step to a newer version."""
    copy = path.with_name(f"{path.name}.version-{version}.backup")
    if copy.exists():  # an interrupted upgrade resumes: the first copy is the one to keep
        return
    aside = copy.with_suffix(".aside")
    aside.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(aside)) as target:
        source.backup(target)
    os.chmod(aside, 0o600)
    with open(aside, "rb") as written:
        os.fsync(written.fileno())
    os.rename(aside, copy)
