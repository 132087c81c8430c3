"""Files that only their owner can read, written atomically and durably: complete or absent, also after a power loss."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def replace(path: Path, text: str) -> None:
    with _temporary(path, text) as temporary:
        temporary.rename(path)
        _sync_folder(path.parent)


def create(path: Path, text: str) -> None:
    """Create the file unless it exists."""
    with _temporary(path, text) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return  # another process was faster
        _sync_folder(path.parent)


@contextmanager
def _temporary(path: Path, text: str) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
