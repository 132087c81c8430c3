"""Pre-staging: queued runs are sent to their target before they have a slot, and start there as soon as they get one.

Only a hint. Nothing is executed, and the store has no record of it. What was pre-staged for a run that is not started
after all is removed; what a killed server leaves is removed by the machines themselves. All of pre-staging on the
server is in this module; the rest of it is in the drivers' prepare() and the runner.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time

from windlass import drivers
from windlass.core.entities import Run, Target
from windlass.core.errors import NotFound, WindlassError
from windlass.core.states import RunState
from windlass.drivers.base import Handle, Job, Plan, Scalable
from windlass.server.execution.driver_cache import DriverCache
from windlass.server.execution.job_builder import JobBuilder, allocation_of, is_elsewhere
from windlass.store import Leased, Store

log = logging.getLogger(__name__)

MOST = 8  # of one target
PAUSE = 0.02  # seconds: a script that was just started has the machine for itself while it imports


class Prefetcher:
    def __init__(self, store: Store, jobs: JobBuilder, drivers: DriverCache) -> None:
        self._store = store
        self._jobs = jobs
        self._drivers = drivers
        self._lock = threading.Lock()
        self._under_way: set[tuple[str, str]] = set()
        self._ready: dict[str, tuple[Leased, Plan]] = {}

    def is_ready(self, run_id: str) -> bool:
        """Whether a run is pre-staged: its start is only a signal, which is sent before other work."""
        return run_id in self._ready

    def plan(self, leased: Leased) -> Plan:
        """The plan to start a run with: the one that it was pre-staged with, or a new one."""
        ready = self._ready.get(leased.run.id)
        if ready is None or ready[0].run.attempt != leased.run.attempt:
            return self._drivers.driver_of(leased.run).plan(self._jobs.with_secret_values(leased))
        granted = self._jobs.run_secrets.open(leased)
        self._ready.pop(
            leased.run.id, None
        )  # evict() may have done that meanwhile, since the run is not queued any more
        plan = ready[1]
        job = dataclasses.replace(plan.job, fence=leased.fence, granted=granted, allocation=allocation_of(leased))
        return dataclasses.replace(plan, job=job)

    def prefetch(self, workspace: str, name: str) -> None:
        """Pre-stage the next queued runs of a target. Does nothing if that is under way already."""
        with self._lock:
            if (workspace, name) in self._under_way:
                return
            self._under_way.add((workspace, name))
        try:
            time.sleep(PAUSE)
            self._prefetch(self._drivers.target(workspace, name), workspace)
        except WindlassError as e:  # they are sent at their start instead
            log.info("target=%s prefetch failed: %s", name, e.message)
        finally:
            self._under_way.discard((workspace, name))

    def evict(self) -> None:
        """Drop runs that are not queued any more, and remove from their target the files of those never started."""
        for leased, plan in list(self._ready.values()):
            try:
                self._evict(leased.run, plan.job)
            except WindlassError as e:
                log.info("run=%s eviction of prefetched files failed, retry later: %s", leased.run.id, e.message)

    def _prefetch(self, target: Target, workspace: str) -> None:
        scales = issubclass(drivers.load(target.kind), Scalable)
        if not (target.slots or scales) or is_elsewhere(target):
            return
        for leased in self._store.runs.waiting(workspace, target.name, min(target.slots or MOST, MOST), self._ready):
            driver = self._drivers.driver_of(leased.run)
            plan = driver.plan(self._jobs.without_secret_values(leased))
            driver.prepare(plan)
            self._ready[leased.run.id] = leased, plan

    def _evict(self, queued: Run, job: Job) -> None:
        try:
            run = self._store.runs.get(queued.workspace, queued.id)
        except NotFound:
            run = None
        if run is not None and run.state is RunState.QUEUED and run.attempt == queued.attempt:
            return
        if run is None or (run.is_final and not self._was_started(queued)):
            driver = self._drivers.driver_of(queued)
            driver.clean(Handle(driver.kind, job.id, job.nonce))
        self._ready.pop(queued.id, None)

    def _was_started(self, queued: Run) -> bool:
        attempts = self._store.runs.attempts(queued.id)
        return any(attempt.number == queued.attempt and attempt.handle is not None for attempt in attempts)
