"""Pre-staged jobs (`hold` in run.json): proof that one was never started, and its removal if it is not needed.

Starting a pre-staged job does not fsync, so that its script need not wait for the disk. After a power loss the folder
therefore cannot prove that the job was not started. The fence can: each owner of a run has a higher one, only the first
owner has the fence of the hold + 1, and no owner repeats a start before it has observed the job. A start by a later
owner does fsync "exec".
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Dict, Optional

from ..system import process_tree
from ..system.process_tree import Process
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import Refused, RunFolder

# A job stays pre-staged for at most this long; a later start prepares it again.
_LONGEST_SECONDS = 7 * 86400
_MOST_ROUNDS = 100
_TRACES = ("claim/process.json", "stop.json", "status.json")


def is_first_start(held: Dict[str, Any], run: Dict[str, Any]) -> bool:
    """Whether `run` is a start by the first owner after the hold."""
    return not run.get("hold") and run["fence"] == held.get("fence", 0) + 1


def reclaim(machine: Machine, folder: RunFolder, run: Dict[str, Any], boot_id: str) -> bool:
    """Reclaim a job that was pre-staged before a reboot, so that it can be started. False if it was started, or may
    have been.
    """
    if not _is_from_earlier_boot(folder, boot_id):
        return False
    lock = folder.lock()
    if lock is None:
        return False
    try:
        # Under the lock no other process changes it.
        is_ours = (
            _is_from_earlier_boot(folder, boot_id)
            and is_first_start(folder.run(), run)
            and not _has_begun(machine, folder)
        )
        if is_ours:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(folder.at("claim/supervisor.json"))
        return is_ours
    finally:
        os.close(lock)


def _is_from_earlier_boot(folder: RunFolder, boot_id: str) -> bool:
    """Whether the job was pre-staged before the last boot. A power loss leaves an empty run.json."""
    held = folder.run()
    return not held or (held.get("hold") is True and held.get("boot_id") != boot_id)


def _has_begun(machine: Machine, folder: RunFolder) -> bool:
    """Whether any file shows that the job was started, or has ended."""
    traces = (f"{machine.started}/{folder.job}", *(folder.at(name) for name in _TRACES))
    return any(os.path.lexists(path) for path in traces) or "exec" in folder.last_events()


def end(folder: RunFolder, supervisor: Optional[Process]) -> None:
    """End a pre-staged job: kill its supervisor and its build processes. There is no end to record: nothing was
    executed.
    """
    if supervisor is None or not folder.is_prestaged():
        raise Refused("failed", f"The job {folder.job} is still running; stop it first.")
    process_tree.kill_below(supervisor)
    lock = folder.lock()
    if lock is None:
        raise Refused("failed", f"The job {folder.job} is being ended; try again.")
    os.close(lock)


def end_builders(folder: RunFolder) -> None:
    """Kill the build processes that a killed supervisor has left."""
    mark = os.fsencode(f"WINDLASS_COOKIE={folder.run().get('nonce')}")
    for _ in range(_MOST_ROUNDS):  # they may fork meanwhile
        marked = [seen.process for seen in process_tree.table().values() if process_tree.has_mark(seen.pid, mark)]
        if not [process for process in marked if process_tree.send(process, signal.SIGKILL)]:
            return


def forget_old(machine: Machine) -> None:
    """Move pre-staged jobs without a supervisor to the trash, if their server has not started them for a week."""
    for name in os.listdir(machine.runs):
        with contextlib.suppress(OSError, Refused):  # another host was quicker; or it is not a job
            _forget_old(machine, machine.folder(name))


def _forget_old(machine: Machine, folder: RunFolder) -> None:
    if time.time() - os.stat(folder.at("run.json")).st_mtime < _LONGEST_SECONDS or not folder.run().get("hold"):
        return
    folder.claim()
    lock = folder.lock()
    if lock is None:
        return
    try:
        if folder.run().get("hold") and not _has_begun(machine, folder):
            os.utime(folder.path)  # restarts the time for which the removal of its container is retried
            os.rename(folder.path, f"{machine.trash}/{folder.job}.{time.monotonic_ns()}")
    finally:
        os.close(lock)
