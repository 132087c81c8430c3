"""Download of a run's snapshot as a ZIP file."""

from __future__ import annotations

import os
import stat
import zipfile
from typing import TYPE_CHECKING, Any

from windlass.client import names
from windlass.client.exceptions import NotProvided
from windlass.client.runs.downloads import atomic_write, listed, safe_path, verified
from windlass.core.digests import snapshot_digest
from windlass.core.entities import SnapshotFile
from windlass.core.errors import InternalError

if TYPE_CHECKING:
    from windlass.client.runs.run import Run


def restore(run: Run, snapshot_id: str | None, path: str | None) -> str:
    """`path` is a folder, or the name of the file; by default <snapshot id>.zip in the current folder."""
    found = run._call("GET", "/snapshot")
    if snapshot_id is not None and snapshot_id != found["digest"]:
        raise NotProvided("A snapshot of another run", "Ask the run that it belongs to.")
    _check(found)
    target = path or os.getcwd()
    if os.path.isdir(target) or target.endswith(os.sep):
        target = safe_path(target, f"{found['digest']}.zip")
    with atomic_write(target) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in found["files"]:
            file = listed(each, f"{run._path}/snapshot", target)
            entry = zipfile.ZipInfo(file.name)
            mode = 0o755 if each["executable"] else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as inside:
                for piece in verified(run._session.download(file.source), file):
                    inside.write(piece)
    return target


def _check(found: dict[str, Any]) -> None:
    """Refuse a file list with paths that lead outside of the folder, or whose digest is not the snapshot's."""
    files = [
        SnapshotFile(names.relative_path(str(f["path"])), names.digest(str(f["digest"])), f["size"], f["executable"])
        for f in found["files"]
    ]
    names.digest(str(found["digest"]))
    if snapshot_digest(files) != found["digest"] or len({file.path for file in files}) != len(files):
        raise InternalError(
            "The list of files that the server sent is not that of the run's snapshot.",
            "Nothing was saved. If it happens again, the server's store is damaged: windlass doctor.",
        )
