"""Snapshot of a source folder: a manifest with digests, and the upload of files that the server does not have."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.client.exceptions import SnapshotException, UserErrorException
from windlass.client.http.progress import progress
from windlass.client.submit.digest_cache import DigestCache
from windlass.client.submit.source_walk import SourceEntry, describe, walk
from windlass.core.errors import SnapshotIncomplete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from windlass.client.http.session import Session

SNAPSHOT_MAX_SIZE_BYTES = 300 * 1024 * 1024
SNAPSHOT_MAX_FILES = 2000
_JUDGE_SECONDS, _LONG_SECONDS = 3.0, 60.0
_NAMED = 3
_MOST_BEYOND_LIMIT = 20_000  # files that are listed beyond a limit, to find the biggest
_PIECE = 1 << 20
_BATCH_BYTES = 8 << 20
_BATCH_FILES = 1000
_TRIES = 5
_FRAME = "=" * 68
_IGNORE_HINT = "Name it in .amlignore to leave it out."
_BIG_HINT = "Keep data out of the folder, name it in .amlignore, or raise the limit by {}."


class File(NamedTuple):
    path: str
    digest: str
    size: int
    executable: bool
    location: str


class SourceTooLarge(SnapshotException):
    """A source folder that exceeds a limit. Its text has the frame of Azure's message."""

    _azure_name = "SnapshotException"
    advice = ""

    @property
    def text(self) -> str:
        lines = [self.message, *([self.advice] if self.advice else []), self.hint]
        return "\n".join([_FRAME, "", *lines, "", _FRAME, "", ""])


class SourceChanged(SnapshotException):
    """A file was changed between manifest and upload. A new snapshot helps."""


class Snapshot:
    """The files of a source folder, with their digests. `folder` is empty for files that are not of one folder."""

    def __init__(self, folder: str, files: Sequence[File], changed: Sequence[File] = ()) -> None:
        self.folder = folder
        self.files = files
        self.changed = changed  # since the last snapshot of this folder; all of them in the first one

    def manifest(self) -> list[dict[str, Any]]:
        """The list of files for the API."""
        return [{"path": f.path, "digest": f.digest, "size": f.size, "executable": f.executable} for f in self.files]

    def add(self, files: Sequence[File]) -> None:
        """Add files from elsewhere, such as wheels for the environment."""
        self.files = [*self.files, *files] if files else self.files

    def digest(self) -> str:
        """The name that the server gives to a snapshot of these files."""
        from windlass.core.digests import snapshot_digest
        from windlass.core.entities import SnapshotFile

        return snapshot_digest(SnapshotFile(f.path, f.digest, f.size, f.executable) for f in self.files)

    def __contains__(self, path: str) -> bool:
        return any(file.path == path for file in self.files)


def take(folder: str, home: str) -> Snapshot:
    """Take a snapshot of a folder, or of one file. Unchanged files are not read again."""
    folder = os.path.abspath(folder)
    if not os.path.exists(folder):
        raise UserErrorException(f"There is no source directory {folder}.", "Name the folder that holds the script.")
    found = list(_limited(folder, _files(folder, home)))
    cache = DigestCache(home, folder)
    files = [_digested(file, cache) for file in found]
    changed = [file for file in files if file.path in cache.changed]
    cache.save()
    return Snapshot(folder, files, changed)


def digest_file(path: str, home: str) -> File:
    """One file of any size, with its digest. An unchanged file is not read again."""
    cache = DigestCache(home, path)
    found = _digested(describe(os.path.basename(path), path, os.stat(path)), cache)
    cache.save()
    return found


def _files(folder: str, home: str) -> Iterable[SourceEntry]:
    if os.path.isdir(folder):
        return walk(folder, home)
    return [describe(os.path.basename(folder), folder, os.stat(folder))]


