"""CPU affinity: assigns whole cores to runs, where no control group can limit their processor time.

The assignment is in a file of the machine's folder, under its lock, so that runs that start at the same time get
different cores. Entries of ended runs are removed at the next assignment.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from typing import Any, Dict, List

from . import process_tree
from .process_tree import Process

NAME = "affinity"
IS_AVAILABLE = hasattr(os, "sched_setaffinity")
_FILE = "cores.json"


def restrict(process: Process, cores: float, root: str) -> str:
    """Pin a process, and all that it starts, to so many whole cores: those that the fewest other runs have."""
    if not IS_AVAILABLE:
        return "nothing"
    fd = os.open(f"{root}/{_FILE}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        taken = _living(os.pread(fd, os.fstat(fd).st_size, 0))
        chosen = choose(sorted(os.sched_getaffinity(process.pid)), [one["cores"] for one in taken], cores)
        os.sched_setaffinity(process.pid, chosen)
        text = json.dumps([*taken, {"pid": process.pid, "start": process.start, "cores": chosen}])
        os.ftruncate(fd, 0)
        os.pwrite(fd, text.encode("ascii"), 0)
    finally:
        os.close(fd)
    return f"{NAME} to {'core' if len(chosen) == 1 else 'cores'} {', '.join(map(str, chosen))}"


def choose(allowed: List[int], taken: List[List[int]], cores: float) -> List[int]:
    """So many of the allowed cores, the least used ones first."""
    uses = {core: sum(core in others for others in taken) for core in allowed}
    count = min(len(allowed), max(1, math.ceil(cores)))
    return sorted(sorted(allowed, key=lambda core: (uses[core], core))[:count])


def _living(text: bytes) -> List[Dict[str, Any]]:
    try:
        noted = json.loads(text or b"[]")
        return [one for one in noted if process_tree.is_alive(Process(one["pid"], one["start"]))]
    except (ValueError, KeyError, TypeError):
        return []  # truncated by a power loss
