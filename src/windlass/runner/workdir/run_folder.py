"""A run's folder: the only record of a job's state. docs/dev/runner.md describes it.

The claim. `mkdir claim` reserves the start of this job; `claim/lock`, held by flock, means that a supervisor lives. A
process that gets the lock of a claim without "exec" in events.jsonl may start the script: nothing was ever started. The
script's process inherits the lock until its exec, and by then `claim/process.json` names it: with a free lock, every
process that was started is therefore named.

The end. `status.json` counts only when the supervisor has sealed it: before it renames its own into place it removes
any other and writes SEAL into the lock, so that a status written by the script has no effect.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from typing import Any, Dict, List, Optional, Tuple

SEAL = b"ended\n"
UNSEALED = b"begun\n"  # of the same length: writing SEAL needs no disk space
FULL = (errno.ENOSPC, errno.EDQUOT)
LOG = "user_logs/std_log.txt"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"

# Folders that are made before the script starts.
_FOLDERS = ("user_logs", "metrics", "calls", "uploads")
# What may be read over the pipe; run.json, which holds the run's token, is not among it.
_READABLE = frozenset(
    ("user_logs", "azureml-logs", "metrics", "calls", "uploads", "source", "events.jsonl", "usage.jsonl", "status.json")
)
_LONGEST_FENCE = 1 << 16
_STAGE = "claim/stage.json"
_JOB = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]{0,254}\Z")


class Refused(Exception):
    """A request that is not granted; `code` crosses the pipe."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """The object in a file; None if there is no such file, or no whole object in it (a crash of the machine)."""
    try:
        value = json.loads(read_whole(path))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_whole(path: str) -> bytes:
    """The content of a small file, with half of the system calls of `open`: a run reads many small files."""
    fd = os.open(path, os.O_RDONLY)
    try:
        pieces = []
        while True:
            pieces.append(os.read(fd, 1 << 16))
            if len(pieces[-1]) < 1 << 16:
                return b"".join(pieces)
    finally:
        os.close(fd)


def write_json(path: str, value: Dict[str, Any], durable: bool = False) -> None:
    """Write a file atomically; with `durable`, it is fsynced."""
    aside = put_aside(path, value, durable)
    os.rename(aside, path)
    if durable:
        _sync_folder(os.path.dirname(path))


def put_aside(path: str, value: Dict[str, Any], durable: bool = False) -> str:
    aside = f"{path}.{os.getpid()}.tmp"
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        write_all(fd, encode(value))
        if durable:
            os.fsync(fd)
    except OSError:
        os.unlink(aside)  # on a full disk, a partial file takes space
        raise
    finally:
        os.close(fd)
    return aside


def encode(value: Dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def append(path: str, data: bytes, durable: bool = False) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        write_all(fd, data)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_path(text: object) -> bool:
    """Whether this is a relative path with '/' between its parts that stays below where it starts."""
    if not isinstance(text, str) or not text or "\0" in text or len(text) > 4096:
        return False
    return not any(part in ("", ".", "..") for part in text.split("/"))


def open_below(folder: str, path: str, access: int = os.O_RDONLY) -> int:
    """Open a regular file, following no link on the way, so that a script cannot redirect the path."""
    # Without O_NONBLOCK, opening a FIFO would wait for its writer.
    fd = _descend(folder, path, access | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Refused("denied", f"{path} is not a regular file.")
    return fd


def open_folder_below(folder: str, path: str) -> int:
    return _descend(folder, path, os.O_RDONLY | os.O_DIRECTORY)


def _descend(folder: str, path: str, flags: int) -> int:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    *parents, name = path.split("/")
    try:
        for parent in parents:
            fd = _step(fd, parent, os.O_RDONLY | os.O_DIRECTORY)
        return _step(fd, name, flags)
    except OSError as e:
        os.close(fd)
        if e.errno == errno.ELOOP or (e.errno == errno.ENOTDIR and _has_link(folder, parents)):
            raise Refused("denied", f"{path} leads through a link, and links are not followed.") from None
        raise


def _step(fd: int, name: str, flags: int) -> int:
    below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=fd)
    os.close(fd)
    return below


def _has_link(folder: str, parents: List[str]) -> bool:
    paths = ("/".join((folder, *parents[: i + 1])) for i in range(len(parents)))
    return any(os.path.islink(path) for path in paths)


def taken(folder: "RunFolder") -> Refused:
    """The refusal of a start; `drivers.machine.protocol.error` adds the hint."""
    return Refused("taken", f"Another server uses this account, and has or had a job {folder.job} in {folder.path}.")


def _fence_and_nonce(written: bytes) -> Tuple[int, Optional[str]]:
    """The content of `fence`: 32 bytes for the number, then the nonce. Truncated or zeroed after a power loss."""
    number, nonce = (part.strip(b"\0 ") for part in (written[:32], written[32:]))
    return int(number or b"0"), nonce.decode("utf-8", "replace") or None


class RunFolder:
    poll_seconds: Optional[float] = None  # between polls for stop.json, where the host cannot signal the supervisor

    def __init__(self, runs: str, job: str) -> None:
        if not isinstance(job, str) or not _JOB.match(job) or ".." in job:
            raise Refused("invalid", f"Not a job id: {ascii(job)[:80]}")
        self.job = job
        self.path = f"{runs}/{job}"
        self.unwritten_stop: Optional[Dict[str, Any]] = None  # a request to stop that could not be written to stop.json

    def at(self, name: str) -> str:
        return f"{self.path}/{name}"

    @property
    def exists(self) -> bool:
        return os.path.isdir(self.path)

    @property
    def is_claimed(self) -> bool:
        return os.path.isdir(self.at("claim"))

    def make(self, is_built: bool) -> None:
        for name in ("", *_FOLDERS, *(("azureml-logs",) if is_built else ())):
            try:
                os.mkdir(self.at(name), 0o700)
            except FileExistsError:
                pass

    def claim(self) -> bool:
        """Claim the start of the job: True for exactly one caller, ever."""
        try:
            os.mkdir(self.at("claim"), 0o700)
        except FileExistsError:
            return False
        return True

    def is_prestaged(self) -> bool:
        """Whether the job is pre-staged: a supervisor prepares it, and waits for the start."""
        return self.run().get("hold") is True and self.is_locked()

    def run(self) -> Dict[str, Any]:
        return read_json(self.at("run.json")) or {}

    def process(self) -> Optional[Dict[str, Any]]:
        return read_json(self.at("claim/process.json"))

    def supervisor(self) -> Optional[Dict[str, Any]]:
        return read_json(self.at("claim/supervisor.json"))

    def stage(self) -> Dict[str, Any]:
        """What a job does before its script starts: {"stage": "Preparing" or "Starting", "message"}."""
        return read_json(self.at(_STAGE)) or {"stage": "Starting", "message": ""}

    def set_stage(self, stage: str, message: str) -> None:
        """Write the stage for the host, which watches `claim`. Errors, such as a full disk, are ignored."""
        with contextlib.suppress(OSError):
            write_json(self.at(_STAGE), {"stage": stage, "message": message})

    def clear_stage(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.at(_STAGE))

    def stop(self) -> Optional[Dict[str, Any]]:
        return read_json(self.at("stop.json")) or self.unwritten_stop

    def status(self, boot_id: str) -> Optional[Dict[str, Any]]:
        """How the job ended; None until a supervisor has recorded it."""
        status = read_json(self.at("status.json"))
        run = self.run() if status is not None else {}
        if status is None or status.get("nonce") != run.get("nonce"):
            return None
        # The seal need not survive a power cut, the status does.
        return status if self.has_final_status() or run.get("boot_id", boot_id) != boot_id else None

    def has_final_status(self) -> bool:
        try:
            return read_whole(self.at("claim/lock")) == SEAL
        except OSError:
            return False

    def append_event(self, event: str, durable: bool = False, **more: Any) -> None:
        """Append an event to events.jsonl. Errors are ignored, except for `durable` events, which are fsynced."""
        line = json.dumps({"at": time.time(), "event": event, **more}, separators=(",", ":")) + "\n"
        try:
            append(self.at("events.jsonl"), line.encode("ascii"), durable)
        except OSError:
            if durable:
                raise

    def last_events(self) -> Dict[str, Dict[str, Any]]:
        """The last event of each kind."""
        try:
            lines = read_whole(self.at("events.jsonl")).splitlines()
        except OSError:
            return {}
        found: Dict[str, Dict[str, Any]] = {}
        for line in lines:
            try:
                event = json.loads(line)
                found[event["event"]] = event
            except (ValueError, KeyError, TypeError):
                continue  # a line that a crash cut short
        return found

    def lock(self) -> Optional[int]:
        """Take the lock, for as long as the descriptor is open here or in a child; None if a supervisor lives."""
        fd = os.open(self.at("claim/lock"), os.O_RDWR | os.O_CREAT, 0o600)
        for _ in range(20):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.001)  # `is_locked` of another process holds it for a moment
            else:
                return fd
        os.close(fd)
        return None

    def lock_anew(self) -> int:
        """Replace the lock file, whichever process holds the old one. The new one is held from the start."""
        aside = self.at(f"claim/lock.{os.getpid()}.tmp")
        fd = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(aside, self.at("claim/lock"))
        return fd

    def is_replaced(self, lock: int) -> bool:
        """Whether this lock file was replaced by another."""
        try:
            return not os.path.samestat(os.fstat(lock), os.stat(self.at("claim/lock")))
        except OSError:
            return False

    def is_locked(self) -> bool:
        try:
            fd = os.open(self.at("claim/lock"), os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def check_fence(self, fence: int, nonce: str) -> None:
        """Record the highest fence seen, and the nonce of the server that owns the job.

        Refuse a lower fence, whose owner has been replaced, and another nonce. The file's lock decides between two
        servers that start the same job id at the same time.
        """
        fd = os.open(self.at("fence"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            highest, owner = _fence_and_nonce(os.pread(fd, _LONGEST_FENCE, 0))
            if owner not in (None, nonce):
                raise taken(self)
            if fence < highest:
                raise Refused("stale", f"Fence {fence} of {self.job} is older than {highest}.")
            if fence > highest or owner is None:
                os.pwrite(fd, b"%20d" % fence + b" " * 12 + nonce.encode("utf-8"), 0)
        finally:
            os.close(fd)

    def nonce(self) -> Optional[str]:
        """The nonce of the server that owns the job; None if nothing in the folder names it."""
        try:
            owner = _fence_and_nonce(read_whole(self.at("fence")))[1]
        except OSError:
            owner = None
        if owner is None:  # a folder of an older runner
            owner = self.run().get("nonce")
        return owner if isinstance(owner, str) else None

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """Bytes of a file of the record; b"" if there is nothing (yet)."""
        if not is_path(path) or path.split("/", 1)[0] not in _READABLE:
            raise Refused("denied", f"Not a file of the run's record: {ascii(path)[:120]}")
        try:
            fd = open_below(self.path, path)
        except (FileNotFoundError, NotADirectoryError):
            return b""
        try:
            return os.pread(fd, limit, offset)
        finally:
            os.close(fd)
