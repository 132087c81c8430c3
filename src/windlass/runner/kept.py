"""Environments that were built here and that nobody has used for long: told, and removed when the server says so.

Whoever takes one up touches its `.json` first (`once.whole`). So one that is to go is first made unusable, by another
name for that file, and only then looked at: if it was taken up in time, it is young, and gets its name back.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Iterator, List

from .folder import read_json
from .machine import Machine, check_digest, remove
from .once import try_lock


def list_kept(machine: Machine) -> List[List[Any]]:
    """Of each: its digest, its size in bytes, and for how many seconds nobody has used it."""
    for name in os.listdir(machine.environments):
        if name.endswith(".going"):
            _take_back(f"{machine.environments}/{name[: -len('.going')]}")
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
    with _locked(path) as is_ours:
        return is_ours and _retire(machine, path, idle_seconds)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[bool]:
    """False if somebody builds it."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield try_lock(lock)
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
    _remove_rest(path)
    return True


def _take_back(path: str) -> None:
    """What a host was about to remove when it was killed: whole, unless it is in the trash already."""
    with _locked(path) as is_ours:
        if not is_ours or not os.path.exists(f"{path}.going"):
            return  # the host lives, or another one was quicker
        if os.path.isdir(path):
            os.rename(f"{path}.going", f"{path}.json")
        else:
            _remove_rest(path)


def _remove_rest(path: str) -> None:
    for end in (".going", ".log", ".failed", ".aside"):
        remove(f"{path}{end}")
