"""Description of the machine that the numbers were measured on."""

from __future__ import annotations

import os
import platform
import sqlite3
import tempfile
import time
from pathlib import Path

from benchmarks.rounds import median


def describe() -> dict[str, str]:
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_mb() / 1024:.0f} GB",
        "disk": _disk(Path(tempfile.gettempdir())),
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def _processor() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_mb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20


def _disk(folder: Path) -> str:
    """The file system, and the time of an fsync on it, which dominates that of a commit."""
    file_system = "file system unknown"
    longest = -1
    for line in _lines(Path("/proc/mounts")):
        _, mount, name, *_ = line.split()
        if folder.is_relative_to(mount) and len(mount) > longest:
            longest, file_system = len(mount), name
    return f"{file_system}, a small write with fsync takes {_fsync_ms(folder):.2f} ms"


def _fsync_ms(folder: Path) -> float:
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(30):
            start = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def pss_mb(pid: int) -> float:
    """A process's memory, shared pages counted by their share; 0 if it is gone."""
    for line in _lines(Path(f"/proc/{pid}/smaps_rollup")):
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for line in _lines(task) for word in line.split()]
    return found
