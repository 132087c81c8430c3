"""A conda channel in a folder: real packages for a real solver, made here since none can be fetched.

Its `python` is the one that runs the tests, made at home in another folder: the program itself, and links to the
standard library. Python looks for its library from where its program is, so it believes that it lives there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PYTHON = ".".join(map(str, sys.version_info[:3]))
_MINOR = ".".join(map(str, sys.version_info[:2]))
_TIME = 1_700_000_000_000


class Channel:
    """`url` is its address. Packages can be added at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for subdir in ("linux-64", "noarch"):
            (folder / subdir).mkdir(parents=True)
            self._write_index(subdir, {})

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def add_python(self, version: str = PYTHON) -> None:
        """The interpreter of the tests. Under another version it only looks like one that could be chosen."""
        library = Path(os.__file__).parent
        kept = [path for path in library.iterdir() if path.name not in ("site-packages", "dist-packages")]
        links = {f"lib/python{_MINOR}/{path.name}": str(path) for path in kept}
        links |= {"bin/python": f"python{_MINOR}", "bin/python3": f"python{_MINOR}"}
        program = Path(os.path.realpath(sys.executable)).read_bytes()
        files = {f"bin/python{_MINOR}": program, f"lib/python{_MINOR}/site-packages/README.txt": b""}
        self.add("python", version, files, links=links)

    def add_module(self, name: str, version: str = "1.0", depends: Sequence[str] = ("python >=3",)) -> None:
        """A package for any Python with one module, which says its version."""
        files = {f"site-packages/{name}.py": f"version = {version!r}\n".encode()}
        self.add(name, version, files, depends, subdir="noarch")

    def add(
        self,
        name: str,
        version: str,
        files: Mapping[str, bytes],
        depends: Sequence[str] = (),
        links: Mapping[str, str] | None = None,
        subdir: str = "linux-64",
    ) -> None:
        about = {"name": name, "version": version, "build": "0", "build_number": 0, "depends": list(depends)}
        about |= {"subdir": subdir, "timestamp": _TIME, **({"noarch": "python"} if subdir == "noarch" else {})}
        path = self.folder / subdir / f"{name}-{version}-0.tar.bz2"
        path.write_bytes(_archive(about, files, links or {}))
        data = path.read_bytes()
        entry = {**about, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        self._write_index(subdir, {**self._index(subdir), path.name: entry})

    def _index(self, subdir: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / subdir / "repodata.json").read_text())["packages"]
        return found

    def _write_index(self, subdir: str, packages: Mapping[str, Any]) -> None:
        body = {"info": {"subdir": subdir}, "packages": packages, "packages.conda": {}, "repodata_version": 1}
        (self.folder / subdir / "repodata.json").write_text(json.dumps(body))


def small_channel(folder: Path) -> Channel:
    """With Python and one module."""
    made = Channel(folder)
    made.add_python()
    made.add_module("tinyconda", "1.2")
    return made


def _archive(about: Mapping[str, Any], files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    listed: list[dict[str, Any]] = []
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:bz2") as archive:
        for path, data in files.items():
            _add(archive, path, data)
            listed.append(_entry(path, "hardlink", data))
        for path, leads_to in links.items():
            member = tarfile.TarInfo(path)
            member.type, member.linkname = tarfile.SYMTYPE, leads_to
            archive.addfile(member)
            listed.append(_entry(path, "softlink", b""))
        _add(archive, "info/index.json", json.dumps(about).encode())
        _add(archive, "info/paths.json", json.dumps({"paths": listed, "paths_version": 1}).encode())
        if about["subdir"] == "noarch":
            link = {"noarch": {"type": "python"}, "package_metadata_version": 1}
            _add(archive, "info/link.json", json.dumps(link).encode())
    return buffer.getvalue()


def _entry(path: str, kind: str, data: bytes) -> dict[str, Any]:
    return {"_path": path, "path_type": kind, "sha256": hashlib.sha256(data).hexdigest(), "size_in_bytes": len(data)}


def _add(archive: tarfile.TarFile, path: str, data: bytes) -> None:
    member = tarfile.TarInfo(path)
    member.size, member.mode = len(data), 0o755 if path.startswith("bin/") else 0o644
    archive.addfile(member, io.BytesIO(data))
