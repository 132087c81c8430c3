"""Upload of metrics over HTTP: a thread sends queued lines in batches, each line exactly once."""

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
_MAX_QUEUED = 100_000
_EXIT_SECONDS = 30.0
_PAUSE_SECONDS = 0.1

_all: weakref.WeakSet[MetricUploader] = weakref.WeakSet()


class MetricUploader:
    """The queue and the thread of one process for one run. `post` sends a batch; `heartbeat`, if given, is called every
    `heartbeat_seconds` until close().
    """

    def __init__(
        self,
        post: Callable[[dict[str, Any]], Any],
        heartbeat: Callable[[], Any] | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._post = post
        self._heartbeat = heartbeat
        self._heartbeat_seconds = heartbeat_seconds
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        """Begin as a new writer: at the start, and in a forked process, since its parent sends the queued lines."""
        self._writer = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._offset = 0
        self._queue: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._error: WindlassError | None = None

    def add(self, line: dict[str, Any]) -> None:
        """Queue a line. Blocks while the queue is full; raises the error that ended the thread."""
        self._raise_error()
        with self._changed:
            while len(self._queue) >= _MAX_QUEUED and self._error is None:
                self._changed.wait(1.0)
            self._queue.append(line)
            self._changed.notify_all()
        self.start()

    def start(self) -> None:
        """Start the thread that sends batches and heartbeats, unless it runs."""
        if self._thread is None and not self._is_closed:
            self._thread = threading.Thread(target=self._run, name="windlass-metric-uploader", daemon=True)
            self._thread.start()

    def flush(self, timeout_seconds: float = 300.0) -> None:
        """Return when the server has all lines; raises the error that kept it from receiving them."""
        deadline = time.monotonic() + timeout_seconds
        while self._queue and self._error is None:
            try:
                self._send()
            except WindlassError as e:
                if not e.transient or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)
        self._raise_error()

    def close(self) -> None:
        """End the thread. It sends no further heartbeat; lines that are still queued are sent by flush()."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        last_heartbeat = time.monotonic()
        while not self._is_closed:
            with self._changed:
                if not self._queue and not self._is_closed:
                    self._changed.wait(None if self._heartbeat is None else self._heartbeat_seconds)
            try:
                self._send()
                if self._heartbeat is not None and time.monotonic() - last_heartbeat >= self._heartbeat_seconds:
                    last_heartbeat = time.monotonic()
                    self._heartbeat()
            except WindlassError as e:
                if not e.transient:
                    self._error = e
                    return
                time.sleep(_PAUSE_SECONDS)

    def _send(self) -> None:
        """Send one batch. It is removed from the queue only when the server has it, so a retry sends the same batch."""
        with self._sending:
            batch = self._queue[:_BATCH]
            if not batch:
                return
            self._post({"writer": self._writer, "offset": self._offset, "lines": batch})
            with self._changed:
                self._offset += len(batch)
                del self._queue[: len(batch)]
                self._changed.notify_all()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


def _in_child() -> None:
    for uploader in list(_all):
        uploader._reset()


def _at_exit() -> None:
    for uploader in list(_all):
        try:
            uploader.flush(_EXIT_SECONDS)
        except WindlassError as e:
            import sys

            print(f"Warning: some metrics did not reach the server: {e.text}", file=sys.stderr)


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)
