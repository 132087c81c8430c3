"""Processes by number and start time, so that no other process is ever signalled that has inherited a number."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_GONE = (FileNotFoundError, ProcessLookupError)


class Process(NamedTuple):
    pid: int
    start: int  # ticks since boot


def identify(pid: int) -> Process | None:
    """A process that lives; None if there is none, or it waits to be reaped."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except _GONE:
        return None
    return None if words[0] in "ZX" else Process(pid, int(words[19]))


def is_alive(process: Process) -> bool:
    return identify(process.pid) == process


def send(process: Process, number: int) -> bool:
    """Whether it was there to get the signal."""
    if process.pid <= 1:
        return False
    try:
        fd = os.pidfd_open(process.pid)
    except _GONE:
        return False
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(fd, number)
    except _GONE:
        return False
    finally:
        os.close(fd)
    return True


def words_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return []


def variables_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except _GONE:
        return 0


def find(is_one: Callable[[int], bool]) -> Iterator[Process]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (process := identify(int(entry))) is not None and is_one(process.pid):
            yield process


def describe(process: Process) -> str:
    words = b" ".join(words_of(process.pid)).decode(errors="replace")
    try:
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    except _GONE:
        state = "gone by now"
    return f"pid {process.pid} (parent {parent_of(process.pid)}, state {state}): {words}"


def files_of(pid: int) -> Iterator[str]:
    """The paths of its open files."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
