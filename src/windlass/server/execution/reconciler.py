"""The loop that makes every restart a normal event: lease, start or observe, decide, advance.

Level-triggered: every target is asked about all its runs again and again, whatever was told in between. What is to be
done about one run is done by the workers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pydantic import SecretStr

from windlass import drivers
from windlass.core.entities import RunSpec, Snapshot, SnapshotFile, Target
from windlass.core.errors import Conflict, NotFound, ServerUnavailable, SpecNotSupported, StorageFull, WindlassError
from windlass.core.states import Intent, Reason, RunState, Step
from windlass.drivers.base import Driver, EnvironmentCache, HasNodes, Health, Node, Plan
from windlass.server.execution.dispatcher import Workers
from windlass.server.execution.folder_cleanup import SWEEP_EVERY
from windlass.server.execution.job_builder import Jobs, StoredBundle, is_elsewhere
from windlass.server.execution.provisioning import Provisioner, takes_runs, was_never_created
from windlass.server.execution.target_probe import GivenSecrets
from windlass.server.execution.tracked_run import Tracked
from windlass.server.hub import Hub
from windlass.server.settings import Settings
from windlass.store import Leased, NewRun, Store

log = logging.getLogger(__name__)

TICK = 0.5
WISHES_EVERY = 1.0
ASK_EVERY = 10.0  # seconds between two questions to a target that also tells
ADMIT_EVERY = 5.0
PROVISION_EVERY = 1.0
ANSWER_SECONDS = 9.0  # nobody at a terminal waits longer for a target
LEASED_AT_ONCE = 1000
REFUSED_AT_ONCE = 1000
SILENT_INTERACTIVE = timedelta(minutes=2)


class Reconciler:
    def __init__(self, store: Store, hub: Hub, jobs: Jobs, owner: str, settings: Settings) -> None:
        self.owner = owner
        self._store = store
        self._hub = hub
        self._jobs = jobs
        self._lease_seconds = settings.lease_seconds
        self._reserve = settings.disk_reserve_bytes
        self._workers = Workers(store, hub, jobs, owner, settings)
        self._provisioner = Provisioner(store, jobs.driver, self._workers.aside, self._on_provisioned)
        self._stopping = threading.Event()
        self._loop = threading.Thread(target=self._run, name="reconcile-loop", daemon=True)
        self._due: dict[str, float] = {}

    # for the process and the routes

    def start(self) -> None:
        """Take up every run that was active when the last server ended, then begin to loop."""
        if not self._store.is_shared:
            for leased in self._store.runs.take_over(self.owner, self._lease_seconds):
                self._workers.track(leased, is_adopted=True)
        self._loop.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._loop.is_alive():
            self._loop.join(10)
        self._workers.stop()
        self._store.runs.release(self.owner)

    def dispatch(self, leased: Leased) -> None:
        """Start a run that was just committed with our lease on it. Returns at once."""
        self._workers.dispatch(leased)

    def wake(self, run_id: str) -> None:
        """Something about the run's row changed, such as a wish to cancel."""
        tracked = self._workers.tracking.get(run_id)
        if tracked is not None:
            tracked.is_stale = True
            self._workers.wake(run_id)

    def admit(self, workspace: str, target: str) -> None:
        """Start what waits for a target, as far as it has room."""
        row = self._store.targets.get(workspace, target)
        if is_elsewhere(row) or not takes_runs(row):
            return  # the server that admits a run must start it
        for leased in self._store.runs.admit(workspace, target, self.owner, row.slots, self._lease_seconds):
            self._hub.publish(leased.run.id)
            self.dispatch(leased)

    def plan(self, workspace: str, new: NewRun, files: Sequence[SnapshotFile] | None = None) -> Plan:
        """What would be sent for this run; refuses what can never work. Nothing is sent or stored. `files` is a
        snapshot that the store need not have.
        """
        if new.spec is None:
            raise NotFound("An interactive run has no plan: its script runs where it is.")
        driver = self._workers.reach.driver(workspace, new.spec.target)
        job = self._jobs.draft(new.spec, workspace, new.experiment, new.id, nonce=new.nonce)
        if files is not None and new.snapshot is not None:
            job = replace(job, bundle=StoredBundle(self._jobs.store, Snapshot(new.snapshot, tuple(files))))
        return driver.plan(job)

    def check(self, workspace: str, target: str) -> Health:
        """What a target says of itself now. Runs that wait for it need not wait any longer if it answers."""
        driver = self._workers.reach.driver(workspace, target)
        try:
            health = self._workers.within(ANSWER_SECONDS, (workspace, target), driver.check)
        except WindlassError as e:
            raise self._workers.reach.explained(workspace, target, e) from None
        for tracked in self._workers.tracking.all():
            if tracked.place == (workspace, target) and tracked.handle is None:
                self.wake(tracked.run.id)
        return health

    def nodes(self, workspace: str, target: str) -> list[Node]:
        """The nodes that a target consists of now."""
        driver = self._workers.reach.driver(workspace, target)
        if not isinstance(driver, HasNodes):
            raise SpecNotSupported(f"Targets of kind {driver.kind} do not consist of nodes.")
        return self._workers.within(ANSWER_SECONDS, (workspace, target), driver.nodes)

    @contextmanager
    def trial(self, workspace: str, target: Target, given: Mapping[str, SecretStr]) -> Iterator[Driver[Any]]:
        """The driver of a target that is not kept, with credentials that are not kept; its connections end with it."""
        connections = drivers.open_pool(self._jobs.connections.server)
        try:
            secrets = GivenSecrets(target.name, given, self._jobs.grants.keystore.of_target(workspace, target.name))
            yield self._jobs.driver(workspace, target, secrets, connections)
        finally:
            connections.close()

    def _on_provisioned(self, workspace: str, target: str) -> None:
        self.forget(workspace, target)
        with suppress(NotFound):  # it was deleted
            self.admit(workspace, target)

    def forget(self, workspace: str, target: str) -> None:
        """What is known of a target is not so any more."""
        self._workers.reach.forget(workspace, target)

    def is_prepared(self, workspace: str, spec: RunSpec, files: Sequence[SnapshotFile]) -> bool:
        """Whether a run with this environment would begin there without building it."""
        driver = self._workers.reach.driver(workspace, spec.target)
        ask = partial(driver.is_prepared, spec.environment, spec.container, files)
        return self._workers.within(ANSWER_SECONDS, (workspace, spec.target), ask)

    def keepers(self) -> list[tuple[str, str, EnvironmentCache]]:
        """Targets on other machines that keep environments, by workspace and name."""
        found: list[tuple[str, str, EnvironmentCache]] = []
        for workspace in self._store.workspaces.list():
            for target in self._store.targets.list(workspace.name):
                try:
                    driver = self._workers.reach.driver(workspace.name, target.name)
                except WindlassError as e:
                    log.info("target=%s is left out: %s", target.name, e.message)
                    continue
                if isinstance(driver, EnvironmentCache) and not driver.features.calls_home:
                    found.append((workspace.name, target.name, driver))
        return found

    def pull(self, run_id: str) -> None:
        """Bring what a live run wrote up to date, for a script that reads back what it logged. It is answered in any
        case: on a slow line it sees the rest later.
        """
        tracked = self._workers.tracking.get(run_id)
        if tracked is not None:
            self._workers.within(ANSWER_SECONDS, tracked.place, partial(self._workers.pull, tracked))

    def read_now(self, run_id: str) -> None:
        """Have what a run wrote read now: a stream has begun to follow it. Returns at once."""
        self._workers.wake(run_id)

    # the loop

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.step(time.monotonic())
            except (ServerUnavailable, StorageFull) as e:
                log.warning("the loop waits for the database: %s", e.message)
            except Exception:
                log.exception("the reconcile loop failed once; it goes on")
            self._stopping.wait(TICK)

    def step(self, now: float) -> None:
        """One round: everything that is due. Tests call it without sleeping."""
        self._workers.wake_due(now)
        self._every("wishes", WISHES_EVERY, now, self._hear_wishes)
        self._every("renew", self._lease_seconds / 3, now, self._renew)
        self._every("ask", ASK_EVERY, now, self._ask_all)
        self._every("admit", ADMIT_EVERY, now, self._admit_all)
        self._every("provision", PROVISION_EVERY, now, self._provisioner.step)
        self._every("silent", ADMIT_EVERY, now, self._watch_interactive)
        self._workers.clean_up()
        if self._workers.cleaning.is_due(now):
            self._workers.aside(self._workers.cleaning.sweep)
        self._every("masks", SWEEP_EVERY, now, lambda: self._workers.aside(self._jobs.grants.forget_ended))
        self._every("ballast", SWEEP_EVERY, now, lambda: self._store.keep_ballast(self._reserve))
        self._every("look", SWEEP_EVERY, now, lambda: self._workers.aside(self._workers.reach.look_again))
        self._every("tidy", ADMIT_EVERY, now, lambda: self._workers.aside(self._workers.ahead.tidy))

    def _every(self, name: str, seconds: float, now: float, act: Callable[[], None]) -> None:
        if self._due.get(name, 0.0) <= now:
            self._due[name] = now + seconds
            act()

    def _renew(self) -> None:
        # Only what is held here: a commit whose answer was lost made us the owner of runs that we do not know. Their
        # leases must run out, so that somebody takes them up.
        held = {tracked.run.id: tracked.run for tracked in self._workers.tracking.all()}
        for run_id in held.keys() - self._store.runs.renew(self.owner, self._lease_seconds, list(held)):
            if self._workers.tracking.remove(run_id):
                self._jobs.grants.forget(held[run_id])
                log.info("run=%s is not held by us any more: it ended, or its lease went to another server", run_id)
        for leased in self._store.runs.lease(self.owner, self._lease_seconds, LEASED_AT_ONCE, self._elsewhere()):
            self._workers.track(leased, is_adopted=True)
            self._workers.wake(leased.run.id)

    def _hear_wishes(self) -> None:
        """A wish to cancel is heard also if it came through another server, or when the database had gone away."""
        for run_id in self._store.runs.cancel_wishes(self.owner):
            tracked = self._workers.tracking.get(run_id)
            if tracked is not None and tracked.run.intent is Intent.RUN:
                self.wake(run_id)

    def _elsewhere(self) -> list[tuple[str, str]]:
        workspaces = [workspace.name for workspace in self._store.workspaces.list()]
        return [(w, target.name) for w in workspaces for target in self._store.targets.list(w) if is_elsewhere(target)]

    def _ask_all(self) -> None:
        """One question per target about all its runs; those whose answer is news are then brought up to date."""
        by_target: dict[tuple[str, str], list[Tracked]] = defaultdict(list)
        for tracked in self._workers.tracking.all():
            if tracked.handle is None:
                self._workers.wake(tracked.run.id)
            else:
                by_target[tracked.run.workspace, tracked.run.target].append(tracked)
        for there in by_target.values():
            self._workers.ask(there)

    def _admit_all(self) -> None:
        for workspace in self._store.workspaces.list():
            for target, (_, queued) in self._store.targets.counts(workspace.name).items():
                if queued:
                    self._admit_or_refuse(workspace.name, target)

    def _admit_or_refuse(self, workspace: str, target: str) -> None:
        try:
            row = self._store.targets.get(workspace, target)
            self.admit(workspace, target)
        except NotFound as e:
            log.warning("target=%s is not there, and runs wait for it: %s", target, e.message)
            return self._refuse_waiting(workspace, target, "was detached before it was started")
        if was_never_created(row):
            self._refuse_waiting(workspace, target, f"could not be created: {row.provisioning_message}")
        elif takes_runs(row):
            self._workers.look_ahead(workspace, target)

    def _refuse_waiting(self, workspace: str, target: str, why: str) -> None:
        """Runs that wait for a target that is gone would wait for ever."""
        step = Step(RunState.FAILED, Reason.REJECTED, f"its target {target} {why}")
        for leased in self._store.runs.waiting(workspace, target, REFUSED_AT_ONCE):
            with suppress(Conflict):  # it was canceled in this moment
                self._store.runs.advance(leased.run.id, expect=leased.run.state, step=step, fence=None)
                self._hub.publish(leased.run.id)

    def _watch_interactive(self) -> None:
        for run in self._store.runs.silent_interactive(datetime.now(UTC) - SILENT_INTERACTIVE):
            step = Step(RunState.NOT_RESPONDING, Reason.NO_CONTACT, "its script has not been heard of for 2 minutes")
            try:
                self._store.runs.advance(run.id, expect=run.state, step=step, fence=None)
                self._hub.publish(run.id)
            except Conflict:
                continue  # it spoke in this moment
