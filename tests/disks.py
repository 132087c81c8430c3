"""Real disks of a few megabytes, and what fills them up."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_MOUNTING = 1 << 21  # CAP_SYS_ADMIN


def may_mount() -> bool:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(status["CapEff"], 16) & _MOUNTING)


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A disk of that size, mounted below the folder."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", disk], check=True, timeout=60)
    try:
        yield disk
    finally:
        deadline = time.monotonic() + 60  # until the last process that uses it has ended
        while subprocess.run(["umount", disk], capture_output=True, check=False).returncode:
            assert time.monotonic() < deadline, "the disk is still in use"
            time.sleep(0.1)


def fill(disk: Path) -> Path:
    """Take the last block of a disk; returns the file that has it."""
    with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
    return disk / "filler"
