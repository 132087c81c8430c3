"""The files of a run's record: logs, metrics, calls, uploads, outputs, usage."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from ..system import kernel
from .run_folder import Refused, RunFolder, is_path, open_below, open_folder_below

_WHOLE = ("user_logs", "azureml-logs", "metrics", "calls", "uploads")
_LIVE = ("user_logs", "azureml-logs", "metrics", "calls")
_TAIL = 64 << 20
_BLOCK = 4096

Entry = Tuple[str, int]


def watched(run: Dict[str, Any]) -> List[str]:
    """The folders of the source tree whose files are read while they grow."""
    return [f"source/{name}" for name in run.get("watch", ()) if is_path(name)]


def live_folders(run: Dict[str, Any]) -> List[str]:
    return [*_LIVE, *watched(run)]


def list_record(folder: RunFolder, run: Dict[str, Any]) -> List[Entry]:
    """Every regular file of the record with its size; no link is followed."""
    found: Dict[str, int] = {}
    for top in (*_WHOLE, "source/outputs", *watched(run)):
        found.update(list_below(folder.path, top))
    for name in ("usage.jsonl",):
        size = file_size(folder.at(name))
        if size is not None:
            found[name] = size
    return sorted(found.items())


def list_below(base: str, top: str) -> Iterator[Entry]:
    waiting = [top]
    while waiting:
        path = waiting.pop()
        for name, seen in _scan_folder(base, path):
            if stat.S_ISDIR(seen.st_mode):
                waiting.append(f"{path}/{name}")
            elif stat.S_ISREG(seen.st_mode):
                yield f"{path}/{name}", seen.st_size


def _scan_folder(base: str, path: str) -> List[Tuple[str, os.stat_result]]:
    """The entries of a folder, as far as its permissions allow."""
    found: List[Tuple[str, os.stat_result]] = []
    try:
        fd = open_folder_below(base, path)
    except (OSError, Refused):
        return found
    try:
        for name in os.listdir(fd):
            with contextlib.suppress(OSError):  # it is gone already
                found.append((name, os.stat(name, dir_fd=fd, follow_symlinks=False)))
    except OSError:
        pass  # the script has removed the permission
    finally:
        os.close(fd)
    return found


def size_below(base: str, path: str) -> Optional[int]:
    try:
        fd = open_below(base, path)
    except (OSError, Refused):
        return None
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def file_size(path: str) -> Optional[int]:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def digest_record(folder: RunFolder, run: Dict[str, Any]) -> List[Tuple[str, int, Optional[str]]]:
    """The final record: path, size and SHA-256 of each file; a file over the log cap has no digest."""
    cap = run.get("log_cap") or None
    return [(path, *_size_and_digest(folder, path, size, cap)) for path, size in list_record(folder, run)]


def _size_and_digest(folder: RunFolder, path: str, size: int, cap: Optional[int]) -> Tuple[int, Optional[str]]:
    if cap is not None and size > cap and not path.startswith("source/outputs/"):
        return size, None
    try:
        fd = open_below(folder.path, path)
    except Exception:  # a file that cannot be read has no digest
        return size, None
    try:
        return digest_of(fd)
    finally:
        os.close(fd)


def digest_of(fd: int) -> Tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while True:
        data = os.read(fd, 1 << 20)
        if not data:
            return size, digest.hexdigest()
        digest.update(data)
        size += len(data)


def kept(cap: int) -> Tuple[int, int]:
    """How much of a log's beginning and end is kept when it passes the cap."""
    tail = min(_TAIL, cap // 4)  # the server computes the same, and reads exactly these parts
    return cap - tail, tail


def free_middles(folder: RunFolder, cap: int) -> Iterable[str]:
    """Punch a hole into the middle of logs that passed the cap, unnoticed by the script."""
    freed = []
    for path, size in list_below(folder.path, "user_logs"):
        if size > cap and _free_middle(folder, path, size, cap):
            freed.append(path)
    return freed


def _free_middle(folder: RunFolder, path: str, size: int, cap: int) -> bool:
    head, tail = kept(cap)
    start = -(-head // _BLOCK) * _BLOCK
    end = (size - tail) // _BLOCK * _BLOCK
    if end <= start:
        return False
    try:
        fd = open_below(folder.path, path, os.O_RDWR)
    except Refused:
        return False  # the path was replaced meanwhile: it may lead to another file
    try:
        return kernel.punch_hole(fd, start, end - start)
    finally:
        os.close(fd)
