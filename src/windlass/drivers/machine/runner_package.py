"""Zip files for targets: the runner, and the SDK for scripts. Reproducible: the same sources give the same bytes."""

from __future__ import annotations

import functools
import hashlib
import io
import marshal
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

_WINDLASS = Path(__file__).parents[2]
_MAIN = b"import sys\n\nfrom runner.__main__ import main\n\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
# PEP 552: the source's hash stands in the header, and the import does not compare it.
_UNCHECKED_HASH = (1).to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class Package:
    digest: str
    data: bytes

    def place(self, path: Path) -> Path:
        """Write the file unless it is there already. Atomic: written under another name, then renamed."""
        if not _has_content(path, self.data):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            aside = path.with_name(f".{path.name}.{os.getpid()}")
            aside.write_bytes(self.data)
            aside.chmod(0o600)
            os.replace(aside, path)
        return path


@functools.cache
def runner() -> Package:
    """runner.pyz, which is run as `python -I -S runner.pyz host --root ROOT`."""
    return _pack(_runner_sources())


@functools.cache
def compiled_runner() -> Package:
    """runner.pyz with bytecode of this Python beside the sources, so that hosts on this computer start faster.

    Other machines get the sources only, which are a quarter of the size.
    """
    compiled = [(f"{name}c", _compiled(name, path)) for name, path in _sources(_WINDLASS / "runner", "runner/")]
    return _pack([*_runner_sources(), *compiled])


def _runner_sources() -> list[tuple[str, bytes]]:
    sources = [(name, path.read_bytes()) for name, path in _sources(_WINDLASS / "runner", "runner/")]
    return [("__main__.py", _MAIN), *sources]


@functools.cache
def bootstrap() -> bytes:
    """The program that receives and installs the runner on a machine (runner/bootstrap.py)."""
    return b"\n".join((_WINDLASS / "runner" / name).read_bytes() for name in ("system/private.py", "bootstrap.py"))


@functools.cache
def sdk() -> Package:
    """The SDK for scripts: the parts of `windlass` that need only the standard library, and `azureml`."""
    files = [("windlass/" + name, _WINDLASS / name) for name in ("__init__.py", "_version.py", "widgets.py")]
    for folder in ("core", "client", "compat"):
        files += _sources(_WINDLASS / folder, f"windlass/{folder}/")
    return _pack([(_archive_name(name), path.read_bytes()) for name, path in files])


def _archive_name(name: str) -> str:
    """Scripts say `import azureml`, so the shim stands beside windlass, not in it."""
    return name.removeprefix("windlass/compat/") if name.startswith("windlass/compat/azureml/") else name


def _sources(folder: Path, prefix: str) -> list[tuple[str, Path]]:
    return [(prefix + path.relative_to(folder).as_posix(), path) for path in folder.rglob("*.py")]


def _compiled(name: str, path: Path) -> bytes:
    """The content of a .pyc file. The code comes from __pycache__ where that is up to date."""
    module = name.removesuffix(".py").replace("/", ".")
    code = SourceFileLoader(module, str(path)).get_code(module)
    return MAGIC_NUMBER + _UNCHECKED_HASH + source_hash(path.read_bytes()) + marshal.dumps(code)


def _pack(files: Iterable[tuple[str, bytes]]) -> Package:
    packed = io.BytesIO()
    # Stored, not deflated: how well zlib packs differs between machines, and the bytes must not.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    data = packed.getvalue()
    return Package(hashlib.sha256(data).hexdigest(), data)


def _has_content(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except FileNotFoundError:
        return False
