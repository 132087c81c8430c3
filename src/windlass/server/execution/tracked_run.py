"""The runs that this server has leased: their in-memory state beyond the store, and the inbox of events of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from windlass.core.entities import Allocation, Run, RunSpec
from windlass.core.states import Observation, Phase, Step
from windlass.drivers.base import Event, FileGrew, Handle, JobChanged
from windlass.server.execution.ingest_limits import RunBudget
from windlass.store import Leased

# Paths of one run's grown files that wait in its inbox. The others are read when they grow again, or at the end.
MOST_GROWN = 1000
MOST_GROWN_BYTES = 100_000
# An observation with more files is not kept in an inbox: the target is asked for the list when it is needed.
MANY_FILES = 1000

TargetKey = tuple[str, str]  # workspace and name


def handle_of(row: Mapping[str, Any], nonce: str) -> Handle:
    """The handle in a stored row, of an attempt that has this nonce."""
    return Handle(**row, nonce=nonce)


def row_of(handle: Handle) -> dict[str, Any]:
    return {"kind": handle.kind, "native_id": handle.native_id, "version": handle.version, "data": dict(handle.data)}


@dataclass(frozen=True, slots=True)
class RowChanged:
    """The run's row in the store was changed by a request or another server, such as by a cancel."""


RunEvent = Event | RowChanged


class Events(NamedTuple):
    """All events that were in an inbox: one FileGrew per path, the last JobChanged, RowChanged if there was one."""

    grown: tuple[FileGrew, ...] = ()
    job: JobChanged | None = None
    row: RowChanged | None = None


