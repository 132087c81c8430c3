"""The processes of a host, seen from outside, where they have other numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HostProcess:
    pid: int  # here
    inner_pid: int  # there
    parent: int  # here
    name: str
    argv: tuple[str, ...]
    is_alive: bool  # or waits to be buried


def processes_of(init: int) -> list[HostProcess]:
    """All that are on the host, `init` (its number here) among them."""
    space = os.readlink(f"/proc/{init}/ns/pid")
    return [process for process in _all() if _space_of(process.pid) == space]


def _all() -> Iterator[HostProcess]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (found := _read(Path("/proc", entry))) is not None:
            yield found


def _read(entry: Path) -> HostProcess | None:
    try:
        status = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line)
        argv = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return None  # it ended meanwhile
    inner, is_alive = int(status["NSpid"].split()[-1]), not status["State"].startswith("Z")
    return HostProcess(int(entry.name), inner, int(status["PPid"]), status["Name"], tuple(argv), is_alive)


def _space_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
