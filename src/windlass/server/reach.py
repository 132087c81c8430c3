"""How the target of a run is reached: its row, remembered for a moment, and its driver."""

from __future__ import annotations

import time
from typing import Any

from windlass.core.entities import Run, Target
from windlass.core.errors import NotFound
from windlass.drivers.base import Driver
from windlass.server.jobs import Jobs
from windlass.store import Store

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
        made_for, driver = self._drivers.get((workspace, name), (None, None))
        if driver is None or made_for != target:
            driver = self._jobs.driver(target)
            self._drivers[workspace, name] = target, driver
        return driver

    def driver_of(self, run: Run) -> Driver[Any]:
        return self.driver(run.workspace, run.target)

    def _find(self, workspace: str, name: str) -> Target:
        try:
            return self._store.targets.get(workspace, name)
        except NotFound as e:
            known = ", ".join(target.name for target in self._store.targets.list(workspace))
            raise NotFound(f"There is no target {name!r} in workspace {workspace}.", f"Targets there: {known}.") from e
