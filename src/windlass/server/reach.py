"""How the target of a run is reached: its row, remembered for a moment, and its driver."""

from __future__ import annotations

import logging
import time
from typing import Any

from windlass.core.entities import Run, Target
from windlass.core.errors import NotFound, TargetQuarantined, WindlassError
from windlass.drivers.base import Driver
from windlass.server.jobs import Jobs
from windlass.store import Store

log = logging.getLogger(__name__)

REMEMBER_SECONDS = 1.0


class Reach:
    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs
        self._targets: dict[tuple[str, str], tuple[Target, float]] = {}
        self._drivers: dict[tuple[str, str], tuple[Target, Driver[Any]]] = {}

    def target(self, workspace: str, name: str) -> Target:
        """The target of that name. A run's every step needs it."""
        known, since = self._targets.get((workspace, name), (None, 0.0))
        if known is None or time.monotonic() - since > REMEMBER_SECONDS:
            known = self._find(workspace, name)
            self._targets[workspace, name] = known, time.monotonic()
        return known

    def driver(self, workspace: str, name: str) -> Driver[Any]:
        target = self.target(workspace, name)
        if target.quarantine is not None:
            raise TargetQuarantined(target.quarantine, f"If that is right: windlass compute trust {name}")
        made_for, driver = self._drivers.get((workspace, name), (None, None))
        if driver is None or made_for != target:
            driver = self._jobs.driver(workspace, target)
            self._drivers[workspace, name] = target, driver
        return driver

    def driver_of(self, run: Run) -> Driver[Any]:
        return self.driver(run.workspace, run.target)

    def forget(self, workspace: str, name: str) -> None:
        """The target is another one now, or none: what is open to it is closed."""
        self._targets.pop((workspace, name), None)
        _, driver = self._drivers.pop((workspace, name), (None, None))
        if driver is not None:
            driver.leave()

    def slots(self, run: Run) -> int | None:
        """How many runs the target of this one takes at once; none, if it was detached meanwhile."""
        try:
            return self.target(run.workspace, run.target).slots
        except NotFound:
            return 0

    def note_trouble(self, run: Run, trouble: WindlassError) -> None:
        """A machine that is not the one that was attached gets nothing any more, until its owner has looked."""
        known = self._targets.get((run.workspace, run.target), (None, 0.0))[0]
        if isinstance(trouble, TargetQuarantined) and known is not None and known.quarantine is None:
            log.warning("target=%s is put into quarantine: %s", run.target, trouble.message)
            self._store.targets.quarantine(run.workspace, run.target, trouble.message)
            self._targets.pop((run.workspace, run.target), None)

    def _find(self, workspace: str, name: str) -> Target:
        try:
            return self._store.targets.get(workspace, name)
        except NotFound as e:
            known = ", ".join(target.name for target in self._store.targets.list(workspace))
            raise NotFound(f"There is no target {name!r} in workspace {workspace}.", f"Targets there: {known}.") from e
