"""Making files last: what is said to be written survives a power cut, and a full disk is told as such."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from windlass.core.errors import StorageFull

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MANY = 16  # from here on it is cheaper to ask the whole file system once


@contextlib.contextmanager
def telling_when_full(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StorageFull(
            f"The server's disk is full: {folder} cannot grow.", hint="Free some space: windlass gc shows what may go."
        ) from error


def sync_files(paths: Sequence[Path]) -> None:
    """Wait until the disk has the content of all of these, which are on one file system."""
    if len(paths) >= _MANY and _sync_file_system(paths[0]):
        return
    for path in paths:
        sync(path)


def sync(path: Path) -> None:
    """Wait until the disk has a file's content, or a folder's names."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def make_folder(path: Path) -> None:
    """A folder whose own name lasts."""
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
