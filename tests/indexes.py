"""A package index on loopback, which says when its files were uploaded (PEP 691 and 700), or does not (PEP 503)."""

from __future__ import annotations

import http.server
import io
import json
import os
import sys
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.wheels import make_wheel

_PLATFORM = f"manylinux2014_{os.uname().machine}"
HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"
ANY = "py3-none-any"
_BACKEND = """import os, shutil
WHEEL = {wheel!r}
def build_wheel(folder, settings=None, metadata=None):
    shutil.copy(WHEEL, folder)
    return os.path.basename(WHEEL)
"""


class PackageIndex:
    """`has_dates` says whether it tells them. Packages can be added at any time."""

    def __init__(self, folder: Path, has_dates: bool = True) -> None:
        self.folder = folder
        self.has_dates = has_dates
        self.asked: list[str] = []
        self._dates: dict[str, str] = {}
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index._answer(self)

            do_HEAD = do_GET

            def log_message(self, *words: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/simple"

    @classmethod
    @contextmanager
    def served(cls, folder: Path, has_dates: bool = True) -> Iterator[PackageIndex]:
        made = cls(folder, has_dates)
        threading.Thread(target=made._server.serve_forever, daemon=True).start()
        try:
            yield made
        finally:
            made._server.shutdown()
            made._server.server_close()

    def add(self, name: str, version: str, date: str, python: str = "", requires: Sequence[str] = ()) -> None:
        """A wheel: for any Python, or for one such as cp36."""
        abi = f"{python}m" if python in ("cp36", "cp37") else python
        tag = f"{python}-{abi}-{_PLATFORM}" if python else ANY
        self._dates[make_wheel(self.folder, name, version, requires=requires, tag=tag).name] = date

    def add_source(self, name: str, version: str, date: str) -> None:
        """Sources without a wheel, which can be built by what they bring."""
        made = make_wheel(self.folder / "made", name, version)
        files = {
            "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n',
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            "own.py": _BACKEND.format(wheel=str(made)),
        }
        path = self.folder / f"{name}-{version}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for at, text in files.items():
                entry = tarfile.TarInfo(f"{name}-{version}/{at}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        self._dates[path.name] = date

    def _answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        name = request.path.rstrip("/").rpartition("/")[2]
        self.asked.append(name)
        if name in self._dates:
            kind, body = "application/octet-stream", (self.folder / name).read_bytes()
        else:
            files = [file for file in self._dates if file.partition("-")[0].replace("_", "-") == name]
            if not files:
                request.send_error(404)
                return
            kind, body = self._page(name, files)
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)

    def _page(self, name: str, files: Sequence[str]) -> tuple[str, bytes]:
        if not self.has_dates:
            return "text/html", "".join(f'<a href="/files/{file}">{file}</a>' for file in files).encode()
        listed = [
            {"filename": file, "url": f"/files/{file}", "hashes": {}, "upload-time": f"{self._dates[file]}T12:00:00Z"}
            for file in files
        ]
        page = {"meta": {"api-version": "1.1"}, "name": name, "files": listed, "versions": []}
        return "application/vnd.pypi.simple.v1+json", json.dumps(page).encode()
