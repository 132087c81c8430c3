"""Connection pool with back-off: one long-lived connection per key, shared by all threads, reopened when broken."""

from __future__ import annotations

import copy
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from windlass.core import backoff
from windlass.core.errors import LoginRefused, TargetUnreachable, WindlassError
from windlass.drivers.base import ConnectionPool, Driver, ServerAddress

D = TypeVar("D", bound=Driver[Any])

_FIRST_WAIT = 0.1
# With this limit, the end of a run is known half a minute after its machine can be reached again.
_LONGEST_WAIT = 10.0
# Machines lock out addresses after failed logins: commonly after five in ten minutes.
_FIRST_WAIT_REFUSED = 15.0
_LONGEST_WAIT_REFUSED = 300.0
# Seconds after which a connection counts as a success, and resets the back-off.
_PROVEN_AFTER = 5.0


@dataclass(slots=True)
class _Slot:
    """Connection and failures of one key. Its lock is held while connecting, so that one thread connects at a time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: Any = None
    made_at: float = 0.0
    failures: int = 0
    refusals: int = 0  # refused logins in a row
    not_before: float = 0.0
    last_error: WindlassError = TargetUnreachable("")


class BackoffPool(ConnectionPool):
    """Connection pool with exponential back-off for each key.

    The first failure may be retried at once. Then the delay doubles up to ten seconds; after refused logins it grows up
    to five minutes. During the delay, get() raises the last error at once, so an unreachable target blocks no thread.
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
        # After two failures another thread's connection attempt may hang: fail fast with the last error.
        if not slot.lock.acquire(blocking=slot.failures < 2):
            raise _retry_later(slot, None)
        try:
            if slot.connection is not None and slot.connection.is_open:
                return slot.connection
            self._discard(slot)
            self._check_backoff(slot)
            return self._connect(key, slot, make)
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
        """Close a broken connection. If it broke soon after it was opened, the open counts as a failure."""
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

    def _connect(self, key: str, slot: _Slot, make: Callable[[], Any]) -> Any:
        # Counted in advance; reset once the connection has lasted for _PROVEN_AFTER.
        slot.failures += 1
        try:
            slot.connection = make()
        except WindlassError as e:
            slot.last_error = e
            slot.refusals = slot.refusals + 1 if _is_refusal(e) else 0
            raise
        except OSError as e:  # a local problem: the disk is full, or no file descriptors are left
            slot.refusals = 0
            slot.last_error = TargetUnreachable(f"No connection to the target can be made here: {e}")
            raise slot.last_error from e
        finally:
            slot.made_at = self._clock()
            slot.not_before = slot.made_at + _delay(key, slot)
        with self._lock:
            is_orphan = self._slots.get(key) is not slot
        if is_orphan:  # the key was dropped or the pool closed meanwhile
            slot.connection.close()
            raise TargetUnreachable("The connection to the target was closed while it was made.")
        return slot.connection


class TrackedPool(ConnectionPool):
    """View of a pool for one operation, which records whether the operation could have sent anything.

    `is_cut_off` means that the first connection that it requested could not be opened, so nothing was sent. Connections
    that were opened while opening that one do not count.
    """

    def __init__(self, connections: ConnectionPool) -> None:
        self.server = connections.server
        self._pool = connections
        self._has_connected: bool | None = None  # None: no connection was requested

    @property
    def is_cut_off(self) -> bool:
        return self._has_connected is False

    def of(self, driver: D) -> D:
        """A copy of the driver that uses this view."""
        there = copy.copy(driver)
        there.connections = self
        return there

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        before = self._has_connected
        try:
            found = self._pool.get(key, make)
        except WindlassError:
            self._has_connected = bool(before)
            raise
        self._has_connected = True
        return found

    def reset_backoff(self, key: str) -> None:
        self._pool.reset_backoff(key)

    def drop(self, key: str) -> None:
        self._pool.drop(key)

    def close(self) -> None:
        """Do nothing: the connections belong to the server's pool."""


def _retry_later(slot: _Slot, seconds: float | None) -> WindlassError:
    """The last error, with the seconds until the next retry; None: another thread is connecting now."""
    last = slot.last_error
    again_in = None if seconds is None else round(seconds, 1)
    return type(last)(last.message, last.hint, {**last.details, "tries": slot.failures, "again_in": again_in})


def _is_refusal(error: WindlassError) -> bool:
    return isinstance(error, LoginRefused) or error.details.get("of_jump") == LoginRefused.code


def _delay(key: str, slot: _Slot) -> float:
    """Back-off delay; none after the first failure. A jitter by key keeps targets from retrying in step."""
    jitter = zlib.crc32(key.encode()) % 256 / 1024
    if slot.refusals:
        return backoff.delay(slot.refusals, _FIRST_WAIT_REFUSED, _LONGEST_WAIT_REFUSED, factor=4.0, jitter=jitter)
    return backoff.delay(slot.failures - 1, _FIRST_WAIT, _LONGEST_WAIT, jitter=jitter)


def _close(slot: _Slot) -> None:
    # Without the slot's lock: a thread that is connecting now finds the slot gone, and closes its connection.
    if slot.connection is not None:
        slot.connection.close()
