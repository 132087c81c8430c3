"""Rate limit of log lines per message template: a machine or a script can repeat their cause without end."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

MOST_RECORDS = 50
WINDOW_SECONDS = 10.0
_MOST_KINDS = 1000


@dataclass(slots=True)
class _Window:
    started: float
    passed: int = 0
    left_out: int = 0


class RateLimit(logging.Filter):
    """Of records with the same logger and template, `MOST_RECORDS` pass in `WINDOW_SECONDS`; the next one that passes
    says how many were left out. The handler's lock is held while it is called.
    """

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[tuple[str, str], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        key = (record.name, str(record.msg)[:200])
        window = self._windows.get(key)
        if window is None or now - window.started >= WINDOW_SECONDS:
            if len(self._windows) >= _MOST_KINDS:
                self._windows.clear()
            left_out = window.left_out if window is not None else 0
            window = self._windows[key] = _Window(now)
            if left_out:
                record.msg, record.args = f"{record.getMessage()} ({left_out:,} more like it were left out)", ()
        window.passed += 1
        window.left_out += window.passed > MOST_RECORDS
        return window.passed <= MOST_RECORDS
