"""Live logs: files that grow, one per log and attempt, until they are sealed as blobs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from windlass.core import names
from windlass.core.errors import InvalidRequest, NotFound
from windlass.store.files.blobs import Blobs
from windlass.store.files.durability import reporting_full_disk

_SEALED = 0o400
_WRITABLE = 0o200


class LiveLogs:
    def __init__(self, folder: Path, blobs: Blobs) -> None:
        self.folder = folder
        self._blobs = blobs

    def append(self, run_id: str, attempt: int, path: str, offset: int, data: bytes) -> int:
        """Add `data`, which starts at `offset`; returns the new size. What is there already is skipped."""
        file = self._path(run_id, attempt, path)
        with reporting_full_disk(self.folder), _rejecting_bad_names(path):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                return _append(descriptor, path, offset, data)
            finally:
                os.close(descriptor)

    def size(self, run_id: str, attempt: int, path: str) -> int:
        """The size of a log; 0 if it does not exist."""
        try:
            seen = self._path(run_id, attempt, path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return 0
        return seen.st_size if stat.S_ISREG(seen.st_mode) else 0

    def read(self, run_id: str, attempt: int, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """At most `limit` bytes from `offset` on; none if the log does not reach there (yet)."""
        if offset < 0 or limit < 0:
            raise InvalidRequest(f"A log is read from 0 on, not from {offset} ({limit} bytes).")
        try:
            with open(self._path(run_id, attempt, path), "rb", buffering=0) as file:
                file.seek(offset)
                return file.read(limit)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, OverflowError):  # or beyond any file's end
            return b""

    def seal(self, run_id: str, attempt: int, path: str) -> tuple[str, int]:
        """Store the log durably as a blob. It can be read here until `drop`, but not be appended to any more."""
        file = self._path(run_id, attempt, path)
        try:
            with open(file, "rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                os.chmod(file, _SEALED)
                return self._blobs.adopt(file, keep=True)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"Attempt {attempt} of run {run_id} has no log {path}.") from None

    def drop(self, run_id: str, attempt: int) -> None:
        """Delete the live logs of an attempt; sealed ones remain as blobs."""
        shutil.rmtree(self._folder(run_id, attempt), ignore_errors=True)
        with contextlib.suppress(OSError):
            self._folder(run_id, attempt).parent.rmdir()

    def drop_all(self, run_id: str) -> None:
        shutil.rmtree(self.folder / names.run_id(run_id), ignore_errors=True)

    def sealed(self) -> Iterator[tuple[str, int]]:
        """The runs whose live logs are all sealed, with the size of these logs."""
        for run in os.scandir(self.folder) if self.folder.is_dir() else ():
            found = []
            for file in (Path(top, name) for top, _, names_here in os.walk(run.path) for name in names_here):
                with contextlib.suppress(FileNotFoundError):  # dropped meanwhile
                    found.append(file.stat())
            if not any(seen.st_mode & _WRITABLE for seen in found):
                yield run.name, sum(seen.st_size for seen in found)

    def _folder(self, run_id: str, attempt: int) -> Path:
        return self.folder / names.run_id(run_id) / str(int(attempt))

    def _path(self, run_id: str, attempt: int, path: str) -> Path:
        return self._folder(run_id, attempt) / names.relative_path(path)

    def list(self, run_id: str, attempt: int) -> dict[str, int]:
        top = self._folder(run_id, attempt)
        files = (Path(folder, name) for folder, _, found in os.walk(top) for name in found)
        sizes: dict[str, int] = {}
        for file in sorted(files):
            with contextlib.suppress(FileNotFoundError):  # dropped meanwhile
                sizes[file.relative_to(top).as_posix()] = file.stat().st_size
        return sizes


def _append(descriptor: int, path: str, offset: int, data: bytes) -> int:
    seen = os.fstat(descriptor)
    if not 0 <= offset <= seen.st_size:
        raise InvalidRequest(
            f"The log {path} has {seen.st_size} bytes; it cannot go on at {offset}.", details={"expected": seen.st_size}
        )
    new = memoryview(data)[seen.st_size - offset :]
    if not new:
        return seen.st_size
    if not seen.st_mode & _WRITABLE:
        raise InvalidRequest(f"The log {path} is sealed at {seen.st_size} bytes.", details={"expected": seen.st_size})
    while new:
        new = new[os.write(descriptor, new) :]
    return offset + len(data)


@contextlib.contextmanager
def _rejecting_bad_names(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EILSEQ):
            raise
        raise InvalidRequest(f"There cannot be a log {path[:60]!a}: {os.strerror(error.errno)}.") from error