def _limited(folder: str, files: Iterable[SourceEntry]) -> Iterator[SourceEntry]:
    """Raise SourceTooLarge as soon as a limit is exceeded, without walking a whole disk."""
    most_bytes = int(os.environ.get("SNAPSHOT_MAX_SIZE_BYTES") or SNAPSHOT_MAX_SIZE_BYTES)
    has_file_limit = not os.environ.get("AML_SNAPSHOT_NO_FILE_LIMIT")
    total = 0
    seen: list[SourceEntry] = []
    files = iter(files)
    for count, file in enumerate(files, 1):
        total += file.size
        seen.append(file)
        if total > most_bytes:
            too_large = SourceTooLarge(
                f"While attempting to take snapshot of {folder}\n"
                f"Your total snapshot size exceeds the limit of {round(most_bytes / 1048576, 2)} MB.",
                f"{_biggest([*seen, *islice(files, _MOST_BEYOND_LIMIT)])} "
                + _BIG_HINT.format("SNAPSHOT_MAX_SIZE_BYTES"),
            )
            too_large.advice = "Please see http://aka.ms/aml-largefiles on how to work with large files."
            raise too_large
        if has_file_limit and count > SNAPSHOT_MAX_FILES:
            raise SourceTooLarge(
                f"While attempting to take snapshot of {folder}\n"
                f"Your project exceeds the file limit of {SNAPSHOT_MAX_FILES}.",
                f"{_fullest([*seen, *islice(files, _MOST_BEYOND_LIMIT)])} "
                + _BIG_HINT.format("AML_SNAPSHOT_NO_FILE_LIMIT=True"),
            )
        yield file


def _biggest(files: Sequence[SourceEntry]) -> str:
    """The files and folders that take most of the space."""
    largest = sorted(files, key=lambda file: file.size, reverse=True)[:_NAMED]
    named = ", ".join(f"{file.path} ({_megabytes(file.size)})" for file in largest)
    sizes = [(folder, _megabytes(size)) for folder, size in _folders(files, lambda file: file.size)]
    folders = ", ".join(f"{folder}/ ({size})" for folder, size in sizes)
    return f"The biggest files are {named}." + (f" The biggest folders are {folders}." if folders else "")


def _fullest(files: Sequence[SourceEntry]) -> str:
    """The folders with most of the files."""
    folders = ", ".join(f"{folder}/ ({count:,} files)" for folder, count in _folders(files, lambda file: 1))
    return f"The folders with most files are {folders}." if folders else "All of them are in the folder itself."


def _folders(files: Iterable[SourceEntry], amount: Callable[[SourceEntry], int]) -> list[tuple[str, int]]:
    """The folders of the first two levels with the largest amounts. If nearly all of a folder is in one of its folders,
    that one is listed in its place.
    """
    totals: dict[str, int] = {}
    for file in files:
        parts = file.path.split("/")[:-1]
        for depth in range(1, min(len(parts), 2) + 1):
            folder = "/".join(parts[:depth])
            totals[folder] = totals.get(folder, 0) + amount(file)
    inner = [(folder.split("/")[0], folder) for folder in totals if "/" in folder]
    replaced = {outer for outer, folder in inner if totals[folder] * 10 >= totals[outer] * 9}
    named = {outer for outer, _ in inner} - replaced
    kept = [(f, n) for f, n in totals.items() if f not in replaced and f.split("/")[0] not in named - {f}]
    return sorted(kept, key=lambda item: item[1], reverse=True)[:_NAMED]


def _megabytes(size: int) -> str:
    return f"{size / 1048576:.1f} MB"


def _digested(file: SourceEntry, cache: DigestCache) -> File:
    digest = cache.get(file)
    if digest is None:
        file, digest = _read(file)
        cache.put(file, digest)
    return File(file.path, digest, file.size, file.executable, file.location)


def _read(file: SourceEntry) -> tuple[SourceEntry, str]:
    """The file's digest. A file that changes while it is read is read again."""
    for _ in range(_TRIES):
        summary = hashlib.sha256()
        try:
            fd = os.open(file.location, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, "rb", buffering=0) as stream:
                before = describe(file.path, file.location, os.fstat(fd))
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise SnapshotException(f"{file.location} is not a file any more.")
                for piece in iter(lambda: stream.read(_PIECE), b""):
                    summary.update(piece)
                after = describe(file.path, file.location, os.fstat(fd))
        except OSError as e:
            raise SnapshotException(f"Cannot read {file.location}: {e.strerror}", _IGNORE_HINT) from e
        if before == after:
            return after, summary.hexdigest()
    raise SnapshotException(
        f"{file.location} keeps changing while it is read.", "Name it in .amlignore to leave it out."
    )


