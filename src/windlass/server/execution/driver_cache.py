"""Cache of target rows and of drivers, one per target. Drivers that push events are subscribed to here."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from windlass.core.entities import Run, Target
from windlass.core.errors import Conflict, NotFound, TargetQuarantined, WindlassError
from windlass.drivers.base import Attachable, Driver, Event, Watcher
from windlass.server.execution.job_builder import JobBuilder
from windlass.server.execution.tracked_run import TargetKey
from windlass.server.security.secret_store import SERVER
from windlass.store import Store

log = logging.getLogger(__name__)

CACHE_SECONDS = 1.0

OnEvent = Callable[[str, Event], None]
OnContact = Callable[[TargetKey, WindlassError | None], None]


class DriverCache:
    def __init__(
        self,
        store: Store,
        jobs: JobBuilder,
        on_event: OnEvent = lambda native_id, event: None,
        on_contact: OnContact = lambda target, error: None,
    ) -> None:
        """`on_event` gets what targets push. `on_contact` is called with each answer of a target, and each error."""
        self._store = store
        self._jobs = jobs
        self._on_event = on_event
        self._on_contact = on_contact
        self._lock = threading.Lock()  # held while the driver of a target is replaced
        self._targets: dict[TargetKey, tuple[Target, float]] = {}
        self._drivers: dict[TargetKey, tuple[Target, Driver[Any]]] = {}

    def target(self, workspace: str, name: str) -> Target:
        """The row of a target, at most a second old."""
        known, since = self._targets.get((workspace, name), (None, 0.0))
        if known is None or time.monotonic() - since > CACHE_SECONDS:
            known = self._load(workspace, name)
            self._targets[workspace, name] = known, time.monotonic()
        return known

    def driver(self, workspace: str, name: str) -> Driver[Any]:
        """The driver of a target; TargetQuarantined if nothing may be sent there."""
        target = self.target(workspace, name)
        if target.quarantine is not None:
            self._close(workspace, name)
            raise TargetQuarantined(target.quarantine, f"If that is right: windlass compute trust {name}")
        with self._lock:
            made_for, former = self._drivers.get((workspace, name), (None, None))
            if former is not None and made_for == target:
                return former
            driver = self._jobs.driver(workspace, target)
            self._drivers[workspace, name] = target, driver
        if former is not None and made_for is not None and _connects_by(made_for) != _connects_by(target):
            former.leave()  # another server has changed the target
        return driver

    def driver_of(self, run: Run) -> Driver[Any]:
        return self.driver(run.workspace, run.target)

    def watched_driver_of(self, run: Run) -> Driver[Any]:
        """The driver of a run's target, subscribed to its events."""
        driver = self.driver_of(run)
        if isinstance(driver, Watcher):
            driver.watch(self._on_event)
        return driver

    def invalidate(self, workspace: str, name: str) -> None:
        """Drop the row and the driver of a target that was changed or detached, and close its connections."""
        self._targets.pop((workspace, name), None)
        self._close(workspace, name)

    def refresh(self, workspace: str, name: str) -> None:
        """Read the row of a target again. Its connections stay, unless they were made with other settings, or the
        target is gone: then NotFound is raised.
        """
        self._targets[workspace, name] = self._load(workspace, name), time.monotonic()

    def close_stale(self) -> None:
        """Close connections to targets that another server changed or detached. Targets in use are checked at each
        use; this is for the others.
        """
        for workspace, name in list(self._drivers):
            try:
                self.driver(workspace, name)
            except WindlassError as e:
                log.info("target=%s connections are closed: %s", name, e.message)

    def report_contact(self, target: TargetKey, error: WindlassError | None) -> None:
        """A target answered, or a call to it failed."""
        self._on_contact(target, error)
        if isinstance(error, TargetQuarantined):
            self._quarantine(*target, error)

    def with_login_hint(self, workspace: str, name: str, error: WindlassError) -> WindlassError:
        """The error with the hint that fits how the target is opened."""
        _, driver = self._drivers.get((workspace, name), (None, None))
        return driver.explain(error) if isinstance(driver, Attachable) else error

    def _quarantine(self, workspace: str, name: str, error: TargetQuarantined) -> None:
        """Put a target into quarantine that showed another identity than the pinned one: nothing is sent there until a
        person has confirmed it. Unless another identity was pinned meanwhile: the error may be about the former one.
        """
        known = self._targets.get((workspace, name), (None, 0.0))[0]
        if known is None or known.quarantine is not None or error.details.get("pin") != known.pin:
            return
        change = {"quarantine": error.message}
        try:
            self._store.attachments.change(workspace, known, change, SERVER, "target.quarantine")
            log.warning("target=%s is put into quarantine: %s", name, error.message)
        except (Conflict, NotFound):
            log.info("target=%s was changed or detached meanwhile; it is not put into quarantine", name)
        self._targets.pop((workspace, name), None)

    def _close(self, workspace: str, name: str) -> None:
        _, driver = self._drivers.pop((workspace, name), (None, None))
        if driver is not None:
            driver.leave()

    def _load(self, workspace: str, name: str) -> Target:
        try:
            return self._store.targets.get(workspace, name)
        except NotFound as e:
            self.invalidate(workspace, name)
            known = [target.name for target in self._store.targets.list(workspace)]
            raise NotFound(
                f"There is no target {name!r} in workspace {workspace}.",
                f"Targets there: {', '.join(known)}.",
                {"targets": known},
            ) from e


def _connects_by(target: Target) -> tuple[object, ...]:
    """What the connections to a target were made with."""
    return target.config, target.pin
