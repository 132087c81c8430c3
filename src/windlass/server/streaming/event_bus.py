"""In-process event bus: wakes the streams that follow a run or a workspace when something about it was committed.

A notification carries no data: each stream reads what is new. Which runs of a workspace changed last is kept in memory,
for the streams of one server that has the database for itself.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MOST_CHANGES = 1000  # that are kept of a workspace


@dataclass(frozen=True, slots=True)
class OfWorkspace:
    """What streams of a workspace subscribe to; those of a run subscribe to its id."""

    name: str


Topic = str | OfWorkspace


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


class RecentChanges:
    """The runs of a workspace that changed last, in order. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: deque[tuple[str | None, float]] = deque(maxlen=MOST_CHANGES)
        self._count = 0

    @property
    def count(self) -> int:
        """The position after the last change."""
        return self._count

    def add(self, run_id: str | None) -> None:
        """None: any run may have changed."""
        with self._lock:
            self._changes.append((run_id, time.monotonic()))
            self._count += 1

    def before(self, seconds: float) -> int:
        """The position of so many seconds ago, as far back as changes are kept."""
        since = time.monotonic() - seconds
        with self._lock:
            return self._count - sum(at >= since for _, at in self._changes)

    def since(self, position: int) -> tuple[list[str] | None, int]:
        """The runs that changed after a position, None if any may have, and the position after them."""
        with self._lock:
            missed = self._count - position
            if missed > len(self._changes) or missed < 0:
                return None, self._count
            ids = [id for id, _ in list(self._changes)[len(self._changes) - missed :]]
            known = [id for id in dict.fromkeys(ids) if id is not None]
            return (None if None in ids else known), self._count


class EventBus:
    def __init__(self) -> None:
        self.id = secrets.token_hex(4)  # positions in changes are good for this bus only
        self._subscriptions: dict[Topic, set[Subscription]] = {}
        self._changes: dict[str, RecentChanges] = {}
        self._lock = threading.Lock()
        self._pending: set[Topic] = set()  # those whose subscriptions are to be notified
        self._loop: asyncio.AbstractEventLoop | None = None
        self.subscription_count = 0
        self.is_closed = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def publish(self, run_id: str) -> None:
        """Something about the run was committed that only its own streams show, such as lines of its log. From any
        thread; costs next to nothing without subscriptions.
        """
        self._notify(run_id)

    def publish_change(self, workspace: str, run_id: str | None) -> None:
        """Something about the run was committed that lists show: its state, its labels, its metrics; or it was made or
        deleted. None: any run of the workspace may have changed. From any thread.
        """
        self.changes(workspace).add(run_id)
        self._notify(OfWorkspace(workspace))
        if run_id is not None:
            self._notify(run_id)

    def changes(self, workspace: str) -> RecentChanges:
        found = self._changes.get(workspace)
        return found if found is not None else self._changes.setdefault(workspace, RecentChanges())

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
    def subscribe(self, topic: Topic) -> Iterator[Subscription]:
        subscription = Subscription()
        self._subscriptions.setdefault(topic, set()).add(subscription)
        self.subscription_count += 1
        try:
            yield subscription
        finally:
            self.subscription_count -= 1
            same = self._subscriptions[topic]
            same.discard(subscription)
            if not same:
                del self._subscriptions[topic]

    def _notify(self, topic: Topic) -> None:
        # A stream subscribes before it reads, so one that is missed here has yet to read.
        if topic in self._subscriptions:
            with self._lock:
                is_scheduled = bool(self._pending)
                self._pending.add(topic)
            if not is_scheduled:
                self._call(self._deliver)

    def _call(self, act: Callable[[], None]) -> None:
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(act)
            except RuntimeError:
                pass  # the loop is closed, and all streams with it

    def _deliver(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, set()
        for topic in pending:
            for subscription in self._subscriptions.get(topic, ()):
                subscription.notify()

    def _notify_all(self) -> None:
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.notify()
