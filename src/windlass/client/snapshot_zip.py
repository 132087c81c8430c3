"""The source of a run as a ZIP file."""

from __future__ import annotations

import os
import stat
import zipfile
from typing import TYPE_CHECKING

from windlass.client.exceptions import NotProvided
from windlass.client.run_files import quoted

if TYPE_CHECKING:
    from windlass.client.run import Run


def restore(run: Run, snapshot_id: str | None, path: str | None) -> str:
    """`path` is a folder, or the name of the file; by default <snapshot id>.zip in the current folder."""
    found = run._call("GET", "/snapshot")
    if snapshot_id is not None and snapshot_id != found["digest"]:
        raise NotProvided("A snapshot of another run", "Ask the run that it belongs to.")
    target = path or os.getcwd()
    if os.path.isdir(target) or target.endswith(os.sep):
        target = os.path.join(target, f"{found['digest']}.zip")
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in found["files"]:
            entry = zipfile.ZipInfo(file["path"])
            mode = 0o755 if file["executable"] else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as inside:
                for piece in run._session.download(f"{run._path}/snapshot/{quoted(file['path'])}"):
                    inside.write(piece)
    return target
