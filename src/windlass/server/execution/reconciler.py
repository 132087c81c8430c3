"""The reconcile loop, which makes every restart a normal event: lease, start or observe, decide, advance.

Level-triggered: every target is observed with all its runs again and again, whatever events arrived in between. What is
done about one run is in run_controller.py, in threads of the dispatcher.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from windlass.core.errors import Conflict, NotFound, ServerUnavailable, StorageFull
from windlass.core.states import Reason, RunState, Step
from windlass.server.clusters.autoscaler import Autoscaler
from windlass.server.clusters.provisioning import Provisioner, takes_runs, was_never_created
from windlass.server.execution.dispatcher import Dispatcher
from windlass.server.execution.folder_cleanup import SWEEP_EVERY
from windlass.server.execution.job_builder import JobBuilder, is_elsewhere
from windlass.server.execution.tracked_run import TargetKey, TrackedRun
from windlass.server.settings import Settings
from windlass.server.streaming.event_bus import EventBus
from windlass.store import Leased, Store

log = logging.getLogger(__name__)

TICK = 0.5
STOPS_EVERY = 1.0
OBSERVE_EVERY = 10.0  # seconds; targets that push events are observed as often
ADMIT_EVERY = 5.0
PROVISION_EVERY = 1.0
SCALE_EVERY = 1.0
SCALE_PAUSE = 0.25  # after a round that changed nothing, before the next one for a run that is queued
LEASED_AT_ONCE = 1000
REFUSED_AT_ONCE = 1000
SILENT_INTERACTIVE = timedelta(minutes=2)


class Reconciler:
    def __init__(
        self,
        store: Store,
        event_bus: EventBus,
        jobs: JobBuilder,
        dispatcher: Dispatcher,
        owner: str,
        settings: Settings,
    ) -> None:
        self.owner = owner
        self._store = store
        self._event_bus = event_bus
        self._run_secrets = jobs.run_secrets
        self._dispatcher = dispatcher
        self._tracked = dispatcher.tracked
        self._lease_seconds = settings.lease_seconds
        self._reserve = settings.disk_reserve_bytes
        self._autoscaler = Autoscaler(
            store,
            dispatcher.drivers.driver,
            dispatcher.capacity_of,
            self.admit,
            dispatcher.on_row_changed,
            event_bus.publish_change,
        )
        self._provisioner = Provisioner(store, jobs.driver, dispatcher.run_maintenance, self._on_provisioned)
        self._stopping = threading.Event()
        self._loop = threading.Thread(target=self._run, name="reconcile-loop", daemon=True)
        self._due: dict[str, float] = {}
        self._to_scale: set[TargetKey] = set()  # targets for which a round of the autoscaler is queued
        self._queued: set[TargetKey] = set()  # those with runs that no round has seen
        self._pauses: dict[TargetKey, float] = {}  # until when a queued run begins no round, by the monotonic clock

    def start(self) -> None:
        """Take over every run that was active when the last server ended, then begin to loop."""
        if not self._store.is_shared:
            for leased in self._store.runs.take_over(self.owner, self._lease_seconds):
                self._dispatcher.take_over(leased)
        self._loop.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._loop.is_alive():
            self._loop.join(10)
        self._dispatcher.stop()
        self._store.runs.release(self.owner)

    # what requests changed; the loop would find it too, later

    def dispatch(self, leased: Leased) -> None:
        """Start a run that was just committed with our lease on it. Returns at once."""
        self._dispatcher.dispatch(leased)

    def wake(self, run_id: str) -> None:
        """The run's row was changed, such as by a cancel."""
        self._dispatcher.on_row_changed(run_id)

    def on_deleted(self) -> None:
        """Runs were deleted: what they left on machines is removed soon."""
        self._dispatcher.cleanup.on_deleted()

    def admit(self, workspace: str, target: str) -> None:
        """Start queued runs of a target, as far as it has free slots."""
        row = self._store.targets.get(workspace, target)
        if is_elsewhere(row) or not takes_runs(row):
            return  # the server that admits a run must start it
        capacity_of = self._dispatcher.capacity_of
        for leased in self._store.runs.admit(workspace, target, self.owner, capacity_of, self._lease_seconds):
            self._event_bus.publish_change(leased.run.workspace, leased.run.id)
            self._dispatcher.dispatch(leased)

    def on_queued(self, workspace: str, target: str) -> None:
        """A run was queued: make nodes for it, or make room on this computer. Returns at once. After a round that found
        nothing to do the next one begins with a pause, so that a burst of submits costs a few rounds.
        """
        self._queued.add((workspace, target))
        if (workspace, target) not in self._pauses:
            self.scale(workspace, target)

    def scale(self, workspace: str, target: str) -> None:
        """Have a round of the autoscaler made. Returns at once. A round that has not begun yet sees all that was
        queued before.
        """
        if (workspace, target) not in self._to_scale:
            self._to_scale.add((workspace, target))
            self._dispatcher.run_in_background((workspace, target), partial(self._scale, workspace, target))

    def evict_nodes(self, workspace: str, target: str, node: str | None) -> list[str]:
        """Evict one node of a cluster or all, as a provider would."""
        found = self._autoscaler.evict(workspace, target, node, "eviction was simulated")
        self.scale(workspace, target)
        return found

    def _scale(self, workspace: str, target: str) -> None:
        self._to_scale.discard((workspace, target))
        self._queued.discard((workspace, target))
        if not self._autoscaler.scale(workspace, target):
            self._pauses[workspace, target] = time.monotonic() + SCALE_PAUSE

    def _end_pauses(self, now: float) -> None:
        for key in [key for key, until in list(self._pauses.items()) if until <= now]:
            self._pauses.pop(key, None)
            if key in self._queued:
                self.scale(*key)

    def _scale_all(self) -> None:
        """A round for each cluster by itself: a slow source of nodes keeps no idle node of another cluster."""
        for key in self._autoscaler.clusters():
            self._dispatcher.run_maintenance(partial(self._autoscaler.scale, *key), ("scale", *key))

    def _on_provisioned(self, workspace: str, target: str) -> None:
        with suppress(NotFound):  # it was deleted
            self._dispatcher.drivers.refresh(workspace, target)
            self.admit(workspace, target)
            self.scale(workspace, target)

    # the loop

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.step(time.monotonic())
            except (ServerUnavailable, StorageFull) as e:
                log.warning("reconcile loop: the database is away, retry: %s", e.message)
            except Exception:
                log.exception("reconcile loop: a round failed, retry")
            self._stopping.wait(TICK)

    def step(self, now: float) -> None:
        """One round: everything that is due. Tests call it without sleeping."""
        dispatcher = self._dispatcher
        dispatcher.wake_expired(now)
        self._end_pauses(now)
        self._every("stops", STOPS_EVERY, now, self._find_stops)
        self._every("renew", self._lease_seconds / 3, now, self._renew_leases)
        self._every("observe", OBSERVE_EVERY, now, self._observe_targets)
        self._every("admit", ADMIT_EVERY, now, self._admit_all)
        self._every("scale", SCALE_EVERY, now, lambda: dispatcher.run_maintenance(self._scale_all))
        self._every("provision", PROVISION_EVERY, now, self._provisioner.step)
        self._every("interactive", ADMIT_EVERY, now, self._watch_interactive)
        dispatcher.clean_up()
        if dispatcher.cleanup.is_due(now):
            dispatcher.run_maintenance(dispatcher.cleanup.sweep)
        self._every("secrets", SWEEP_EVERY, now, lambda: dispatcher.run_maintenance(self._run_secrets.forget_ended))
        self._every("ballast", SWEEP_EVERY, now, lambda: self._store.keep_ballast(self._reserve))
        self._every("drivers", SWEEP_EVERY, now, lambda: dispatcher.run_maintenance(dispatcher.drivers.close_stale))
        self._every("prefetch", ADMIT_EVERY, now, lambda: dispatcher.run_maintenance(dispatcher.prefetcher.evict))

    def _every(self, name: str, seconds: float, now: float, act: Callable[[], None]) -> None:
        if self._due.get(name, 0.0) <= now:
            self._due[name] = now + seconds
            act()

    def _renew_leases(self) -> None:
        # Only of tracked runs: a commit whose answer was lost may have made us the owner of others. Their leases must
        # expire, so that a server takes them over.
        held = {tracked.run.id: tracked for tracked in self._tracked.all()}
        for run_id in held.keys() - self._store.runs.renew(self.owner, self._lease_seconds, list(held)):
            if self._tracked.remove(held[run_id]):
                self._run_secrets.forget(held[run_id].run)
                log.info("run=%s lease lost: it ended, or is queued again, or another server has it", run_id)
        for leased in self._store.runs.lease(self.owner, self._lease_seconds, LEASED_AT_ONCE, self._elsewhere()):
            self._dispatcher.take_over(leased)
            self._dispatcher.wake(leased.run.id)

    def _find_stops(self) -> None:
        """Cancels and evictions that came through another server, or while the database was away."""
        for run_id, request in self._store.runs.stop_requests(self.owner).items():
            tracked = self._tracked.get(run_id)
            if tracked is not None and (tracked.run.intent, tracked.run.eviction) != request:
                self.wake(run_id)

    def _elsewhere(self) -> list[TargetKey]:
        workspaces = [workspace.name for workspace in self._store.workspaces.list()]
        return [(w, target.name) for w in workspaces for target in self._store.targets.list(w) if is_elsewhere(target)]

    def _observe_targets(self) -> None:
        """One request per target about all its runs; those that changed are then reconciled."""
        by_target: dict[TargetKey, list[TrackedRun]] = defaultdict(list)
        for tracked in self._tracked.all():
            if tracked.handle is None:
                self._dispatcher.wake(tracked.run.id)
            else:
                by_target[tracked.target].append(tracked)
        for runs in by_target.values():
            self._dispatcher.observe_target(runs)

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
            log.warning("target=%s does not exist, its queued runs are refused: %s", target, e.message)
            return self._refuse_queued(workspace, target, "was detached before it was started")
        if was_never_created(row):
            self._refuse_queued(workspace, target, f"could not be created: {row.provisioning_message}")
        elif takes_runs(row):
            self._dispatcher.prefetch(workspace, target)

    def _refuse_queued(self, workspace: str, target: str, why: str) -> None:
        """Runs that are queued for a target that is gone would wait forever."""
        step = Step(RunState.FAILED, Reason.REJECTED, f"its target {target} {why}")
        for leased in self._store.runs.waiting(workspace, target, REFUSED_AT_ONCE):
            with suppress(Conflict):  # it was canceled meanwhile
                self._store.runs.advance(leased.run.id, expect=leased.run.state, step=step, fence=None)
                self._event_bus.publish_change(leased.run.workspace, leased.run.id)

    def _watch_interactive(self) -> None:
        for run in self._store.runs.silent_interactive(datetime.now(UTC) - SILENT_INTERACTIVE):
            step = Step(RunState.NOT_RESPONDING, Reason.NO_CONTACT, "its script has not been heard of for 2 minutes")
            try:
                self._store.runs.advance(run.id, expect=run.state, step=step, fence=None)
                self._event_bus.publish_change(run.workspace, run.id)
            except Conflict:
                continue  # its heartbeat came meanwhile
