"""The long-lived connections to targets: one per key, shared by all threads, made again when broken."""

from __future__ import annotations

import copy
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from windlass.core.errors import LoginRefused, TargetUnreachable, WindlassError
from windlass.drivers.base import ConnectionPool, Driver, ServerAddress

D = TypeVar("D", bound=Driver[Any])

_FIRST_WAIT = 0.1
# A run that ended while its machine could not be reached is known half a minute after it can.
_LONGEST_WAIT = 10.0
# Machines lock out addresses that log in with a wrong key: commonly after five times in ten minutes.
_FIRST_WAIT_REFUSED = 15.0
_LONGEST_WAIT_REFUSED = 300.0
# A connection that broke sooner than this was no success.
_PROVEN_AFTER = 5.0


@dataclass(slots=True)
class _Slot:
    """What is known of one key. Its lock is held while a connection is made, so that one is made, not many."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: Any = None
    made_at: float = 0.0
    failures: int = 0
    refusals: int = 0  # in a row, now
    not_before: float = 0.0
    last_error: WindlassError = TargetUnreachable("")


class BackoffPool(ConnectionPool):
    """One connection per key, with back-off: the first failure may be retried at once; from then on the wait doubles up
    to ten seconds, and after a login that was refused up to five minutes.

    While it lasts, callers get the last error at once: an unreachable target costs no thread any time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, server: ServerAddress | None = None) -> None:
        self.server = server
        self._clock = clock
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}
        self._closed = False

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        slot = self._slot(key)
        connection = slot.connection
        if connection is not None and connection.is_open:
            return connection
        # A thread that connects to what has failed before may hang: no other thread waits for it.
        if not slot.lock.acquire(blocking=slot.failures < 2):
            raise _retry_later(slot, None)
        try:
            if slot.connection is not None and slot.connection.is_open:
                return slot.connection
            self._discard(slot)
            self._check_backoff(slot)
            return self._make(key, slot, make)
        finally:
            slot.lock.release()

    def reset_backoff(self, key: str) -> None:
        self._slot(key).not_before = 0.0

    def drop(self, key: str) -> None:
        """Close the connection of that key and forget its failures."""
        with self._lock:
            slot = self._slots.pop(key, None)
        if slot is not None:
            _close(slot)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            slots = list(self._slots.values())
            self._slots.clear()
        for slot in slots:
            _close(slot)

    def _slot(self, key: str) -> _Slot:
        with self._lock:
            if self._closed:
                raise TargetUnreachable("The connections to all targets were closed: the server is stopping.")
            return self._slots.setdefault(key, _Slot())

    def _discard(self, slot: _Slot) -> None:
        """Close a connection that broke. If it broke soon after it was made, that counts as a failure."""
        if slot.connection is None:
            return
        if self._clock() - slot.made_at >= _PROVEN_AFTER:
            slot.failures, slot.not_before = 0, 0.0
        slot.last_error = TargetUnreachable("The connection to the target broke soon after it was made.")
        slot.connection.close()
        slot.connection = None

    def _check_backoff(self, slot: _Slot) -> None:
        wait = slot.not_before - self._clock()
        if wait > 0:
            raise _retry_later(slot, wait)

    def _make(self, key: str, slot: _Slot, make: Callable[[], Any]) -> Any:
        # Counted before it is known to have failed, and taken back once the connection has proven itself.
        slot.failures += 1
        try:
            slot.connection = make()
        except WindlassError as e:
            slot.last_error = e
            slot.refusals = slot.refusals + 1 if _is_refusal(e) else 0
            raise
        except OSError as e:  # nothing that a target did: a disk is full, or there are no descriptors left
            slot.refusals = 0
            slot.last_error = TargetUnreachable(f"No connection to the target can be made here: {e}")
            raise slot.last_error from e
        finally:
            slot.made_at = self._clock()
            slot.not_before = slot.made_at + _wait(key, slot)
        with self._lock:
            is_orphan = self._slots.get(key) is not slot
        if is_orphan:  # dropped or closed while it was made
            slot.connection.close()
            raise TargetUnreachable("The connection to the target was closed while it was made.")
        return slot.connection


class TrackedPool(ConnectionPool):
    """The connections as one operation uses them. It was cut off if the first that it asked for could not be had: then
    nothing of it can have been sent. What was had only on the way to that one does not count.
    """

    def __init__(self, connections: ConnectionPool) -> None:
        self.server = connections.server
        self._pool = connections
        self._has_had: bool | None = None  # None: nothing was asked for

    @property
    def is_cut_off(self) -> bool:
        return self._has_had is False

    def of(self, driver: D) -> D:
        """The driver, using this pool."""
        there = copy.copy(driver)
        there.connections = self
        return there

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        before = self._has_had
        try:
            found = self._pool.get(key, make)
        except WindlassError:
            self._has_had = bool(before)
            raise
        self._has_had = True
        return found

    def reset_backoff(self, key: str) -> None:
        self._pool.reset_backoff(key)

    def drop(self, key: str) -> None:
        self._pool.drop(key)

    def close(self) -> None:
        """The connections stay open: they are the server's."""


def _retry_later(slot: _Slot, seconds: float | None) -> WindlassError:
    """The last error, with the seconds until the next try; None: another thread is trying now."""
    last = slot.last_error
    again_in = None if seconds is None else round(seconds, 1)
    return type(last)(last.message, last.hint, {**last.details, "tries": slot.failures, "again_in": again_in})


def _is_refusal(error: WindlassError) -> bool:
    return isinstance(error, LoginRefused) or error.details.get("of_jump") == LoginRefused.code


def _wait(key: str, slot: _Slot) -> float:
    """No wait after the first failure. Keys wait a little differently, so that a thousand do not retry at once."""
    spread = 1 + zlib.crc32(key.encode()) % 256 / 1024
    if slot.refusals:
        return min(_FIRST_WAIT_REFUSED * 4.0 ** min(slot.refusals - 1, 20), _LONGEST_WAIT_REFUSED) * spread
    if slot.failures < 2:
        return 0.0
    return min(_FIRST_WAIT * 2.0 ** min(slot.failures - 2, 20), _LONGEST_WAIT) * spread


def _close(slot: _Slot) -> None:
    # Without the slot's lock: a thread that makes a connection just now finds the slot gone, and closes it there.
    if slot.connection is not None:
        slot.connection.close()
