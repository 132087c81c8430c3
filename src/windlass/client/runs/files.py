"""Files of a run: upload, list, download."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from windlass.client import names
from windlass.client.exceptions import ResourceNotFound, UserErrorException
from windlass.client.runs.record import RunRecord
from windlass.core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from windlass.client.runs.downloads import Download

_PIECE = 1 << 20
_LISTED = 100  # files that an error names


class RunFiles(RunRecord):
    def upload_file(self, name: str, path_or_stream: Any, datastore_name: str | None = None) -> None:
        """Add a file to the run's record under a name that it does not have yet."""
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
        """Fetch a file: to its own name in the current folder, to a path, or into a folder that is there.

        Both `user_logs/std_log.txt` and `azureml-logs/70_driver_log.txt` fetch what the script printed.
        """
        from windlass.client.runs.downloads import Download, quoted, safe_path, save_one

        target = "." if output_file_path is None else os.fspath(output_file_path)
        if os.path.isdir(target) or target.endswith(os.sep):
            target = safe_path(target, os.path.basename(names.relative_path(name)))
        stored_name = self._stored_name(names.relative_path(name))
        try:
            save_one(self._session, Download(name, f"{self._path}/files/{quoted(stored_name)}", target))
        except NotFound:
            raise _not_found("File", name, self.get_file_names()) from None

    def _stored_name(self, name: str) -> str:
        """The name of a file in the record: a name of the classic layout stands for the log, if no file has it."""
        from windlass.client.runs.log_names import MAIN_LOG, is_classic

        return MAIN_LOG if is_classic(name) and name not in self.get_file_names() else name

    def download_files(
        self,
        prefix: str | None = None,
        output_directory: str | None = None,
        output_paths: Sequence[str] | None = None,
        batch_size: int = 100,
        append_prefix: bool = True,
        timeout_seconds: float | None = None,
    ) -> None:
        """Fetch the files of the folder `prefix`, or the file of that name; if there is neither, all files whose names
        begin with it. Without `append_prefix` they are saved without the folders that the prefix names.

        A file whose name cannot be used on this machine is skipped with a warning; the others are saved. The folder
        `azureml-logs` has the log as `70_driver_log.txt`.
        """
        from windlass.client.runs.downloads import listed, safe_path
        from windlass.client.runs.log_names import CLASSIC_LOG, MAIN_LOG, asks_for_classic

        there = {file["path"]: file for file in self._call("GET", "/files")["files"]}
        if asks_for_classic(prefix or "") and MAIN_LOG in there:
            there.setdefault(CLASSIC_LOG, there[MAIN_LOG])
        files = _below(list(there), prefix or "")
        if not files:
            raise _not_found("Prefix", prefix or "/", list(there))
        if output_paths is not None and len(output_paths) != len(files):
            raise UserErrorException(f"There are {len(files)} files and {len(output_paths)} output_paths.")
        folder = output_directory or "."
        found = []
        for i, name in enumerate(files):
            if output_paths is not None:
                place = os.path.join(folder, output_paths[i])  # chosen by the caller, not by the server
            else:
                place = safe_path(folder, name if append_prefix else _without(prefix or "", name))
            found.append(listed(there[name], f"{self._path}/files", place))
        self._save_all(found)

    def _save_all(self, files: list[Download]) -> list[str]:
        """Save the files, with a warning for each whose name cannot be used here; returns the paths of the others."""
        from windlass.client.runs.downloads import save_all

        skipped = save_all(self._session, files)
        for each in skipped:
            print(f"Warning: {each}", file=sys.stderr)
        left_out = {each.name for each in skipped}
        return [file.place for file in files if file.name not in left_out]

    def _store_file(self, name: str, source: Any) -> None:
        from windlass.client.runs.downloads import quoted

        path = f"{self._path}/files/{quoted(name)}"
        if isinstance(source, (bytes, bytearray)):
            self._session.transfer("PUT", path, bytes(source), len(source))
        elif hasattr(source, "read"):
            self._store_stream(path, source)
        else:
            size = file_size(os.fspath(source))
            self._session.transfer("PUT", path, partial(_pieces, os.fspath(source), size), size)

    def _store_stream(self, path: str, stream: Any) -> None:
        """Copy the stream to a file first: it can be read only once, and a request may be retried."""
        import shutil
        import tempfile

        with tempfile.NamedTemporaryFile() as file:
            shutil.copyfileobj(_as_bytes(stream), file)
            file.flush()
            size = os.path.getsize(file.name)
            self._session.transfer("PUT", path, partial(_pieces, file.name, size), size)


def _not_found(what: str, name: str, there: list[str]) -> ResourceNotFound:
    """The error with Azure's text. A run may have many files, with any names: the list is cut, names are sanitized."""
    from windlass.core.sanitize import escape

    some = ",".join([*map(escape, there[:_LISTED]), *(["…"] if len(there) > _LISTED else [])])
    return ResourceNotFound(f"{what} with path {escape(name)} was not found,\navailable files include: {some}.")


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


def _below(names: list[str], prefix: str) -> list[str]:
    """The file of that name, or the files of that folder; else, as in Azure, all names that begin with the prefix."""
    folder = prefix.rstrip("/")
    named = [name for name in names if not folder or name == folder or name.startswith(f"{folder}/")]
    return named or [name for name in names if name.startswith(prefix)]


def _without(prefix: str, name: str) -> str:
    """The name below the folder `prefix`; or below the folder that `prefix` begins in, if it is part of a name."""
    folder = prefix.rstrip("/")
    if not name.startswith(f"{folder}/"):
        folder = folder.rpartition("/")[0]
    return name[len(folder) + 1 :] if folder else name


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
    """A stream of bytes; a text stream is encoded as UTF-8."""
    probe = stream.read(0)
    if isinstance(probe, bytes):
        return stream
    import io

    return io.BytesIO(stream.read().encode("utf-8"))
