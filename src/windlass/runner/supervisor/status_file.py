"""How a run ended: what status.json says, and how it is put in place."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Callable, Dict

from .. import failpoints
from ..system import kernel
from ..workdir.machine_folder import remove
from ..workdir.run_folder import FULL, SEAL, UNSEALED, RunFolder, encode, put_aside, write_all, write_json
from .script_process import Exit

_LONGEST_PATIENCE = 5.0
# What is kept free for the status, on a disk that the run may fill.
_ROOM = "claim/room"
_ROOM_BYTES = 128 << 10
_ROOM_FOR = ((_ROOM, _ROOM_BYTES), ("events.jsonl", 8 << 10))


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


def put_unstarted(folder: RunFolder, run: Dict[str, Any], lock: int, reason: str, message: str) -> None:
    """The end of a job of which nothing was executed. The lock of its claim is ours."""
    measured: Dict[str, Any] = {"boot_id": None, "left_behind": 0, "usage": None, "files": []}
    put_status(folder, run, lock, {**describe(folder, run, reason, Exit(), message), **measured})


def keep_room(folder: RunFolder, lock: int) -> None:
    """Take the room on the disk that the end of the run will need. A script may fill the rest."""
    with suppress(OSError):
        os.pwrite(lock, UNSEALED, 0)
        for name, size in _ROOM_FOR:
            fd = os.open(folder.at(name), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                kernel.keep_room(fd, size)
            finally:
                os.close(fd)


def put_status(folder: RunFolder, run: Dict[str, Any], lock: int, status: Dict[str, Any]) -> None:
    """Put status.json in place, however long the disk is full: the truth about a run is not given up."""
    patience = 0.05
    while True:
        try:
            _mend(folder, run)
            _put(folder, lock, lambda: _write(folder, status))
            break
        except OSError:
            time.sleep(patience)
            patience = min(2 * patience, _LONGEST_PATIENCE)
    with suppress(OSError):  # the folder may be gone by now, for it is cleaned up as soon as the status is there
        os.unlink(folder.at(_ROOM))


def _write(folder: RunFolder, status: Dict[str, Any]) -> str:
    """Aside; on a full disk, over what was kept free for it. If there is more to tell than fits there, room for it is
    waited for, but not by somebody who wants the run to be stopped.
    """
    try:
        return put_aside(folder.at("status.json"), status)
    except OSError as e:
        if e.errno not in FULL:
            raise
    data = encode(status)
    if len(data) > _ROOM_BYTES and folder.stop() is not None:
        data = encode(_shortened(status))
    fd = os.open(folder.at(_ROOM), os.O_WRONLY | os.O_NOFOLLOW)
    try:
        write_all(fd, data)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)
    return folder.at(_ROOM)


def _shortened(status: Dict[str, Any]) -> Dict[str, Any]:
    """With as many of its files as fit."""
    files = list(status["files"])
    word = "The disk of the machine was full, so that {} files of the run are not in its record."
    short = dict(status)
    while True:
        left_out = len(status["files"]) - len(files)
        short.update(files=files, message=f"{status['message']} {word.format(left_out)}".strip())
        if not files or len(encode(short)) <= _ROOM_BYTES:
            return short
        files = files[: len(files) * 3 // 4]


def _put(folder: RunFolder, lock: int, write: Callable[[], str]) -> None:
    """Those who watch see it before it is durable: they need not wait for the disk, and may clean up meanwhile."""
    path = folder.at("status.json")
    aside = write()
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
