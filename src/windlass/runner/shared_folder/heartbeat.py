"""Heartbeats in a shared folder: a process rewrites a file, and a process on another machine sees it change.

Clocks of two machines differ, so that no written time is compared: the reader measures with its own clock for how long
the file has not changed. A reader that has just started has measured no silence yet.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Tuple

from ..workdir.run_folder import read_whole, write_json

NAME = "heartbeat.json"
SECONDS = 5.0
# A heartbeat counts as lost after that time: network disks show changes late.
SILENT_SECONDS = 90.0


class Heartbeat:
    """Writer of a heartbeat."""

    def __init__(self, path: str, **facts: Any) -> None:
        self._path = path
        self._facts = {"host": os.uname().nodename, "pid": os.getpid(), **facts}
        self._count = 0
        self.next_moment = 0.0

    def step(self, now: float) -> None:
        if now < self.next_moment:
            return
        self.next_moment = now + SECONDS
        self._count += 1
        with contextlib.suppress(OSError):  # a full disk, or the script has removed its folder
            write_json(self._path, {"beat": self._count, "at": time.time(), **self._facts})


class Heartbeats:
    """Reader of heartbeats."""

    def __init__(self) -> None:
        self._seen: Dict[str, Tuple[bytes, float]] = {}

    def silence(self, path: str) -> float:
        """Seconds without a heartbeat since this reader first looked. A missing file counts as silence."""
        try:
            content = read_whole(path)
        except OSError:
            content = b""
        now = time.monotonic()
        before = self._seen.get(path)
        if before is None or before[0] != content:
            self._seen[path] = (content, now)
            return 0.0
        return now - before[1]

    def is_silent(self, path: str) -> bool:
        return self.silence(path) >= SILENT_SECONDS

    def forget(self, folder: str) -> None:
        for path in [path for path in self._seen if path.startswith(f"{folder}/")]:
            del self._seen[path]
