"""Files for their owner alone, which others see whole or not at all, also after a power cut."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def replace(path: Path, text: str) -> None:
    with _aside(path, text) as aside:
        aside.rename(path)
        _sync_folder(path.parent)


def create(path: Path, text: str) -> None:
    """Unless it is there already."""
    with _aside(path, text) as aside:
        try:
            os.link(aside, path)
        except FileExistsError:
            return  # another was quicker
        _sync_folder(path.parent)


@contextmanager
def _aside(path: Path, text: str) -> Iterator[Path]:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield aside
    finally:
        aside.unlink(missing_ok=True)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
