"""What routes ask of targets: plans, checks, probes, environments. None of it changes a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pydantic import SecretStr

from windlass import drivers
from windlass.core.entities import Run, RunSpec, Snapshot, SnapshotFile, Target
from windlass.core.errors import Conflict, NotFound, SpecNotSupported, WindlassError
from windlass.drivers.base import (
    ChannelRequest,
    Driver,
    EnvironmentCache,
    Handle,
    HasNodes,
    Health,
    Interactive,
    Node,
    Plan,
)
from windlass.server.execution.dispatcher import Dispatcher
from windlass.server.execution.job_builder import JobBuilder, StoredBundle
from windlass.server.execution.machine_gc import OWN
from windlass.server.execution.target_probe import GivenSecrets
from windlass.server.streaming.channels import OpenChannel
from windlass.store import NewRun, Store

log = logging.getLogger(__name__)

ANSWER_SECONDS = 9.0  # a request waits no longer for a target


class TargetService:
    def __init__(self, store: Store, jobs: JobBuilder, dispatcher: Dispatcher) -> None:
        self._store = store
        self._jobs = jobs
        self._dispatcher = dispatcher
        self._drivers = dispatcher.drivers
        self.capacity_of = dispatcher.capacity_of

    def plan(self, workspace: str, new: NewRun, files: Sequence[SnapshotFile] | None = None) -> Plan:
        """What would be sent for this run; refuses what can never work. Nothing is sent or stored. `files` is a
        snapshot that the store need not have.
        """
        if new.spec is None:
            raise NotFound("An interactive run has no plan: its script runs where it is.")
        driver = self._drivers.driver(workspace, new.spec.target)
        job = self._jobs.for_spec(new.spec, workspace, new.experiment, new.id, nonce=new.nonce)
        if files is not None and new.snapshot is not None:
            job = replace(job, bundle=StoredBundle(self._store, Snapshot(new.snapshot, tuple(files))))
        plan = driver.plan(job)
        self._refuse_beyond(workspace, self._drivers.target(workspace, new.spec.target), new.spec)
        return plan

    def _refuse_beyond(self, workspace: str, target: Target, spec: RunSpec) -> None:
        """A machine has what it has: what is more than that can never start there."""
        capacity, asked = self.capacity_of(workspace, target), spec.resources
        computer = capacity.computer
        if computer is None or capacity.has_nodes:
            return
        for what, wanted, has in (
            ("cores", asked.cpus, computer.millicores / 1000),
            ("MB of memory", asked.memory_mb, computer.memory_mb),
            ("GPUs", asked.gpus, computer.gpus),
        ):
            if wanted and wanted > has:
                raise SpecNotSupported(
                    f"{target.name} has {has:g} {what}; {wanted:g} are asked for.",
                    hint="Ask for less, or name another target.",
                )

    def check(self, workspace: str, target: str) -> Health:
        """The health of a target now. Runs that wait for it are retried at once."""
        driver = self._drivers.driver(workspace, target)
        try:
            health = self._dispatcher.run_with_timeout(ANSWER_SECONDS, (workspace, target), driver.check)
        except WindlassError as e:
            raise self._drivers.with_login_hint(workspace, target, e) from None
        for tracked in self._dispatcher.tracked.all():
            if tracked.target == (workspace, target) and tracked.handle is None:
                self._dispatcher.on_row_changed(tracked.run.id)
        return health

    def nodes(self, workspace: str, target: str) -> list[Node]:
        """The nodes that a target consists of now."""
        driver = self._drivers.driver(workspace, target)
        if not isinstance(driver, HasNodes):
            raise SpecNotSupported(f"Targets of kind {driver.kind} do not consist of nodes.")
        return self._dispatcher.run_with_timeout(ANSWER_SECONDS, (workspace, target), driver.nodes)

    @contextmanager
    def trial(self, workspace: str, target: Target, given: Mapping[str, SecretStr]) -> Iterator[Driver[Any]]:
        """The driver of a target that is not stored, with credentials that are not stored; its connections are closed
        at the end.
        """
        connections = drivers.open_pool(self._jobs.connections.server)
        try:
            secrets = GivenSecrets(
                target.name, given, self._jobs.run_secrets.secret_store.of_target(workspace, target.name)
            )
            yield self._jobs.driver(workspace, target, secrets, connections)
        finally:
            connections.close()

    def forget(self, workspace: str, target: str) -> None:
        """Drop what is cached of a target that was changed or detached."""
        self._drivers.invalidate(workspace, target)

    def is_prepared(self, workspace: str, spec: RunSpec, files: Sequence[SnapshotFile]) -> bool:
        """Whether a run with this environment would begin there without building it."""
        driver = self._drivers.driver(workspace, spec.target)
        ask = partial(driver.is_prepared, spec.environment, spec.container, files)
        return self._dispatcher.run_with_timeout(ANSWER_SECONDS, (workspace, spec.target), ask)

    def own_environment_cache(self) -> EnvironmentCache:
        """The environments in the server's own folder, which all its targets on this machine share."""
        driver = self._jobs.driver("", Target(OWN, OWN, {}, datetime.now(UTC)))
        assert isinstance(driver, EnvironmentCache)
        return driver

    def environment_caches(self) -> list[tuple[str, str, EnvironmentCache]]:
        """Targets that keep environments in other folders than the server's own, by workspace and name."""
        found: list[tuple[str, str, EnvironmentCache]] = []
        for workspace in self._store.workspaces.list():
            for target in self._store.targets.list(workspace.name):
                try:
                    driver = self._drivers.driver(workspace.name, target.name)
                except WindlassError as e:
                    log.info("target=%s environments are not listed: %s", target.name, e.message)
                    continue
                if isinstance(driver, EnvironmentCache) and not driver.is_servers_own:
                    found.append((workspace.name, target.name, driver))
        return found

    def pull(self, run_id: str) -> None:
        """Store what a live run has logged so far, for a script that reads it back. It is answered in any case: on a
        slow connection it sees the rest later.
        """
        tracked = self._dispatcher.tracked.get(run_id)
        if tracked is not None:
            pull = partial(self._dispatcher.pull, tracked)
            self._dispatcher.run_with_timeout(ANSWER_SECONDS, tracked.target, pull)

    def open_channel(
        self, workspace: str, target: str, run: Run | None, request: ChannelRequest, channel: OpenChannel
    ) -> None:
        """Open a channel where a run is; without a run, on the machine of a target."""
        driver = self._drivers.driver(workspace, target)
        if not isinstance(driver, Interactive):
            raise SpecNotSupported(
                f"Nothing can be opened on {target}: targets of kind {driver.kind} have no shells here.",
                "`windlass logs RUN` and `windlass download RUN` show what a run does there.",
            )
        handle = None
        if run is not None:
            tracked = self._dispatcher.tracked.get(run.id)
            handle = tracked.handle if tracked is not None else None
            if handle is None:
                raise Conflict(f"Run {run.id} is not with this server now: it is being started, or ends.", "Try again.")
        opening = partial(_attach_channel, driver, handle, request, channel)
        self._dispatcher.run_with_timeout(ANSWER_SECONDS, (workspace, target), opening)

    def read_now(self, run_id: str) -> None:
        """A stream has begun to follow a run: have its logs read now. Returns at once."""
        self._dispatcher.wake(run_id)


def _attach_channel(driver: Interactive, handle: Handle | None, request: ChannelRequest, channel: OpenChannel) -> None:
    channel.attach(driver.open_channel(handle, request, channel))
