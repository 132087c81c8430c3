"""Durable files (fsync), and StorageFull for a full disk."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from windlass.core.errors import StorageFull

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MANY = 16  # from so many files on, one syncfs is cheaper than an fsync of each


@contextlib.contextmanager
def reporting_full_disk(folder: Path) -> Iterator[None]:
    """Raise StorageFull for errors of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StorageFull(
            f"The server's disk is full: {folder} cannot grow.", hint="Free some space: windlass gc shows what may go."
        ) from error


def sync_files(paths: Sequence[Path]) -> None:
    """Wait until the content of these files is on the disk. All are on one file system."""
    if len(paths) >= _MANY and _sync_file_system(paths[0]):
        return
    for path in paths:
        sync(path)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's entries, are on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def make_folder(path: Path) -> None:
    """Create a folder and its parents durably."""
    if not path.is_dir():
        make_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        sync(path.parent)


def _sync_file_system(path: Path) -> bool:
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:  # not Linux
        return False
    file = os.open(path, os.O_RDONLY)
    try:
        if syncfs(file) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    finally:
        os.close(file)
    return True
