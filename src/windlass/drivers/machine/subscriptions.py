"""Who is told of news from a machine, and of which jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from windlass.core.states import Phase
from windlass.drivers.base import Event, FileGrew, JobChanged
from windlass.drivers.machine import protocol
from windlass.drivers.machine.framing import Body

Sink = Callable[[str, Event], None]


class Watch:
    """Kept among the connections, so that it outlives pipes: a new one takes up where the last one broke."""

    is_open = True

    def __init__(self) -> None:
        self.sink: Sink | None = None
        self.skew = 0.0  # of the machine's clock
        self._jobs: dict[str, str] = {}  # with their nonces
        self._lock = threading.Lock()

    def close(self) -> None:
        self.sink = None

    def add(self, jobs: Mapping[str, str]) -> dict[str, str]:
        """Watch these jobs, given with their nonces, from now on; answers with those that were not watched before."""
        if self.sink is None:
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

    def tell(self, body: Body) -> None:
        """Pass on a frame that nobody asked for."""
        match body:
            case {"event": "grew", "job": str(job), "nonce": str(nonce), "path": str(path), "size": int(size)}:
                known = protocol.grown_path(path)
                if known is not None:
                    self._tell(job, nonce, FileGrew(known, size))
            case {"event": "changed", "job": str(job), "nonce": str(nonce), "seen": dict(told)}:
                self._tell(job, nonce, JobChanged(protocol.observation(told, self.skew)))
            case {"event": "changed", "job": str(job), "nonce": str(nonce)}:
                self._tell(job, nonce, JobChanged())

    def tell_all(self) -> None:
        """Nobody knows what was missed: each of them may have changed."""
        for job, nonce in self.jobs().items():
            self._tell(job, nonce, JobChanged())

    def _tell(self, job: str, nonce: str, event: Event) -> None:
        """Events about jobs that the machine was not given are ignored: they may be another server's."""
        with self._lock:
            if self._jobs.get(job) != nonce:
                return
            if isinstance(event, JobChanged) and event.observation and event.observation.phase is Phase.ENDED:
                del self._jobs[job]
        sink = self.sink
        if sink is not None:
            sink(job, event)
