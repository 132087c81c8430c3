"""Reads the files of a run: logs that still grow, and files that are stored under their digest after its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import BinaryIO

from windlass.core.entities import Artifact, Run
from windlass.core.errors import NotFound
from windlass.store import Store
from windlass.store.files.attempt_files import path_of

LOG_FOLDERS = ("user_logs/", "azureml-logs/", "logs/", "system_logs/")
_LOG_OF_EARLIER_ATTEMPT = re.compile(r"attempts/[0-9]+/(?!outputs/)")
CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Live:
    """A log that still grows."""

    store: Store
    run: Run
    path: str
    size: int
    digest: str | None = None
    gap_offset: int = 0
    gap_length: int = 0

    def read(self, offset: int, limit: int) -> bytes:
        limit = min(limit, self.size - offset)
        return self.store.logs.read(self.run.id, self.run.attempt, self.path, offset, limit) if limit > 0 else b""

    def chunks(self, offset: int, length: int) -> Iterator[bytes]:
        while length > 0 and (data := self.read(offset, min(CHUNK, length))):
            yield data
            offset, length = offset + len(data), length - len(data)


@dataclass(frozen=True, slots=True)
class Sealed:
    """Bytes that never change. Of a log that reached its limit, `gap_length` bytes are missing at `gap_offset`."""

    store: Store
    path: str
    size: int
    digest: str
    gap_offset: int = 0
    gap_length: int = 0

    @classmethod
    def of(cls, store: Store, path: str, artifact: Artifact) -> Sealed:
        return cls(store, path, artifact.size, artifact.digest, artifact.gap_offset, artifact.gap_length)

    def read(self, offset: int, limit: int) -> bytes:
        with self._open() as file:
            file.seek(offset)
            return file.read(limit)

    def chunks(self, offset: int, length: int) -> Iterator[bytes]:
        with self._open() as file:
            file.seek(offset)
            while length > 0 and (data := file.read(min(CHUNK, length))):
                yield data
                length -= len(data)

    def _open(self) -> AbstractContextManager[BinaryIO]:
        return closing(self.store.blobs.open(self.digest))


File = Live | Sealed


def find_artifact(store: Store, run: Run, path: str) -> Artifact | None:
    try:
        return store.artifacts.get(run.id, path)
    except NotFound:
        return None


def find_file(store: Store, run: Run, path: str) -> File | None:
    artifact = find_artifact(store, run, path) or _earlier(store, run).get(path)
    if artifact is not None:
        return Sealed.of(store, path, artifact)
    size = None if run.is_final else live_logs(store, run).get(path)
    return None if size is None else Live(store, run, path, size)


def find_file_of_attempt(store: Store, run: Run, attempt: int, path: str) -> File | None:
    """A file by its path in one of the attempts of a run; 0 is the current one."""
    if attempt in (0, run.attempt):
        return find_file(store, run, path)
    artifact = find_log_of_attempt(store, run, attempt, path)
    return None if artifact is None else Sealed.of(store, path, artifact)


def find_log_of_attempt(store: Store, run: Run, attempt: int, path: str) -> Artifact | None:
    """A log of an earlier attempt, by its path in that attempt."""
    name = path_of(attempt, path)
    return find_artifact(store, run, name) or _earlier(store, run).get(name)


def list_artifacts(store: Store, run: Run) -> dict[str, Artifact]:
    """The stored files of a run, and those of its earlier attempts below attempts/N."""
    return _earlier(store, run) | {artifact.path: artifact for artifact in store.artifacts.list(run.id)}


def _earlier(store: Store, run: Run) -> dict[str, Artifact]:
    if run.is_final or run.attempt == 1:
        return {}
    return {artifact.path: artifact for artifact in store.artifacts.earlier(run.id)}


def live_logs(store: Store, run: Run) -> dict[str, int]:
    return {} if run.is_final else store.logs.list(run.id, run.attempt)


def log_paths(store: Store, run: Run) -> list[str]:
    sealed = [
        path
        for path in list_artifacts(store, run)
        if path.startswith(LOG_FOLDERS) or _LOG_OF_EARLIER_ATTEMPT.match(path)
    ]
    return sorted({*sealed, *live_logs(store, run)})


def read_log(store: Store, run: Run, path: str, offset: int, limit: int) -> bytes:
    file = find_file(store, run, path)
    return b"" if file is None else file.read(offset, limit)
