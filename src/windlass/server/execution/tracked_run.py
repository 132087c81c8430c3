"""What this server knows of the runs that it holds a lease on, beyond what the store remembers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from windlass.core.entities import Run, RunSpec
from windlass.core.states import Observation, Phase, Step
from windlass.drivers.base import Event, FileGrew, Handle
from windlass.server.execution.ingest_limits import RunBudget
from windlass.store import Leased

# Files of one run that grew since a worker last looked. The others are read when they grow again, or at the end.
MOST_GROWN = 1000
MOST_GROWN_BYTES = 100_000
# An end with more files is not remembered with them: the target is asked for the list when it is needed.
MANY_FILES = 1000


def handle_of(row: Mapping[str, Any], nonce: str) -> Handle:
    """The handle in a stored row, of an attempt that has this nonce."""
    return Handle(**row, nonce=nonce)


def row_of(handle: Handle) -> dict[str, Any]:
    return {"kind": handle.kind, "native_id": handle.native_id, "version": handle.version, "data": dict(handle.data)}


@dataclass(slots=True)
class Tracked:
    """One leased run. Only the worker that holds it changes it, except for the news, which any thread may bring."""

    run: Run
    spec: RunSpec
    fence: int
    nonce: str
    handle: Handle | None
    is_adopted: bool  # its target may have it already: another server may have sent it, or we did and heard nothing
    is_handle_saved: bool = False
    heard: float = field(default_factory=time.monotonic)
    stop_sent: float = 0.0
    tries: int = 0
    end: tuple[Step, Observation] | None = None  # how it was seen to end; its record is not whole yet
    has_left: bool = False  # its slot to somebody
    is_finishing: bool = False
    grown: dict[str, int] = field(default_factory=dict)
    grown_bytes: int = 0  # of the paths
    budget: RunBudget = field(default_factory=RunBudget)
    reported: str = ""  # the message of its target while the script runs
    is_out_of_room: bool = False  # its record could not be kept because the server's disk is full
    is_changed: bool = False
    told: Observation | None = None  # what it changed to, if the target said so
    is_stale: bool = False

    @property
    def job_id(self) -> str:
        return f"{self.run.id}.{self.run.attempt}"

    @property
    def place(self) -> tuple[str, str]:
        """Workspace and target: which lane its work goes by."""
        return self.run.workspace, self.run.target

    @property
    def silence(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self.heard)

    @property
    def unsaved_handle(self) -> dict[str, Any] | None:
        return None if self.handle is None or self.is_handle_saved else row_of(self.handle)

    @property
    def leased(self) -> Leased:
        return Leased(self.run, self.spec, self.fence, self.nonce, None)


def _note_growth(tracked: Tracked, event: FileGrew) -> None:
    if event.path not in tracked.grown:
        if len(tracked.grown) >= MOST_GROWN or tracked.grown_bytes + len(event.path) > MOST_GROWN_BYTES:
            return
        tracked.grown_bytes += len(event.path)
    tracked.grown[event.path] = event.size


class News(NamedTuple):
    """What came in since somebody last looked: files that grew, whether the job changed, whether its row did."""

    grown: list[str]
    is_changed: bool
    told: Observation | None
    is_stale: bool


class Tracking:
    """The leased runs by id and by the target's own id, and which of them a worker holds at the moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, Tracked] = {}
        self._by_native: dict[str, str] = {}
        self._held: set[str] = set()
        self._again: set[str] = set()

    def add(self, tracked: Tracked) -> None:
        with self._lock:
            known = self._runs.get(tracked.run.id)
            if known is not None and known.fence > tracked.fence:
                return  # an older lease, told late
            self._runs[tracked.run.id] = tracked
            self._by_native[tracked.job_id] = tracked.run.id
            if tracked.handle is not None:
                self._by_native[tracked.handle.native_id] = tracked.run.id

    def name(self, native_id: str, tracked: Tracked) -> None:
        with self._lock:
            self._by_native[native_id] = tracked.run.id

    def remove(self, run_id: str) -> bool:
        """Forget a run; whether it was here."""
        with self._lock:
            tracked = self._runs.pop(run_id, None)
            if tracked is None:
                return False
            self._by_native.pop(tracked.job_id, None)
            if tracked.handle is not None:
                self._by_native.pop(tracked.handle.native_id, None)
            return True

    def get(self, run_id: str) -> Tracked | None:
        with self._lock:
            return self._runs.get(run_id)

    def all(self) -> list[Tracked]:
        with self._lock:
            return list(self._runs.values())

    def hear(self, native_id: str, event: Event) -> str | None:
        """Note an unasked-for word from a target; returns the run that it is about."""
        with self._lock:
            run_id = self._by_native.get(native_id)
            tracked = self._runs.get(run_id) if run_id else None
            if tracked is None:
                return None
            if isinstance(event, FileGrew):
                _note_growth(tracked, event)
                return run_id
            tracked.is_changed = True
            if event.observation is not None and len(event.observation.files) > MANY_FILES:
                return run_id
            if tracked.told is None or tracked.told.phase is not Phase.ENDED:  # which is the last word
                tracked.told = event.observation
            return run_id

    def take_news(self, tracked: Tracked) -> News:
        with self._lock:
            news = News(list(tracked.grown), tracked.is_changed, tracked.told, tracked.is_stale)
            tracked.grown.clear()
            tracked.grown_bytes = 0
            tracked.is_changed = tracked.is_stale = False
            tracked.told = None
            return news

    def hold(self, run_id: str) -> bool:
        """Whether the caller may work on the run now; if somebody else does, they will look again."""
        with self._lock:
            if run_id not in self._runs:
                return False
            if run_id in self._held:
                self._again.add(run_id)
                return False
            self._held.add(run_id)
            return True

    def let_go(self, run_id: str) -> bool:
        """Whether there was news in the meantime, so that the holder must go on."""
        with self._lock:
            if run_id in self._again and run_id in self._runs:
                self._again.discard(run_id)
                return True
            self._again.discard(run_id)
            self._held.discard(run_id)
            return False
