"""Tools that build environments (uv, rattler): found on this computer, and packed for machines that lack them."""

from __future__ import annotations

import atexit
import csv
import functools
import hashlib
import importlib.util
import io
import logging
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from windlass.core.entities import EnvironmentSpec

log = logging.getLogger(__name__)

# Packages that need no conda. A line that is not recognized only has rattler packed without need.
_NO_CONDA = re.compile(r"\s*(python|pip|setuptools|wheel)(?![\w.-])")
_packing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Program:
    """File to send to machines with the same platform: a self-contained program, or a wheel."""

    open: Callable[[], BinaryIO]
    digest: str
    size: int
    name: str | None = None  # file name of a wheel

    def describe(self) -> dict[str, Any]:
        """Its entry in `tools` of run.json. A machine that lacks the program requests it by digest."""
        system = os.uname()
        description = {"digest": self.digest, "size": self.size, "platform": f"{system.sysname} {system.machine}"}
        return description if self.name is None else {**description, "name": self.name}


@functools.cache
def installed_tools() -> Mapping[str, str]:
    """Tools in this Python's environment (`pip install windlass[environments]`), which need not be on PATH."""
    uv = Path(sysconfig.get_path("scripts"), "uv")
    found = {"uv": str(uv)} if uv.exists() else {}
    return found | ({"rattler": sys.executable} if importlib.util.find_spec("rattler") else {})


def sendable_tools(environment: EnvironmentSpec) -> dict[str, Program]:
    """Programs that a machine may request to build an environment, by name."""
    if not environment.is_built:
        return {}
    found = {"uv": _uv()}
    if not all(_NO_CONDA.match(line) for line in environment.conda):
        with _packing:  # packed once, by one thread
            found["rattler"] = _rattler()
    return {name: program for name, program in found.items() if program is not None}


@functools.cache
def _uv() -> Program | None:
    uv = installed_tools().get("uv")
    return None if uv is None else _program(lambda: Path(uv).open("rb"))


@functools.cache
def _rattler() -> Program | None:
    """Pack rattler as a wheel, once per process, into an unnamed temporary file."""
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it stays
        atexit.register(file.close)
        name = pack("py-rattler", file)
        file.flush()
    except OSError as e:
        log.warning("rattler cannot be sent to machines: %s", e)
        return None
    return None if name is None else _program(lambda: io.BufferedReader(_SharedReader(file)), name)


def _program(opener: Callable[[], io.BufferedReader], name: str | None = None) -> Program:
    with opener() as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Program(opener, digest, file.tell(), name)


class _SharedReader(io.RawIOBase):
    """Reader with an offset of its own on a shared file, so that it can be sent to several machines at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._file.fileno(), len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at


# Files that an installer adds to a wheel.
_ADDED = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
# Much faster than the usual one, and hardly larger: what is packed is mostly one library.
_LEVEL = 1


def pack(project: str, into: BinaryIO) -> str | None:
    """Rebuild the wheel of an installed project, the same bytes every time. Returns its file name; None if the project
    is not installed, or is not portable.
    """
    try:
        found = metadata.distribution(project)
    except metadata.PackageNotFoundError:
        return None
    files = sorted((file for file in found.files or () if _is_of_wheel(file)), key=str)
    tags = [line[5:].split("-") for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    if not files or not tags or not all(len(tag) == 3 and _is_portable(tag[2]) for tag in tags):
        return None
    stem = f"{found.name.replace('-', '_')}-{found.version}"
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for file in files:
            with open(file.locate(), "rb") as source, archive.open(str(file), "w") as target:
                shutil.copyfileobj(source, target)
        with archive.open(f"{stem}.dist-info/RECORD", "w") as target:
            target.write(_record(stem, files).encode())
    return f"{stem}-{'-'.join('.'.join(dict.fromkeys(part)) for part in zip(*tags, strict=True))}.whl"


def _is_of_wheel(file: metadata.PackagePath) -> bool:
    is_added = file.parent.name.endswith(".dist-info") and file.name in _ADDED
    return not is_added and file.suffix != ".pyc" and ".." not in file.parts


def _is_portable(platform: str) -> bool:
    """A library that was built on this machine (tag linux_*) may need libraries that only this machine has."""
    return not platform.startswith("linux_")


def _record(stem: str, files: Iterable[metadata.PackagePath]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for file in files:
        digest = f"{file.hash.mode}={file.hash.value}" if file.hash else ""
        writer.writerow([file, digest, "" if file.size is None else file.size])
    writer.writerow([f"{stem}.dist-info/RECORD", "", ""])
    return text.getvalue()
