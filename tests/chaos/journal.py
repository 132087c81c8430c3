"""What happened in a chaos run, with its time: in a file as it happens, and in memory for the messages."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.plan import Victim


@dataclass(frozen=True)
class Hit:
    """A strike that hit a process. `run` is set for a supervisor or a script, else `place` says which one it was."""

    at: float
    text: str
    victim: Victim
    is_stop: bool
    run: str | None = None
    place: str = ""


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.hits: list[Hit] = []
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._file = open(path, "w", encoding="utf-8", buffering=1)  # noqa: SIM115 (closed by close)

    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def write(self, text: str) -> None:
        with self._lock:
            self._file.write(f"{self.now():9.3f} {text}\n")

    def hit(self, text: str, victim: Victim, is_stop: bool, run: str | None = None, place: str = "") -> None:
        self.hits.append(Hit(self.now(), text, victim, is_stop, run, place))
        self.write(text)

    def of_run(self, run: str) -> list[Hit]:
        return [hit for hit in self.hits if hit.run == run]

    def around(self, began: float, ended: float) -> list[Hit]:
        """Strikes at servers, hosts and connections in that time."""
        return [hit for hit in self.hits if hit.run is None and began - 5 <= hit.at <= ended]

    def close(self) -> None:
        self._file.close()
