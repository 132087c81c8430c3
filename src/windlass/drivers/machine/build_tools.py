"""Programs that build environments, as far as this computer has them: for itself, and for machines that lack them."""

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

# These alone make no conda environment. Who takes another line for one of conda's packs rattler in vain, no more.
_NO_CONDA = re.compile(r"\s*(python|pip|setuptools|wheel)(?![\w.-])")
_packing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Program:
    """One file for machines of the same kind: a program that runs by itself, or a wheel."""

    open: Callable[[], BinaryIO]
    digest: str
    size: int
    name: str | None = None  # of a wheel, which says what it is for

    def told(self) -> dict[str, Any]:
        """What run.json says of it; a machine that needs it asks for the bytes."""
        system = os.uname()
        told = {"digest": self.digest, "size": self.size, "platform": f"{system.sysname} {system.machine}"}
        return told if self.name is None else {**told, "name": self.name}


@functools.cache
def beside_us() -> Mapping[str, str]:
    """`pip install windlass[environments]` puts uv beside our Python, where no PATH need lead, and rattler into it."""
    uv = Path(sysconfig.get_path("scripts"), "uv")
    found = {"uv": str(uv)} if uv.exists() else {}
    return found | ({"rattler": sys.executable} if importlib.util.find_spec("rattler") else {})


def to_send(environment: EnvironmentSpec) -> dict[str, Program]:
    """What another machine may get from us to build it."""
    if not environment.is_built:
        return {}
    found = {"uv": _uv()}
    if not all(_NO_CONDA.match(line) for line in environment.conda):
        with _packing:  # by one of those who want it
            found["rattler"] = _rattler()
    return {name: program for name, program in found.items() if program is not None}


@functools.cache
def _uv() -> Program | None:
    uv = beside_us().get("uv")
    return None if uv is None else _program(lambda: Path(uv).open("rb"))


@functools.cache
def _rattler() -> Program | None:
    """Packed once in a server's life, into a file that nobody else sees and that goes with the server."""
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it stays
        atexit.register(file.close)
        name = pack("py-rattler", file)
        file.flush()
    except OSError as e:
        log.warning("rattler cannot be sent to machines: %s", e)
        return None
    return None if name is None else _program(lambda: io.BufferedReader(_Reading(file)), name)


def _program(opener: Callable[[], io.BufferedReader], name: str | None = None) -> Program:
    with opener() as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Program(opener, digest, file.tell(), name)


class _Reading(io.RawIOBase):
    """A file without a name, from its beginning; several are sent at once."""

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


# What an installer adds.
_ADDED = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
# Much faster than the usual one, and hardly larger: what is packed is mostly one library.
_LEVEL = 1


def pack(project: str, into: BinaryIO) -> str | None:
    """Write the wheel, the same bytes every time, and tell its file name. None if there is none that could travel."""
    try:
        found = metadata.distribution(project)
    except metadata.PackageNotFoundError:
        return None
    files = sorted((file for file in found.files or () if _is_of_wheel(file)), key=str)
    tags = [line[5:].split("-") for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    if not files or not tags or not all(len(tag) == 3 and _may_travel(tag[2]) for tag in tags):
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


def _may_travel(platform: str) -> bool:
    """A library that was built for this very machine may need others that are only here."""
    return not platform.startswith("linux_")


def _record(stem: str, files: Iterable[metadata.PackagePath]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for file in files:
        digest = f"{file.hash.mode}={file.hash.value}" if file.hash else ""
        writer.writerow([file, digest, "" if file.size is None else file.size])
    writer.writerow([f"{stem}.dist-info/RECORD", "", ""])
    return text.getvalue()
