"""The server's own computer: what it has for runs."""

from __future__ import annotations

import functools
import glob
import os
import socket
from pathlib import Path

from windlass.server.settings import Settings
from windlass.store import ComputerCapacity


def this_computer(settings: Settings) -> ComputerCapacity:
    """This computer, or as much of it as the settings leave to runs."""
    cores = settings.computer_cores or len(os.sched_getaffinity(0))
    memory_mb = settings.computer_memory_mb or _memory_mb()
    gpus = len(glob.glob("/dev/nvidia[0-9]*")) if settings.computer_gpus is None else settings.computer_gpus
    return ComputerCapacity(machine_id(), round(cores * 1000), memory_mb, gpus)


def _memory_mb() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    known = dict(line.split(":", 1) for line in lines)
    return int(known["MemTotal"].split()[0]) >> 10


@functools.cache
def machine_id() -> str:
    """Identifies this machine among those whose servers share a database."""
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip() or socket.gethostname()
    except OSError:
        return socket.gethostname()