class Inbox:
    """The events of one run that no thread has processed yet. Any thread may put one. Its size is bounded, whatever a
    target sends: events of the same kind, and of the same file, are merged.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._grown: dict[str, FileGrew] = {}
        self._grown_bytes = 0  # of the paths
        self._job: JobChanged | None = None
        self._row: RowChanged | None = None

    def put(self, event: RunEvent) -> None:
        with self._lock:
            if isinstance(event, FileGrew):
                self._put_growth(event)
            elif isinstance(event, JobChanged):
                self._put_change(event)
            else:
                self._row = event

    def take(self) -> Events:
        """Empty the inbox."""
        with self._lock:
            events = Events(tuple(self._grown.values()), self._job, self._row)
            self._grown.clear()
            self._grown_bytes = 0
            self._job = self._row = None
            return events

    @property
    def is_empty(self) -> bool:
        with self._lock:
            return not self._grown and self._job is None and self._row is None

    def _put_growth(self, event: FileGrew) -> None:
        if event.path not in self._grown:
            if len(self._grown) >= MOST_GROWN or self._grown_bytes + len(event.path) > MOST_GROWN_BYTES:
                return
            self._grown_bytes += len(event.path)
        self._grown[event.path] = event

    def _put_change(self, event: JobChanged) -> None:
        if _is_end(self._job):
            return  # a job that has ended changes no more
        if event.observation is not None and len(event.observation.files) > MANY_FILES:
            event = JobChanged()
        self._job = event


def _is_end(event: JobChanged | None) -> bool:
    return event is not None and event.observation is not None and event.observation.phase is Phase.ENDED


@dataclass(slots=True)
class TrackedRun:
    """One leased run. Only the thread that has acquired it changes it; any thread may put events into its inbox."""

    run: Run
    spec: RunSpec
    fence: int
    nonce: str
    handle: Handle | None
    may_be_on_target: bool  # another server may have started it, or we did and got no answer
    is_handle_saved: bool = False
    last_contact: float = field(default_factory=time.monotonic)
    stop_sent: float = 0.0
    failures: int = 0  # passes that failed, in a row
    pending_end: tuple[Step, Observation] | None = None  # how it ended; its outputs are not collected yet
    is_freed: bool = False  # other runs have what it had of its target; its outputs are still being collected
    is_finishing: bool = False  # in the background
    budget: RunBudget = field(default_factory=RunBudget)
    target_message: str = ""  # what its target reports while the script runs
    is_out_of_room: bool = False  # its record could not be stored because the server's disk is full
    inbox: Inbox = field(default_factory=Inbox)
    allocation: Allocation = Allocation()

    @property
    def job_id(self) -> str:
        return f"{self.run.id}.{self.run.attempt}"

    @property
    def target(self) -> TargetKey:
        return self.run.workspace, self.run.target

    @property
    def silence(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self.last_contact)

    @property
    def unsaved_handle(self) -> dict[str, Any] | None:
        return None if self.handle is None or self.is_handle_saved else row_of(self.handle)

    @property
    def leased(self) -> Leased:
        return Leased(self.run, self.spec, self.fence, self.nonce, None, self.allocation)


class TrackedRuns:
    """The leased runs by id and by the target's own id, and which of them a thread has acquired."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, TrackedRun] = {}
        self._by_native_id: dict[str, TrackedRun] = {}
        self._acquired: set[str] = set()
        self._again: set[str] = set()  # acquired runs that another thread tried to acquire

    def track(self, leased: Leased, may_be_on_target: bool) -> None:
        """Track a run from now on. `may_be_on_target`: another server may have started it, so it is observed first."""
        handle = handle_of(leased.handle, leased.nonce) if leased.handle else None
        is_saved = handle is not None
        tracked = TrackedRun(leased.run, leased.spec, leased.fence, leased.nonce, handle, may_be_on_target, is_saved)
        tracked.allocation = leased.allocation
        if may_be_on_target:
            tracked.inbox.put(JobChanged())
        self.add(tracked)

    def add(self, tracked: TrackedRun) -> None:
        with self._lock:
            known = self._runs.get(tracked.run.id)
            if known is not None and known.fence > tracked.fence:
                return  # an older lease, delivered late
            self._runs[tracked.run.id] = tracked
            self._by_native_id[tracked.job_id] = tracked
            if tracked.handle is not None:
                self._by_native_id[tracked.handle.native_id] = tracked

    def add_native_id(self, native_id: str, tracked: TrackedRun) -> None:
        with self._lock:
            self._by_native_id[native_id] = tracked

    def remove(self, tracked: TrackedRun) -> bool:
        """Stop tracking an attempt of a run; whether it was tracked. The next attempt of the same run stays."""
        with self._lock:
            native_ids = [tracked.job_id] if tracked.handle is None else [tracked.job_id, tracked.handle.native_id]
            for native_id in native_ids:
                if self._by_native_id.get(native_id) is tracked:
                    del self._by_native_id[native_id]
            if self._runs.get(tracked.run.id) is not tracked:
                return False
            del self._runs[tracked.run.id]
            return True

    def get(self, run_id: str) -> TrackedRun | None:
        with self._lock:
            return self._runs.get(run_id)

    def find(self, native_id: str) -> TrackedRun | None:
        """The run that a target's event is about; None if it is not tracked, or in another attempt by now."""
        with self._lock:
            tracked = self._by_native_id.get(native_id)
            return tracked if tracked is not None and self._runs.get(tracked.run.id) is tracked else None

    def all(self) -> list[TrackedRun]:
        with self._lock:
            return list(self._runs.values())

    def acquire(self, run_id: str) -> bool:
        """Whether the caller may process the run now. If another thread does, that one makes another pass."""
        with self._lock:
            if run_id not in self._runs:
                return False
            if run_id in self._acquired:
                self._again.add(run_id)
                return False
            self._acquired.add(run_id)
            return True

    def release(self, run_id: str) -> bool:
        """False if another pass was asked for meanwhile: then the caller still has the run, and makes it."""
        with self._lock:
            if run_id in self._again and run_id in self._runs:
                self._again.discard(run_id)
                return False
            self._again.discard(run_id)
            self._acquired.discard(run_id)
            return True
