"""How the target of a run is reached: its row, remembered for a moment, and its driver."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from windlass.core.entities import Run, Target
from windlass.core.errors import Conflict, NotFound, TargetQuarantined, WindlassError
from windlass.drivers.base import Attachable, Driver
from windlass.server.execution.job_builder import Jobs
from windlass.server.keystore import SERVER
from windlass.store import Store

log = logging.getLogger(__name__)

REMEMBER_SECONDS = 1.0


class Reach:
    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs
        self._lock = threading.Lock()  # of the change from one driver of a target to the next
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
            self._leave(workspace, name)
            raise TargetQuarantined(target.quarantine, f"If that is right: windlass compute trust {name}")
        with self._lock:
            made_for, former = self._drivers.get((workspace, name), (None, None))
            if former is not None and made_for == target:
                return former
            driver = self._jobs.driver(workspace, target)
            self._drivers[workspace, name] = target, driver
        if former is not None and made_for is not None and _way(made_for) != _way(target):
            former.leave()  # another server has changed it
        return driver

    def driver_of(self, run: Run) -> Driver[Any]:
        return self.driver(run.workspace, run.target)

    def forget(self, workspace: str, name: str) -> None:
        """The target is another one now, or none: what is open to it is closed."""
        self._targets.pop((workspace, name), None)
        self._leave(workspace, name)

    def look_again(self) -> None:
        """Close what is open to targets that another server changed or detached. Whoever is asked of them sees it too;
        but of those where nothing goes on, nobody is.
        """
        for workspace, name in list(self._drivers):
            try:
                self.driver(workspace, name)
            except WindlassError as e:
                log.info("target=%s is let go: %s", name, e.message)

    def slots(self, run: Run) -> int | None:
        """How many runs the target of this one takes at once; none, if it was detached meanwhile."""
        try:
            return self.target(run.workspace, run.target).slots
        except NotFound:
            return 0

    def note_trouble(self, workspace: str, name: str, trouble: WindlassError) -> None:
        """Put a target into quarantine that shows another identity than the pinned one: nothing is sent there any more.

        Unless another one was pinned meanwhile: the error may be about the former one.
        """
        known = self._targets.get((workspace, name), (None, 0.0))[0]
        if not isinstance(trouble, TargetQuarantined) or known is None or known.quarantine is not None:
            return
        if trouble.details.get("pin") != known.pin:
            return
        change = {"quarantine": trouble.message}
        try:
            self._store.attachments.change(workspace, known, change, SERVER, "target.quarantine")
            log.warning("target=%s is put into quarantine: %s", name, trouble.message)
        except (Conflict, NotFound):
            log.info("target=%s was changed or detached in this moment", name)
        self._targets.pop((workspace, name), None)

    def explained(self, workspace: str, name: str, trouble: WindlassError) -> WindlassError:
        """The error with the hint that fits how the target is opened."""
        _, driver = self._drivers.get((workspace, name), (None, None))
        return driver.explain(trouble) if isinstance(driver, Attachable) else trouble

    def _leave(self, workspace: str, name: str) -> None:
        _, driver = self._drivers.pop((workspace, name), (None, None))
        if driver is not None:
            driver.leave()

    def _find(self, workspace: str, name: str) -> Target:
        try:
            return self._store.targets.get(workspace, name)
        except NotFound as e:
            self.forget(workspace, name)
            known = [target.name for target in self._store.targets.list(workspace)]
            raise NotFound(
                f"There is no target {name!r} in workspace {workspace}.",
                f"Targets there: {', '.join(known)}.",
                {"targets": known},
            ) from e


def _way(target: Target) -> tuple[object, ...]:
    """What the connections to a target were made by."""
    return target.config, target.pin
