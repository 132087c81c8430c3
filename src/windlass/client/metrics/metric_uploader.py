"""Metrics on their way to the server: gathered, sent in batches by a thread, each exactly once."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from windlass.core.errors import WindlassError

if TYPE_CHECKING:
    from collections.abc import Callable

HEARTBEAT_SECONDS = 30.0
_BATCH = 5000
_MOST_WAITING = 100_000
_EXIT_SECONDS = 30.0
_PAUSE_SECONDS = 0.1

_all: weakref.WeakSet[Recorder] = weakref.WeakSet()


class Recorder:
    """Lines of one writer for one run. `post` sends a batch; `beat`, if given, says now and then that we are there."""

    def __init__(
        self,
        post: Callable[[dict[str, Any]], Any],
        beat: Callable[[], Any] | None = None,
        beat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._post = post
        self._beat = beat
        self._beat_seconds = beat_seconds
        self._start_anew()
        _all.add(self)

    def _start_anew(self) -> None:
        """At the beginning, and in a forked process: what waits there is the parent's to send."""
        self._writer = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._offset = 0
        self._waiting: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._problem: WindlassError | None = None

    def add(self, line: dict[str, Any]) -> None:
        self._raise_problem()
        with self._news:
            while len(self._waiting) >= _MOST_WAITING and self._problem is None:
                self._news.wait(1.0)
            self._waiting.append(line)
            self._news.notify_all()
        self.start()

    def start(self) -> None:
        """Have the thread that sends and beats."""
        if self._thread is None and not self._is_over:
            self._thread = threading.Thread(target=self._work, name="windlass-recorder", daemon=True)
            self._thread.start()

    def flush(self, timeout_seconds: float = 300.0) -> None:
        """Return when all is with the server; raise what kept it from getting there."""
        deadline = time.monotonic() + timeout_seconds
        while self._waiting and self._problem is None:
            try:
                self._send()
            except WindlassError as e:
                if not e.transient or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)
        self._raise_problem()

    def close(self) -> None:
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def _work(self) -> None:
        beaten = time.monotonic()
        while not self._is_over:
            with self._news:
                if not self._waiting and not self._is_over:
                    self._news.wait(None if self._beat is None else self._beat_seconds)
            try:
                self._send()
                if self._beat is not None and time.monotonic() - beaten >= self._beat_seconds:
                    beaten = time.monotonic()
                    self._beat()
            except WindlassError as e:
                if not e.transient:
                    self._problem = e
                    return
                time.sleep(_PAUSE_SECONDS)

    def _send(self) -> None:
        """Send one batch. It leaves the list only when the server has it, so a repeat is the same batch."""
        with self._sending:
            batch = self._waiting[:_BATCH]
            if not batch:
                return
            self._post({"writer": self._writer, "offset": self._offset, "lines": batch})
            with self._news:
                self._offset += len(batch)
                del self._waiting[: len(batch)]
                self._news.notify_all()

    def _raise_problem(self) -> None:
        if self._problem is not None:
            raise self._problem


def _in_child() -> None:
    for recorder in list(_all):
        recorder._start_anew()


def _at_exit() -> None:
    for recorder in list(_all):
        try:
            recorder.flush(_EXIT_SECONDS)
        except WindlassError as e:
            import sys

            print(f"Warning: some metrics did not reach the server: {e.text}", file=sys.stderr)


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)
