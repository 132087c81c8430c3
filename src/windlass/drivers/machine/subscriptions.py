"""Subscriptions to the events of jobs: which jobs are watched over which connection, and the sink for their events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from windlass.core.states import Phase
from windlass.drivers.base import Event, FileGrew, JobChanged
from windlass.drivers.machine import protocol
from windlass.drivers.machine.framing import Body

Sink = Callable[[str, Event], None]


class Subscriptions:
    """Event sink of a target, and a feed for each of its connections.

    Kept in the connection pool under a key of its own, so that it outlives connections: a new connection continues with
    the feed of the previous one.
    """

    is_open = True

    def __init__(self) -> None:
        self.sink: Sink | None = None
        self._feeds: dict[str, Feed] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self.sink = None

    def feed(self, key: str) -> Feed:
        """The feed of a connection, by the connection's key."""
        with self._lock:
            return self._feeds.setdefault(key, Feed(self))

    def drop(self, key: str) -> None:
        with self._lock:
            self._feeds.pop(key, None)

    def keys(self) -> list[str]:
        with self._lock:
            return list(self._feeds)


class Feed:
    """Jobs that are watched over one connection."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.skew = 0.0  # seconds by which our clock is ahead of the machine's
        self._subscriptions = subscriptions
        self._jobs: dict[str, str] = {}  # with their nonces
        self._lock = threading.Lock()

    def add(self, jobs: Mapping[str, str]) -> dict[str, str]:
        """Watch these jobs, given with their nonces, from now on; returns those that were not watched before."""
        if self._subscriptions.sink is None:
            return {}
        with self._lock:
            new = {job: nonce for job, nonce in jobs.items() if self._jobs.get(job) != nonce}
            self._jobs.update(new)
            return new

    def remove(self, jobs: Iterable[str]) -> None:
        with self._lock:
            for job in jobs:
                self._jobs.pop(job, None)

    def jobs(self) -> dict[str, str]:
        with self._lock:
            return dict(self._jobs)

    def publish(self, body: Body) -> None:
        """Parse an event of the host and pass it to the sink."""
        match body:
            case {"event": "file_grew", "job": str(job), "nonce": str(nonce), "path": str(path), "size": int(size)}:
                known = protocol.grown_path(path)
                if known is not None:
                    self._publish(job, nonce, FileGrew(known, size))
            case {"event": "job_changed", "job": str(job), "nonce": str(nonce), "seen": dict(seen)}:
                self._publish(job, nonce, JobChanged(protocol.observation(seen, self.skew)))
            case {"event": "job_changed", "job": str(job), "nonce": str(nonce)}:
                self._publish(job, nonce, JobChanged())

    def publish_all(self) -> None:
        """Send JobChanged for every job: after a reconnect, events may have been lost."""
        for job, nonce in self.jobs().items():
            self._publish(job, nonce, JobChanged())

    def _publish(self, job: str, nonce: str, event: Event) -> None:
        """Pass an event to the sink. Events of jobs that are not watched are dropped: they may be another server's."""
        with self._lock:
            if self._jobs.get(job) != nonce:
                return
            if isinstance(event, JobChanged) and event.observation and event.observation.phase is Phase.ENDED:
                del self._jobs[job]
        sink = self._subscriptions.sink
        if sink is not None:
            sink(job, event)
