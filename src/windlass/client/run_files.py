"""The files of a run: add, list, fetch."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from windlass.client.exceptions import UserErrorException
from windlass.client.run_record import RunRecord
from windlass.client.runs.progress import progress
from windlass.core import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from windlass.client.http import Session

_PIECE = 1 << 20


class RunFiles(RunRecord):
    def upload_file(self, name: str, path_or_stream: Any, datastore_name: str | None = None) -> None:
        """Add a file to the run's record under a name, which is used once."""
        self._store_file(names.relative_path(name), path_or_stream)

    def upload_files(
        self,
        names: Sequence[str],
        paths: Sequence[str],
        return_artifacts: bool = False,
        timeout_seconds: float | None = None,
        datastore_name: str | None = None,
    ) -> None:
        if len(names) != len(paths):
            raise TypeError(
                "names and paths must be lists of equal lengths. "
                f"Names was of length {len(names)} and paths of length {len(paths)}."
            )
        for name, path in zip(names, paths):
            self.upload_file(name, path)

    def upload_folder(self, name: str, path: str, datastore_name: str | None = None) -> None:
        """Add all files of a folder, below a name."""
        if not os.path.isdir(path):
            raise UserErrorException(f"There is no folder {path}.")
        for relative, location in files_below(path):
            self.upload_file(f"{name.rstrip('/')}/{relative}", location)

    def get_file_names(self) -> list[str]:
        return [file["path"] for file in self._call("GET", "/files")["files"]]

    def download_file(self, name: str, output_file_path: str | None = None, _validate_checksum: bool = False) -> None:
        """Fetch a file: to its own name in the current folder, to a path, or into a folder that is there."""
        target = os.path.basename(name) if output_file_path is None else os.fspath(output_file_path)
        if os.path.isdir(target) or target.endswith(os.sep):
            target = os.path.join(target, os.path.basename(name))
        self._download(name, target)

    def download_files(
        self,
        prefix: str | None = None,
        output_directory: str | None = None,
        output_paths: Sequence[str] | None = None,
        batch_size: int = 100,
        append_prefix: bool = True,
        timeout_seconds: float | None = None,
    ) -> None:
        """Fetch all files whose names begin with a prefix (a folder)."""
        found = [name for name in self.get_file_names() if _is_below(name, prefix)]
        if not found:
            raise UserErrorException(f"Run {self.id} has no file below {prefix or '/'}.")
        if output_paths is not None and len(output_paths) != len(found):
            raise UserErrorException(f"There are {len(found)} files and {len(output_paths)} output_paths.")
        for i, name in enumerate(found):
            names.relative_path(name)  # the server's word is not enough to write somewhere
            cut = len(prefix.rstrip("/")) + 1 if prefix and not append_prefix and name != prefix else 0
            place = output_paths[i] if output_paths is not None else name[cut:]
            self._download(name, os.path.join(output_directory or ".", place))

    def _download(self, name: str, target: str) -> None:
        names.relative_path(name)
        download(self._session, f"{self._path}/files/{quoted(name)}", target)

    def _store_file(self, name: str, source: Any) -> None:
        path = f"{self._path}/files/{quoted(name)}"
        if isinstance(source, (bytes, bytearray)):
            self._session.transfer("PUT", path, bytes(source), len(source))
        elif hasattr(source, "read"):
            self._store_stream(path, source)
        else:
            size = file_size(os.fspath(source))
            self._session.transfer("PUT", path, partial(_pieces, os.fspath(source), size), size)

    def _store_stream(self, path: str, stream: Any) -> None:
        """A stream can be read once, and a request may have to be repeated: so it goes to a file first."""
        import shutil
        import tempfile

        with tempfile.NamedTemporaryFile() as file:
            shutil.copyfileobj(_as_bytes(stream), file)
            file.flush()
            size = os.path.getsize(file.name)
            self._session.transfer("PUT", path, partial(_pieces, file.name, size), size)


def download(session: Session, path: str, target: str) -> None:
    """Written aside and renamed: a file that is there is whole."""
    folder = os.path.dirname(os.path.abspath(target))
    os.makedirs(folder, exist_ok=True)
    aside = os.path.join(folder, f".{os.urandom(8).hex()}.part")
    try:
        with open(aside, "wb") as file, progress(f"Downloading {os.path.basename(target)}") as shown:
            for piece in session.download(path, expect=shown.expect):
                file.write(piece)
                shown.advance(len(piece))
        os.replace(aside, target)
    finally:
        if os.path.exists(aside):
            os.remove(aside)


def quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="/")


def file_size(path: str) -> int:
    if not os.path.isfile(path):
        raise UserErrorException(f"There is no file {path}.")
    return os.path.getsize(path)


def files_below(folder: str) -> Iterator[tuple[str, str]]:
    """(relative path, location) of each regular file; links are not followed."""
    for place, folders, file_names in os.walk(folder):
        folders.sort()
        for name in sorted(file_names):
            location = os.path.join(place, name)
            if os.path.isfile(location) and not os.path.islink(location):
                yield os.path.relpath(location, folder).replace(os.sep, "/"), location


def _is_below(name: str, prefix: str | None) -> bool:
    return not prefix or name == prefix or name.startswith(prefix.rstrip("/") + "/") or name.startswith(prefix)


def _pieces(path: str, size: int) -> Iterator[bytes]:
    left = size
    try:
        with open(path, "rb") as file:
            while left:
                piece = file.read(min(_PIECE, left))
                if not piece:
                    raise UserErrorException(f"{path} became shorter while it was sent.")
                left -= len(piece)
                yield piece
    except OSError as e:
        raise UserErrorException(f"Cannot read {path}: {e.strerror}") from e


def _as_bytes(stream: Any) -> Any:
    """Texts of a text stream are UTF-8."""
    probe = stream.read(0)
    if isinstance(probe, bytes):
        return stream
    import io

    return io.BytesIO(stream.read().encode("utf-8"))
