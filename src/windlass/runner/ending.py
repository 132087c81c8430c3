"""How a run ended: what status.json says, and how it is put in place."""

from __future__ import annotations

import os
import time
from typing import Any, Dict

from . import failpoints
from .folder import SEAL, RunFolder, put_aside, write_json
from .machine import remove
from .script import Exit

_LONGEST_PATIENCE = 5.0


def describe(folder: RunFolder, run: Dict[str, Any], reason: str, ended: Exit, message: str) -> Dict[str, Any]:
    """The status, but for what is measured last: files, usage, and who was left behind."""
    process = folder.process()
    seconds = time.monotonic() - process["monotonic"] if process and reason != "node_lost" else 0.0
    return {
        "version": 1,
        "job": folder.job,
        "nonce": run.get("nonce"),
        "reason": reason,
        **ended._asdict(),
        "message": message,
        "started_at": process["at"] if process else None,
        "ended_at": time.time(),
        "seconds": round(seconds, 3),
    }


def put_status(folder: RunFolder, run: Dict[str, Any], lock: int, status: Dict[str, Any]) -> None:
    """Put status.json in place, however long the disk is full: the truth about a run is not given up."""
    patience = 0.05
    while True:
        try:
            _mend(folder, run)
            _put(folder, lock, status)
            return
        except OSError:
            time.sleep(patience)
            patience = min(2 * patience, _LONGEST_PATIENCE)


def _put(folder: RunFolder, lock: int, status: Dict[str, Any]) -> None:
    """Those who watch see it before it is durable: they need not wait for the disk, and may clean up meanwhile."""
    path = folder.at("status.json")
    aside = put_aside(path, status)
    files = [os.open(aside, os.O_RDONLY), os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        failpoints.reach("F16")
        if os.path.lexists(path):  # the script's own, which nobody believes
            remove(path)
        os.pwrite(lock, SEAL, 0)
        os.rename(aside, path)
        for file in files:
            os.fsync(file)
    finally:
        for file in files:
            os.close(file)
    failpoints.reach("F17")


def _mend(folder: RunFolder, run: Dict[str, Any]) -> None:
    """A script may have taken away its folder, or the right to write in it. Its end is told all the same."""
    for path in (folder.path, folder.at("claim")):
        os.makedirs(path, 0o700, exist_ok=True)
        os.chmod(path, 0o700)
    if not os.path.exists(folder.at("run.json")):
        write_json(folder.at("run.json"), run)
    if not os.path.exists(folder.at("claim/lock")):
        os.write(folder.lock_anew(), SEAL)  # held until we end: no host takes us for dead
