"""In-process event bus: wakes the streams that follow a run when something about it was committed.

A notification carries no data: each stream reads from the store what is new.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Subscription:
    """One open stream's wake-up flag; lives on the event loop."""

    def __init__(self) -> None:
        self._is_notified = asyncio.Event()

    def notify(self) -> None:
        self._is_notified.set()

    async def wait(self, seconds: float) -> None:
        """Wait for a notification since the last call, at most that long."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_notified.wait()
        except TimeoutError:
            pass
        self._is_notified.clear()


class EventBus:
    def __init__(self) -> None:
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._lock = threading.Lock()
        self._pending: set[str] = set()  # runs whose subscriptions are to be notified
        self._loop: asyncio.AbstractEventLoop | None = None
        self.subscription_count = 0
        self.is_closed = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def publish(self, run_id: str) -> None:
        """Something about the run was committed. From any thread; costs next to nothing without subscriptions."""
        # A stream subscribes before it reads, so one that is missed here has yet to read.
        if run_id in self._subscriptions:
            with self._lock:
                is_scheduled = bool(self._pending)
                self._pending.add(run_id)
            if not is_scheduled:
                self._call(self._deliver)

    def has_subscribers(self, run_id: str) -> bool:
        """Whether a stream of this server follows the run."""
        return run_id in self._subscriptions

    def close(self) -> None:
        """End all streams; from any thread. Clients resume with another server, or with the next one here."""
        self.is_closed = True
        self._call(self._notify_all)

    def wake_all(self) -> None:
        """Let all streams check their token again; from any thread. Called after tokens were revoked."""
        self._call(self._notify_all)

    @contextmanager
    def subscribe(self, run_id: str) -> Iterator[Subscription]:
        subscription = Subscription()
        self._subscriptions.setdefault(run_id, set()).add(subscription)
        self.subscription_count += 1
        try:
            yield subscription
        finally:
            self.subscription_count -= 1
            same_run = self._subscriptions[run_id]
            same_run.discard(subscription)
            if not same_run:
                del self._subscriptions[run_id]

    def _call(self, act: Callable[[], None]) -> None:
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(act)
            except RuntimeError:
                pass  # the loop is closed, and all streams with it

    def _deliver(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, set()
        for run_id in pending:
            for subscription in self._subscriptions.get(run_id, ()):
                subscription.notify()

    def _notify_all(self) -> None:
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.notify()
