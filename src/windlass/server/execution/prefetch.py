"""Runs that wait for a slot are brought to their target and made ready there, to begin as soon as one is free.

Only a hint: nothing is executed, and the store knows nothing of it. What was made ready for a run that is not started
after all is cleaned up; a server that dies leaves that to its machines.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time

from windlass.core.entities import Run, Target
from windlass.core.errors import NotFound, WindlassError
from windlass.core.states import RunState
from windlass.drivers.base import Handle, Job, Plan
from windlass.server.execution.driver_cache import Reach
from windlass.server.execution.job_builder import Jobs, is_elsewhere
from windlass.store import Leased, Store

log = logging.getLogger(__name__)

MOST = 8  # of one target
PAUSE = 0.02  # seconds: a script that has just begun has its machine for itself while it starts


class Ahead:
    def __init__(self, store: Store, jobs: Jobs, reach: Reach) -> None:
        self._store = store
        self._jobs = jobs
        self._reach = reach
        self._lock = threading.Lock()
        self._looked_at: set[tuple[str, str]] = set()
        self._ready: dict[str, tuple[Leased, Plan]] = {}

    def is_ready(self, run_id: str) -> bool:
        return run_id in self._ready

    def take(self, leased: Leased) -> Plan | None:
        """It is being started: the plan by which it was made ready, if it was."""
        ready = self._ready.get(leased.run.id)
        if ready is None:
            return None
        granted = self._jobs.grants.open(leased)
        self._ready.pop(leased.run.id, None)  # which tidy may have done by now: it waits no more
        plan = ready[1]
        return dataclasses.replace(plan, job=dataclasses.replace(plan.job, fence=leased.fence, granted=granted))

    def look(self, workspace: str, name: str) -> None:
        """Make ready who is next on a target. One look at a time: who comes meanwhile has nothing to add."""
        with self._lock:
            if (workspace, name) in self._looked_at:
                return
            self._looked_at.add((workspace, name))
        try:
            time.sleep(PAUSE)
            self._look(self._reach.target(workspace, name), workspace)
        except WindlassError as e:  # then it is done when it is started
            log.info("target=%s: what waits for it was not made ready: %s", name, e.message)
        finally:
            self._looked_at.discard((workspace, name))

    def tidy(self) -> None:
        """Forget those that do not wait any more; what was never started is removed from its target."""
        for leased, plan in list(self._ready.values()):
            try:
                self._tidy(leased.run, plan.job)
            except WindlassError as e:
                log.info("run=%s is still made ready, for nothing: %s", leased.run.id, e.message)

    def _look(self, target: Target, workspace: str) -> None:
        if not target.slots or is_elsewhere(target):
            return
        for leased in self._store.runs.waiting(workspace, target.name, min(target.slots, MOST), self._ready):
            self._prepare(leased)

    def _prepare(self, leased: Leased) -> None:
        driver = self._reach.driver_of(leased.run)
        plan = driver.plan(self._jobs.outline(leased))
        driver.prepare(plan)
        self._ready[leased.run.id] = leased, plan

    def _tidy(self, waited: Run, job: Job) -> None:
        try:
            run = self._store.runs.get(waited.workspace, waited.id)
        except NotFound:
            run = None
        if run is not None and run.state is RunState.QUEUED:
            return
        was_started = run is not None and (not run.is_final or self._store.runs.attempts(run.id)[-1].handle is not None)
        if not was_started:
            driver = self._reach.driver_of(waited)
            driver.clean(Handle(driver.kind, job.id, job.nonce))
        self._ready.pop(waited.id, None)
