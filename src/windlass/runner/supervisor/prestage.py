"""Jobs that are only made ready: how it is known that one was never started, and how it goes if it is not wanted.

The start of such a job brings nothing to the disk, for its script would have to wait for that. So what a power cut
leaves of it does not tell whether it was started just before. The fence does: each owner of a run has a higher one, the
first of them one more than the job was held with, and none repeats a start before it has asked what came of it. A
start by a later owner does wait until "exec" is on the disk.
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

# Longer than any run is expected to be held; one that still waits then is made ready again.
_LONGEST_SECONDS = 7 * 86400
_MOST_ROUNDS = 100
_SIGNS = ("claim/process.json", "stop.json", "status.json")


def is_first_start(held: Dict[str, Any], run: Dict[str, Any]) -> bool:
    """Whether this is a start, and by the first who may ask for one."""
    return not run.get("hold") and run["fence"] == held.get("fence", 0) + 1


def take_up(machine: Machine, folder: RunFolder, run: Dict[str, Any], boot_id: str) -> bool:
    """Make the claim of a job that was held when the machine was switched off good for a start. False if it was more
    than held, or may have been.
    """
    if not _is_left(folder, boot_id):
        return False
    lock = folder.lock()
    if lock is None:
        return False
    try:
        # Only now nobody else can change it.
        is_ours = _is_left(folder, boot_id) and is_first_start(folder.run(), run) and not _has_begun(machine, folder)
        if is_ours:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(folder.at("claim/supervisor.json"))
        return is_ours
    finally:
        os.close(lock)


def _is_left(folder: RunFolder, boot_id: str) -> bool:
    """Whether an earlier boot left a job that was held. Where run.json has nothing in it, that was a power cut."""
    held = folder.run()
    return not held or (held.get("hold") is True and held.get("boot_id") != boot_id)


def _has_begun(machine: Machine, folder: RunFolder) -> bool:
    """Whether anything tells that it was started, or ended."""
    signs = (f"{machine.started}/{folder.job}", *(folder.at(name) for name in _SIGNS))
    return any(os.path.lexists(path) for path in signs) or "exec" in folder.story()


def end(folder: RunFolder, supervisor: Optional[Process]) -> None:
    """Nothing was executed for it, so its supervisor has nothing to tell; what it builds with goes, too."""
    if supervisor is None or not folder.is_held():
        raise Refused("failed", f"The job {folder.job} is still running; stop it first.")
    process_tree.kill_below(supervisor)
    lock = folder.lock()
    if lock is None:
        raise Refused("failed", f"The job {folder.job} is being ended; try again.")
    os.close(lock)


def end_builders(folder: RunFolder) -> None:
    """What a supervisor that was killed had started to build with, and nobody will look after any more."""
    mark = os.fsencode(f"WINDLASS_COOKIE={folder.run().get('nonce')}")
    for _ in range(_MOST_ROUNDS):  # they may have children meanwhile
        marked = [seen.process for seen in process_tree.table().values() if process_tree.has_mark(seen.pid, mark)]
        if not [process for process in marked if process_tree.send(process, signal.SIGKILL)]:
            return


def forget_old(machine: Machine) -> None:
    """Put those into the trash that nobody holds, and whose server has not come back to them for long."""
    for name in os.listdir(machine.runs):
        with contextlib.suppress(OSError, Refused):  # another host was quicker; or it is no job
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
            os.utime(folder.path)  # from now on the engine may be away until its container is removed
            os.rename(folder.path, f"{machine.trash}/{folder.job}.{time.monotonic_ns()}")
    finally:
        os.close(lock)
