"""status.json, which records how a run ended: its content, and how it is written, also on a full disk."""

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

_LONGEST_RETRY_SECONDS = 5.0
# What is kept free for the status, on a disk that the run may fill.
_ROOM = "claim/room"
_ROOM_BYTES = 128 << 10
_ROOM_FOR = ((_ROOM, _ROOM_BYTES), ("events.jsonl", 8 << 10))


def describe(folder: RunFolder, run: Dict[str, Any], reason: str, ended: Exit, message: str) -> Dict[str, Any]:
    """The status without what is measured last: files, usage, and the number of leftover processes."""
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
    """Write the status of a job that executed nothing. The caller holds the lock of its claim."""
    measured: Dict[str, Any] = {"boot_id": None, "left_behind": 0, "usage": None, "files": []}
    put_status(folder, run, lock, {**describe(folder, run, reason, Exit(), message), **measured})


def reserve_space(folder: RunFolder, lock: int) -> None:
    """Reserve the disk space that the end of the run needs. The script may fill the rest."""
    with suppress(OSError):
        os.pwrite(lock, UNSEALED, 0)
        for name, size in _ROOM_FOR:
            fd = os.open(folder.at(name), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                kernel.reserve_space(fd, size)
            finally:
                os.close(fd)


def put_status(folder: RunFolder, run: Dict[str, Any], lock: int, status: Dict[str, Any]) -> None:
    """Write status.json. Retries until it succeeds, for as long as the disk is full."""
    retry_seconds = 0.05
    while True:
        try:
            _restore_folder(folder, run)
            _put(folder, lock, lambda: _write(folder, status))
            break
        except OSError:
            time.sleep(retry_seconds)
            retry_seconds = min(2 * retry_seconds, _LONGEST_RETRY_SECONDS)
    with suppress(OSError):  # the folder may be gone: cleanup begins as soon as the status is there
        os.unlink(folder.at(_ROOM))


def _write(folder: RunFolder, status: Dict[str, Any]) -> str:
    """Write the status to a temporary file; on a full disk, to the file that reserves space for it. A status that does
    not fit waits for space, or is shortened if the run is to be stopped.
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
    """The status with as many of its files as fit into the reserved space."""
    files = list(status["files"])
    note = "The disk of the machine was full, so that {} files of the run are not in its record."
    short = dict(status)
    while True:
        left_out = len(status["files"]) - len(files)
        short.update(files=files, message=f"{status['message']} {note.format(left_out)}".strip())
        if not files or len(encode(short)) <= _ROOM_BYTES:
            return short
        files = files[: len(files) * 3 // 4]


def _put(folder: RunFolder, lock: int, write: Callable[[], str]) -> None:
    """Rename the status into place, then fsync. A watching host need not wait for the disk, and may clean up."""
    path = folder.at("status.json")
    aside = write()
    files = [os.open(aside, os.O_RDONLY), os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        failpoints.reach("F16")
        if os.path.lexists(path):  # written by the script: not sealed, so it does not count
            remove(path)
        os.pwrite(lock, SEAL, 0)
        os.rename(aside, path)
        for file in files:
            os.fsync(file)
    finally:
        for file in files:
            os.close(file)
    failpoints.reach("F17")


def _restore_folder(folder: RunFolder, run: Dict[str, Any]) -> None:
    """Restore the run's folder: the script may have removed it, or its permissions."""
    for path in (folder.path, folder.at("claim")):
        os.makedirs(path, 0o700, exist_ok=True)
        os.chmod(path, 0o700)
    if not os.path.exists(folder.at("run.json")):
        write_json(folder.at("run.json"), run)
    if not os.path.exists(folder.at("claim/lock")):
        os.write(folder.lock_anew(), SEAL)  # held until we exit, so that no host takes us for dead
