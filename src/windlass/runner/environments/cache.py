"""Environments that were built here and that nobody has used for long: told, and removed when the server says so.

So is what a building left that failed, or that was killed in the middle.

Whoever takes one up touches its `.json` first (`once.whole`). So one that is to go is first made unusable, by another
name for that file, and only then looked at: if it was taken up in time, it is young, and gets its name back.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any, Iterator, List, Optional

from ..workdir.machine_folder import Machine, check_digest, remove
from ..workdir.run_folder import read_json
from .build_once import size_of, try_lock
from .environment import digest_of

_NAME = re.compile(r"[0-9a-f]{64}(\..+)?\Z")  # of an environment, and of what is beside it; others are not ours


def list_kept(machine: Machine) -> List[List[Any]]:
    """Of each: its digest, its size in bytes, and for how many seconds nobody has used it."""
    for name in os.listdir(machine.environments):
        if _NAME.match(name) and name.endswith(".going"):
            _take_back(f"{machine.environments}/{name[:64]}")
    digests = sorted({name[:64] for name in os.listdir(machine.environments) if _NAME.match(name)})
    found = (_look(f"{machine.environments}/{digest}") for digest in digests)
    return [told for told in found if told is not None]


def _look(path: str) -> Optional[List[Any]]:
    """None if nothing is left of it, or somebody builds it now."""
    digest = os.path.basename(path)
    try:
        used = os.stat(f"{path}.json").st_mtime
        return [digest, int((read_json(f"{path}.json") or {}).get("bytes") or 0), max(0.0, time.time() - used)]
    except FileNotFoundError:
        pass
    with _locked(path) as is_ours:
        seconds = _seconds_left(path) if is_ours else None
        return [digest, size_of(path), seconds] if seconds is not None else None


def _seconds_left(path: str) -> Optional[float]:
    """For how long what a building left has been lying there; None if that is nothing."""
    times = [os.lstat(each).st_mtime for each in _left(path)]
    return max(0.0, time.time() - max(times)) if times else None


def _left(path: str) -> List[str]:
    """All that there is of it but its lock, which others may be about to take."""
    folder, digest = os.path.split(path)
    names = (name for name in os.listdir(folder) if _NAME.match(name) and name.startswith(digest))
    return [f"{folder}/{name}" for name in names if name != f"{digest}.lock"]


def forget(machine: Machine, digest: str, idle_seconds: float) -> bool:
    """Remove an environment if nobody has used it for that long, and nobody builds it. True if it is gone."""
    path = f"{machine.environments}/{check_digest(digest)}"
    with _locked(path) as is_ours:
        return is_ours and not _is_used(machine, digest) and _retire(machine, path, idle_seconds)


def _is_used(machine: Machine, digest: str) -> bool:
    """Whether a run here lives in it. Several servers may have this machine, and each knows only of its own runs."""
    for job in os.listdir(machine.runs):
        folder = machine.folder(job)
        is_alive = folder.is_locked() and not folder.is_sealed()
        if is_alive and digest_of(folder.run().get("environment") or {}) == digest:
            return True
    return False


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
        seconds = _seconds_left(path)
        if seconds is not None and seconds < idle_seconds:
            return False
    else:
        if time.time() - os.stat(going).st_mtime < idle_seconds:
            os.rename(going, f"{path}.json")
            return False
    if os.path.lexists(path):
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
    for each in _left(path):
        remove(each)
