"""Who is told of news from a machine, and of which jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from windlass.core.states import Phase
from windlass.drivers import _words
from windlass.drivers._frames import Body
from windlass.drivers.base import Event

Sink = Callable[[str, Event], None]


class Watch:
    """Kept among the links, so that it outlives pipes: a new one takes up where the last one broke."""

    is_open = True

    def __init__(self) -> None:
        self.sink: Sink | None = None
        self.skew = 0.0  # of the machine's clock
        self._jobs: set[str] = set()
        self._lock = threading.Lock()

    def close(self) -> None:
        self.sink = None

    def add(self, jobs: Iterable[str]) -> list[str]:
        """Watch these from now on; answers with those that were not watched before."""
        if self.sink is None:
            return []
        with self._lock:
            new = [job for job in jobs if job not in self._jobs]
            self._jobs.update(new)
            return new

    def remove(self, jobs: Iterable[str]) -> None:
        with self._lock:
            self._jobs.difference_update(jobs)

    def jobs(self) -> list[str]:
        with self._lock:
            return sorted(self._jobs)

    def tell(self, body: Body) -> None:
        """Pass on a frame that nobody asked for."""
        match body:
            case {"event": "grew", "job": str(job), "path": str(path), "size": int(size)} if job in self._jobs:
                known = _words.grown_path(path)
                if known is not None:
                    self._tell(job, Event("grew", known, size))
            case {"event": "changed", "job": str(job), "seen": dict(told)}:
                self._tell(job, Event("changed", seen=_words.observation(told, self.skew)))
            case {"event": "changed", "job": str(job)}:
                self._tell(job, Event("changed"))

    def tell_all(self) -> None:
        """Nobody knows what was missed: each of them may have changed."""
        for job in self.jobs():
            self._tell(job, Event("changed"))

    def _tell(self, job: str, event: Event) -> None:
        """Of jobs that it was not given, a machine is not believed: they may be somebody else's."""
        with self._lock:
            if job not in self._jobs:
                return
            if event.seen is not None and event.seen.phase is Phase.ENDED:
                self._jobs.discard(job)
        sink = self.sink
        if sink is not None:
            sink(job, event)
