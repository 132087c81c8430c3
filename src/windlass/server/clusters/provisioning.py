"""Create, update and delete managed targets in the background.

Level-triggered: the state of each target is in the store, and every round goes on with those that are under way. A
restart needs nothing else, since all calls of a driver may be repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from windlass.core import backoff
from windlass.core.entities import Target
from windlass.core.errors import NotFound, WindlassError
from windlass.drivers.base import Driver, Managed, Provisioning, ProvisioningState
from windlass.server.security.secret_store import SERVER
from windlass.store import Store

log = logging.getLogger(__name__)

FIRST_WAIT = 1.0
LONGEST_WAIT = 15.0
LONGEST_WAIT_FAILING = 60.0


def takes_runs(target: Target) -> bool:
    return target.provisioning_state in (ProvisioningState.SUCCEEDED, ProvisioningState.UPDATING)


def was_never_created(target: Target) -> bool:
    """Whether its creation failed, so that runs would wait for it in vain."""
    return target.provisioning_state == ProvisioningState.FAILED and target.config_before is None


@dataclass(slots=True)
class _Wait:
    """When a target is due, after how many calls of the same operation."""

    state: str
    calls: int = 0
    failures: int = 0
    due: float = 0.0

    def count(self, has_failed: bool, now: float) -> None:
        self.calls += 1
        self.failures = self.failures + 1 if has_failed else 0
        longest = LONGEST_WAIT_FAILING if has_failed else LONGEST_WAIT
        self.due = now + backoff.delay(self.failures or self.calls, FIRST_WAIT, longest)


class Provisioner:
    def __init__(
        self,
        store: Store,
        driver: Callable[[str, Target], Driver[Any]],
        run_in_background: Callable[[Callable[[], None]], None],
        on_change: Callable[[str, str], None],
    ) -> None:
        """`on_change(workspace, name)` is called after a target is ready for runs, or gone."""
        self._store = store
        self._driver = driver
        self._run_in_background = run_in_background
        self._on_change = on_change
        self._under_way: set[tuple[str, str]] = set()
        self._waits: dict[tuple[str, str], _Wait] = {}

    def step(self) -> None:
        """Go on with every target that is due. Returns at once; the calls are made in the background."""
        found = {(workspace, target.name): target for workspace, target in self._store.targets.under_way()}
        for place in self._waits.keys() - found.keys():
            self._waits.pop(place, None)
        now = time.monotonic()
        for place, target in found.items():
            wait = self._waits.get(place)
            if wait is None or wait.state != target.provisioning_state:
                wait = self._waits[place] = _Wait(target.provisioning_state)
            if place not in self._under_way and wait.due <= now:
                self._under_way.add(place)
                self._run_in_background(partial(self._go_on, place, target, wait))

    def _go_on(self, place: tuple[str, str], target: Target, wait: _Wait) -> None:
        try:
            has_failed = self._advance(place[0], target)
            wait.count(has_failed, time.monotonic())
        except Exception:
            wait.count(True, time.monotonic())
            raise
        finally:
            self._under_way.discard(place)

    def _advance(self, workspace: str, target: Target) -> bool:
        """One call of the driver, and what it answered. True if the call failed and is to be retried."""
        before = ProvisioningState(target.provisioning_state)
        try:
            done = self._call(workspace, target, before)
        except WindlassError as e:
            if not e.transient:
                done = Provisioning(ProvisioningState.FAILED, e.message)
            else:
                log.warning("target=%s %s is retried: %s", target.name, before, e.message)
                self._note(workspace, target, before, e.message)
                return True
        except Exception as e:
            self._note(workspace, target, before, f"The driver failed: {type(e).__name__}. The server's log has more.")
            raise
        is_done = done.state is ProvisioningState.SUCCEEDED
        if is_done and before is ProvisioningState.DELETING:
            is_done = self._store.attachments.finish_deletion(workspace, target.name, SERVER)
        else:
            state = done.state if is_done or done.state is ProvisioningState.FAILED else before
            self._note(workspace, target, state, done.message)
        if is_done:
            log.info("target=%s %s has succeeded", target.name, before)
            self._on_change(workspace, target.name)
        return False

    def _call(self, workspace: str, target: Target, state: ProvisioningState) -> Provisioning:
        driver = self._driver(workspace, target)
        if not isinstance(driver, Managed):
            return Provisioning(ProvisioningState.FAILED, f"Targets of kind {target.kind} are not created any more.")
        match state:
            case ProvisioningState.CREATING:
                return driver.create()
            case ProvisioningState.UPDATING:
                return driver.update(target.config_before or {})
            case _:
                return driver.delete()

    def _note(self, workspace: str, target: Target, state: ProvisioningState, message: str) -> None:
        """What is stored only if no request has changed the target meanwhile."""
        if (target.provisioning_state, target.provisioning_message) == (state, message):
            return
        try:
            if not self._store.attachments.provision(workspace, target, state, message, SERVER):
                log.info("target=%s was changed meanwhile: %s is not stored", target.name, state)
        except NotFound:
            log.info("target=%s was removed meanwhile", target.name)
