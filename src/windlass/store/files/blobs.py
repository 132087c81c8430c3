"""Blobs: files by content digest. Written to a temporary file, fsynced, then renamed to the digest."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from windlass import failpoints
from windlass.core import names
from windlass.core.errors import InvalidRequest, NotFound
from windlass.store.files.durability import make_folder, reporting_full_disk, sync, sync_files

_READ = 1 << 20
_READ_ONLY = 0o400  # for the owner: a blob never changes
_TOUCH_SECONDS = 1800  # a blob that was requested within this time is not touched again


class Blobs:
    """A blob exists whole or not at all. Checking that one exists renews its modification time: retention removes only
    old blobs without a reference, and so not one that a request is about to refer to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.aside = folder / "aside"
        make_folder(self.aside)
        self._touching = threading.Lock()

    def path(self, digest: str) -> Path:
        return self.folder / digest[:2] / names.digest(digest)

    def put(self, chunks: Iterable[bytes], expect: str | None = None) -> tuple[str, int]:
        """Store a stream; returns its digest and size. With `expect`, other bytes than those are refused."""
        if expect is not None and self._touch(expect) is not None:
            return _receive(None, chunks, expect)
        with reporting_full_disk(self.folder), self._new_file() as path:
            digest, size = _write(path, chunks, expect)
            sync(path)
            self._rename(path, digest)
            sync(self.path(digest).parent)
        failpoints.reach("F03")
        return digest, size

    def put_many(self, items: Iterable[tuple[str, Iterable[bytes]]]) -> None:
        """Store streams of known digests, with one sync for all; they are durable when this returns."""
        with reporting_full_disk(self.folder), contextlib.ExitStack() as files:
            written: dict[str, Path] = {}
            for digest, chunks in items:
                path = files.enter_context(self._new_file())
                _write(path, chunks, digest)
                written[digest] = path
            sync_files(list(written.values()))
            for digest, path in written.items():
                self._rename(path, digest)
            for folder in {self.path(digest).parent for digest in written}:
                sync(folder)
        failpoints.reach("F03")

    def adopt(self, path: Path, keep: bool = False) -> tuple[str, int]:
        """Move a finished file into the store. With `keep` it is linked, stays where it is, and must not change any
        more.
        """
        with open(path, "rb") as file:
            digest, size = _receive(None, iter(lambda: file.read(_READ), b""), None)
        with reporting_full_disk(self.folder):
            if self._touch(digest) is None:
                sync(path)
                self._link(path, digest)
                sync(self.path(digest).parent)
        if not keep:
            path.unlink()
        return digest, size

    def missing(self, digests: Iterable[str]) -> list[str]:
        return [digest for digest, size in self.sizes(digests).items() if size is None]

    def sizes(self, digests: Iterable[str]) -> dict[str, int | None]:
        """The size of each blob; None if it does not exist."""
        return {digest: self._touch(digest) for digest in digests}

    def size(self, digest: str) -> int:
        with self._reporting_missing(digest):
            return self.path(digest).stat().st_size

    def open(self, digest: str) -> BinaryIO:
        with self._reporting_missing(digest):
            return open(self.path(digest), "rb")

    def remove_older(self, digest: str, moment: float) -> int:
        """Remove a blob that was not requested since `moment`; returns the bytes that were freed."""
        path = self.path(digest)
        with self._touching:
            try:
                seen = path.stat()
            except FileNotFoundError:
                return 0
            if seen.st_mtime >= moment:
                return 0
            path.unlink()
            return seen.st_size

    def all(self) -> Iterator[tuple[str, os.stat_result]]:
        """The digest of every blob."""
        for folder in os.scandir(self.folder):
            for file in os.scandir(folder.path) if folder.name != self.aside.name else ():
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    yield file.name, file.stat()

    def clear_aside(self, moment: float) -> None:
        """Remove temporary files from before `moment`, left by processes that died."""
        for file in os.scandir(self.aside):
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_mtime < moment:
                    os.unlink(file.path)

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[Path]:
        path = self.aside / secrets.token_hex(16)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _rename(self, path: Path, digest: str) -> None:
        target = self.path(digest)
        make_folder(target.parent)
        os.rename(path, target)

    def _link(self, path: Path, digest: str) -> None:
        target = self.path(digest)
        make_folder(target.parent)
        try:
            os.link(path, target)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
                raise
            with open(path, "rb") as file:  # it is on another disk: copy it
                self.put(iter(lambda: file.read(_READ), b""), digest)
        os.chmod(target, _READ_ONLY)
        self._touch(digest)

    def _touch(self, digest: str) -> int | None:
        """Renew the modification time of a blob; returns its size, or None if it does not exist. Called for thousands
        of files at once.
        """
        path = f"{self.folder}/{digest[:2]}/{names.digest(digest)}"
        with self._touching:
            try:
                seen = os.stat(path)
                if seen.st_mtime < time.time() - _TOUCH_SECONDS:
                    os.utime(path)
            except FileNotFoundError:
                return None
            return seen.st_size

    @contextlib.contextmanager
    def _reporting_missing(self, digest: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise NotFound(f"There are no bytes with the digest {digest}.") from None


def _write(path: Path, chunks: Iterable[bytes], expect: str | None) -> tuple[str, int]:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, _READ_ONLY)) as file:
        return _receive(file, chunks, expect)


def _receive(file: BinaryIO | None, chunks: Iterable[bytes], expect: str | None) -> tuple[str, int]:
    """Digest and size of a stream. It is written to `file`, if that is given."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        if file is not None:
            file.write(chunk)
        digest.update(chunk)
        if size == 0:
            failpoints.reach("F02")
        size += len(chunk)
    if expect is not None and digest.hexdigest() != expect:
        raise InvalidRequest(
            f"The bytes have the digest {digest.hexdigest()}, not {expect}.",
            hint="The file changed on its way: send it again.",
        )
    return digest.hexdigest(), size
