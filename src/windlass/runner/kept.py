"""Environments that were built here and that nobody has used for long: told, and removed when the server says so.

Whoever takes one up touches its `.json` first (`once.whole`). So one that is to go is first made unusable, by another
name for that file, and only then looked at: if it was taken up in time, it is young, and gets its name back.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Any, List

from .folder import read_json
from .machine import Machine, check_digest, remove


def list_kept(machine: Machine) -> List[List[Any]]:
    """Of each: its digest, its size in bytes, and for how many seconds nobody has used it."""
    found: List[List[Any]] = []
    for entry in sorted(os.scandir(machine.environments), key=lambda entry: entry.name):
        digest, _, end = entry.name.partition(".")
        if end == "json":
            known = read_json(entry.path) or {}
            found.append([digest, int(known.get("bytes") or 0), max(0.0, time.time() - entry.stat().st_mtime)])
    return found


def forget(machine: Machine, digest: str, idle_seconds: float) -> bool:
    """Remove an environment if nobody has used it for that long, and nobody builds it. True if it is gone."""
    path = f"{machine.environments}/{check_digest(digest)}"
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _retire(machine, path, idle_seconds)
    except BlockingIOError:
        return False  # it is being built anew
    finally:
        os.close(lock)


def _retire(machine: Machine, path: str, idle_seconds: float) -> bool:
    going = f"{path}.going"
    try:
        os.rename(f"{path}.json", going)
    except FileNotFoundError:
        return not os.path.exists(path)
    if time.time() - os.stat(going).st_mtime < idle_seconds:
        os.rename(going, f"{path}.json")
        return False
    os.rename(path, f"{machine.trash}/{os.path.basename(path)}.{time.monotonic_ns()}")
    for end in (".going", ".log", ".failed", ".aside"):
        remove(f"{path}{end}")
    return True
