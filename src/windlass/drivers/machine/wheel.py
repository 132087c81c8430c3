"""A package that is installed here, packed as the wheel that it came as, for machines that reach no package index."""

from __future__ import annotations

import csv
import io
import shutil
import zipfile
from collections.abc import Iterable
from importlib import metadata
from typing import BinaryIO

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
