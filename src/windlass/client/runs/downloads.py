"""Downloads: safe paths on this machine for file names that a server sends, and atomic writes with checked digests.

File names come from runs and servers that need not be trusted. Every download (files of runs, models, snapshots; by the
SDK or by the command line) gets its path from `safe_path` and its content through `verified`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.client import names
from windlass.client.exceptions import UserErrorException
from windlass.client.http.progress import progress
from windlass.core.errors import InternalError
from windlass.core.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from windlass.client.http.session import Session

# The name of one file cannot be used here. The other files can still be saved.
_UNUSABLE_NAME = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EILSEQ)


class Download(NamedTuple):
    """A file that a server lists, and the path `place` to save it at. Files that still grow have no digest."""

    name: str
    source: str  # path of the API
    place: str
    size: int = 0
    digest: str = ""


class Skipped(NamedTuple):
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{escape(self.name)} was not saved: {self.reason}"


def listed(file: Mapping[str, Any], source: str, place: str) -> Download:
    """The download of an entry of a server's list of files."""
    return Download(str(file["path"]), f"{source}/{quoted(file['path'])}", place, file["size"], file.get("digest", ""))


def safe_path(folder: str, name: str) -> str:
    """The path below `folder` at which a file of this name is saved. Refuses names and links that lead outside."""
    place = os.path.join(folder, *names.relative_path(name).split("/"))
    root = os.path.realpath(folder)
    # A link in place of the file itself is replaced, not followed; one in place of a folder would be followed.
    if os.path.commonpath([root, os.path.realpath(os.path.dirname(place))]) != root:
        raise UserErrorException(
            f"{escape(name)} would be saved outside of {escape(folder)}: a folder on the way is a link.",
            "Remove the link, or name another folder.",
        )
    return place


def save_all(
    session: Session, files: Iterable[Download], advance: Callable[[int], None] | None = None
) -> list[Skipped]:
    """Save each file whose name can be used on this machine; returns the others. `advance` is called with the number of
    bytes of each piece; without it, a progress bar is shown.
    """
    files = list(files)
    if advance is None:
        with progress("Downloading", sum(file.size for file in files) or None) as bar:
            return save_all(session, files, bar.advance)
    skipped = []
    for file in files:
        try:
            save(session, file, advance)
        except OSError as e:
            if e.errno not in _UNUSABLE_NAME:
                raise
            skipped.append(Skipped(file.name, _reason(file, e)))
    return skipped


def save_one(session: Session, file: Download) -> None:
    """Save one file, with a progress bar."""
    with progress(f"Downloading {os.path.basename(file.place)}", file.size or None) as bar:
        save(session, file, bar.advance, bar.expect)


def save(
    session: Session,
    file: Download,
    advance: Callable[[int], None],
    expect: Callable[[int], None] = lambda length: None,
) -> None:
    if os.path.isdir(file.place) and not os.path.islink(file.place):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file.place)
    with atomic_write(file.place) as temporary, open(temporary, "wb") as output:
        for piece in verified(session.download(file.source, expect=expect), file):
            output.write(piece)
            advance(len(piece))


@contextlib.contextmanager
def atomic_write(place: str) -> Iterator[str]:
    """A temporary path in the same folder, renamed to `place` at the end: a file of that name is always complete."""
    folder = os.path.dirname(os.path.abspath(place))
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{os.urandom(8).hex()}.part")
    try:
        yield temporary
        os.replace(temporary, place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def verified(pieces: Iterable[bytes], file: Download) -> Iterator[bytes]:
    """The content as it arrives. Raises InternalError if size or digest are not those that the server listed."""
    import hashlib

    summary = hashlib.sha256()
    size = 0
    for piece in pieces:
        size += len(piece)
        if file.digest and size > file.size:
            break
        summary.update(piece)
        yield piece
    if file.digest and (size != file.size or summary.hexdigest() != file.digest):
        raise InternalError(
            f"The server sent other bytes for {escape(file.name)} than it lists (SHA-256 {escape(file.digest)}).",
            "The file was not saved. If it happens again, the server's store is damaged: windlass doctor.",
        )


def quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="/")


def _reason(file: Download, error: OSError) -> str:
    if error.errno == errno.EISDIR:
        return f"{escape(file.place)} is a folder."
    above = os.path.dirname(file.place)
    while above and not os.path.lexists(above):
        above = os.path.dirname(above)
    return f"{escape(above)} is a file." if os.path.isfile(above) else f"{error.strerror}."
