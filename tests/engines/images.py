"""Images for tests, built here, since none can be pulled: a Debian with Python, and one with busybox alone.

They are built once per machine, into a cache outside of the clone; `python -m tests.engines.images` does it ahead.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

PYTHON = "windlass-test/python:1"
BUSYBOX = "windlass-test/busybox:1"

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "windlass-engines")
_APPLETS = ("sh", "cat", "echo", "env", "id", "ls", "mkdir", "sleep", "touch", "true", "wc", "head", "grep", "mount")
# What no test looks at: it makes half of the whole.
_SUPERFLUOUS = (
    "var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info",
    "usr/share/lintian", "usr/share/zoneinfo",
)  # fmt: skip


def python_tar() -> Path:
    """Debian with its Python, by debootstrap: a minute, once."""
    return _once("python.tar", _bootstrap)


def busybox_tar() -> Path:
    return _once("busybox.tar", _pack_busybox)


def _once(name: str, make: Callable[[Path], None]) -> Path:
    _CACHE.mkdir(parents=True, exist_ok=True)
    path = _CACHE / name
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            aside = path.with_suffix(".tmp")
            make(aside)
            aside.rename(path)
    return path


def _bootstrap(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="windlass-image-") as folder:
        root = Path(folder, "root")
        argv = ["debootstrap", "--variant=minbase", "--include=python3", "bookworm", str(root)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        for name in _SUPERFLUOUS:
            shutil.rmtree(root / name, ignore_errors=True)
        with tarfile.open(path, "w") as archive:
            archive.add(root, ".")


def _pack_busybox(path: Path) -> None:
    program = shutil.which("busybox")
    assert program is not None, "busybox is not installed; on Debian: sudo apt-get install busybox-static"
    with tarfile.open(path, "w") as archive:
        for folder in ("bin", "tmp", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        data = Path(program).read_bytes()
        entry = tarfile.TarInfo("bin/busybox")
        entry.size, entry.mode = len(data), 0o755
        archive.addfile(entry, io.BytesIO(data))
        for name in _APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)


if __name__ == "__main__":
    python_tar()
    busybox_tar()