def post_with_files(
    session: Session,
    root: str,
    path: str,
    body: dict[str, Any],
    taken: Snapshot,
    key: str = "",
    on_progress: Callable[[int, int], None] | None = None,
    first: dict[str, Any] | None = None,
) -> Any:
    """POST a body that names files. Files that the server misses are uploaded, and the request is repeated. `first` is
    the body of the first request, if it is another one. `path` is relative to `root`, the path of the workspace.
    """
    sent = first or body
    while True:
        try:
            return session.call("POST", f"{root}/{path}", sent, key=key)
        except SnapshotIncomplete as e:
            missing = e.details.get("missing") or []
            has_them = any(file.digest in missing for file in taken.files)
            if not has_them and not (sent is first and e.details.get("manifest")):
                raise
            upload(session, root, taken, missing, on_progress)
            sent = body


def upload(
    session: Session,
    workspace_path: str,
    snapshot: Snapshot,
    missing: Iterable[str],
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Upload the files with the missing digests, many files per request."""
    # A wheel of the workspace has no location here, but the source folder may have a file with the same digest.
    by_digest = {file.digest: file for file in sorted(snapshot.files, key=lambda file: bool(file.location))}
    files = [by_digest[digest] for digest in dict.fromkeys(missing) if digest in by_digest]
    for file in files:
        if not file.location:  # a wheel of the workspace
            raise SnapshotException(
                f"The workspace does not have {os.path.basename(file.path)} any more.",
                "Environment.add_private_pip_wheel() puts it there.",
            )
    total = sum(file.size for file in files)
    if on_progress is not None:
        _send(session, workspace_path, files, lambda done: on_progress(done, total))
    elif files:
        with progress("Sending the folder" if snapshot.folder else "Sending files", total) as shown:
            _send(session, workspace_path, files, _with_note_if_slow(snapshot.folder, total, shown.reach))


def _send(session: Session, workspace_path: str, files: Sequence[File], sent: Callable[[int], None]) -> None:
    done = 0
    for batch in _batches(files):
        length = sum(72 + file.size for file in batch)
        session.transfer("POST", f"{workspace_path}/blobs", partial(_frames, batch, done, sent), length)
        done += sum(file.size for file in batch)


def _with_note_if_slow(folder: str, total: int, sent: Callable[[int], None]) -> Callable[[int], None]:
    """Pass progress on to `sent`, and print a note once if the rate shows that the upload takes long."""
    since, is_noted = time.monotonic(), not folder

    def note(done: int) -> None:
        nonlocal is_noted
        sent(done)
        seconds = time.monotonic() - since
        if not is_noted and seconds >= _JUDGE_SECONDS and seconds / max(done, 1) * (total - done) >= _LONG_SECONDS:
            is_noted = True
            print(f"Submitting {folder} directory for run. It is large, so it can take a few minutes.", flush=True)

    return note


def _batches(files: Sequence[File]) -> Iterator[list[File]]:
    batch: list[File] = []
    size = 0
    for file in files:
        if batch and (size + file.size > _BATCH_BYTES or len(batch) >= _BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


def _frames(files: Sequence[File], done: int, sent: Callable[[int], None]) -> Iterator[bytes]:
    """The body of an upload: for each file its digest, its length in 8 bytes, its bytes; small files are sent together.
    `done` bytes of earlier batches were sent before; `sent` is called with the number of bytes sent so far.
    """
    waiting = b""
    for file in files:
        waiting += file.digest.encode("ascii") + file.size.to_bytes(8, "big")
        for piece in _checked(file):
            waiting += piece
            done += len(piece)
            if len(waiting) >= _PIECE:
                yield waiting
                waiting = b""
                sent(done)
    if waiting:
        yield waiting
        sent(done)


def _checked(file: File) -> Iterator[bytes]:
    """The file's bytes; raises SourceChanged if they do not match the digest of the manifest."""
    summary = hashlib.sha256()
    left = file.size
    try:
        with open(file.location, "rb", buffering=0) as stream:
            while left:
                piece = stream.read(min(_PIECE, left))
                if not piece:
                    break
                left -= len(piece)
                summary.update(piece)
                if left or summary.hexdigest() == file.digest:
                    yield piece
    except OSError as e:
        raise SourceChanged(f"{file.location} cannot be read any more: {e.strerror}") from e
    if left or summary.hexdigest() != file.digest:
        raise SourceChanged(f"{file.location} was changed while it was sent.")
