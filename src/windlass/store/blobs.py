"""Bytes by content digest: written aside, made durable, then renamed to their name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO


class Blobs:
    def put(self, chunks: Iterable[bytes], expect: str | None = None) -> tuple[str, int]:
        raise NotImplementedError

    def put_many(self, items: Iterable[tuple[str, Iterable[bytes]]]) -> None:
        raise NotImplementedError

    def missing(self, digests: Iterable[str]) -> list[str]:
        raise NotImplementedError

    def open(self, digest: str) -> BinaryIO:
        raise NotImplementedError

    def size(self, digest: str) -> int:
        raise NotImplementedError

    def adopt(self, path: Path) -> tuple[str, int]:
        raise NotImplementedError
