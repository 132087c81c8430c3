"""Environment cache of a machine: lists the built environments with their idle time, and evicts them for the server.

The leftovers of failed and killed builds count as environments too.

A run that uses an environment touches its `.json` first (`build_once.completed`). Eviction: rename `.json` to `.going`,
so that no run can start to use it; then check its mtime; if a run touched it meanwhile, rename it back.
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

_NAME = re.compile(r"[0-9a-f]{64}(\..+)?\Z")  # an environment and the files beside it; other names are not ours


def list_environments(machine: Machine) -> List[List[Any]]:
    """For each environment: digest, size in bytes, and idle seconds."""
    for name in os.listdir(machine.environments):
        if _NAME.match(name) and name.endswith(".going"):
            _restore(f"{machine.environments}/{name[:64]}")
    digests = sorted({name[:64] for name in os.listdir(machine.environments) if _NAME.match(name)})
    found = (_describe(f"{machine.environments}/{digest}") for digest in digests)
    return [entry for entry in found if entry is not None]


def _describe(path: str) -> Optional[List[Any]]:
    """The entry of one environment; None if it is gone, or is being built."""
    digest = os.path.basename(path)
    try:
        used = os.stat(f"{path}.json").st_mtime
        return [digest, int((read_json(f"{path}.json") or {}).get("bytes") or 0), max(0.0, time.time() - used)]
    except FileNotFoundError:
        pass
    with _locked(path) as has_lock:
        seconds = _leftover_age(path) if has_lock else None
        return [digest, size_of(path), seconds] if seconds is not None else None


def _leftover_age(path: str) -> Optional[float]:
    """Age in seconds of the newest leftover of a failed build; None if there are none."""
    times = [os.lstat(each).st_mtime for each in _files_of(path)]
    return max(0.0, time.time() - max(times)) if times else None


def _files_of(path: str) -> List[str]:
    """All files of an environment except its lock, which another process may be about to take."""
    folder, digest = os.path.split(path)
    names = (name for name in os.listdir(folder) if _NAME.match(name) and name.startswith(digest))
    return [f"{folder}/{name}" for name in names if name != f"{digest}.lock"]


def evict(machine: Machine, digest: str, idle_seconds: float) -> bool:
    """Remove an environment that was idle for that long and is not being built. True if it is gone."""
    path = f"{machine.environments}/{check_digest(digest)}"
    with _locked(path) as has_lock:
        return has_lock and not _is_used(machine, digest) and _evict_if_idle(machine, path, idle_seconds)


def _is_used(machine: Machine, digest: str) -> bool:
    """Whether a run here uses it. Several servers may share the machine, and each knows only its own runs."""
    for job in os.listdir(machine.runs):
        folder = machine.folder(job)
        is_alive = folder.is_locked() and not folder.has_final_status()
        if is_alive and digest_of(folder.run().get("environment") or {}) == digest:
            return True
    return False


@contextlib.contextmanager
def _locked(path: str) -> Iterator[bool]:
    """Hold the build lock. Yields False if another process has it."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield try_lock(lock)
    finally:
        os.close(lock)


def _evict_if_idle(machine: Machine, path: str, idle_seconds: float) -> bool:
    going = f"{path}.going"
    try:
        os.rename(f"{path}.json", going)
    except FileNotFoundError:
        seconds = _leftover_age(path)
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


def _restore(path: str) -> None:
    """Undo the eviction of a host that was killed; finish it if the environment is in the trash already."""
    with _locked(path) as has_lock:
        if not has_lock or not os.path.exists(f"{path}.going"):
            return  # that host is alive, or another one was quicker
        if os.path.isdir(path):
            os.rename(f"{path}.going", f"{path}.json")
        else:
            _remove_rest(path)


def _remove_rest(path: str) -> None:
    for each in _files_of(path):
        remove(each)
