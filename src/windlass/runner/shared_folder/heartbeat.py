"""Signs of life in a shared folder: a process rewrites a file, and a process on another machine sees it change.

Clocks of two machines differ, so that no time that is written is compared: the reader counts by its own clock how long
the file has stayed the same. A reader that has just begun knows of no silence yet.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Tuple

from ..workdir.run_folder import read_whole, write_json

NAME = "heartbeat.json"
SECONDS = 5.0
# A heartbeat that is missing for so long: disks of other machines show changes late, too.
SILENT_SECONDS = 90.0


class Heartbeat:
    """The writer's side."""

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
    """The reader's side."""

    def __init__(self) -> None:
        self._seen: Dict[str, Tuple[bytes, float]] = {}

    def silence(self, path: str) -> float:
        """Seconds for which a heartbeat has been missing, as far as we have seen. Without a file, it never began."""
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
