"""Creates and removes the nodes of clusters: compares what there is with what core/scaling.py wants.

Level-triggered: the rows of nodes say what is under way, so that a killed server leaves nothing that the next one would
not go on with. A cluster is scaled at once when a run is queued or a node became free, and on a timer.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from windlass import drivers
from windlass.core import backoff
from windlass.core.entities import Target
from windlass.core.errors import Conflict, NotFound, WindlassError
from windlass.core.placement import Amount, Key, Waiting
from windlass.core.scaling import NodeStatus, ScaleLimits, wanted_nodes
from windlass.drivers.base import Driver, NodeSource, ProvisioningState, Scalable
from windlass.server.clusters.capacity import Capacities
from windlass.server.execution.job_builder import is_elsewhere
from windlass.server.security.secret_store import SERVER
from windlass.store import NodeRow, Store
from windlass.store.catalog.nodes import GOING, PREPARING, UNUSABLE
from windlass.store.runs.allocations import READY

log = logging.getLogger(__name__)

SWEEP_EVERY = 60.0  # seconds between comparisons with what the source of nodes has
FIRST_WAITING = 50  # runs of a queue that are read
MOST_WAITING = 1000  # runs of a queue that are read if there is room for the first ones
MOST_EXPLAINED = 20  # runs of a queue whose message is updated
MOST_FAILURES = 5  # of a node's creation, until it is replaced
SUBMIT_PATIENCE = timedelta(hours=1)  # for the run of a cluster that was created for one: its client may upload files
FIRST_RETRY, LONGEST_RETRY = 1.0, 30.0  # seconds


class Autoscaler:
    def __init__(
        self,
        store: Store,
        driver: Callable[[str, str], Driver[Any]],
        capacity_of: Capacities,
        admit: Callable[[str, str], None],
        on_evicted: Callable[[str], None],
        on_message: Callable[[str, str], None],
    ) -> None:
        """`admit(workspace, target)` is called when nodes are ready for runs, `on_evicted(run)` for each run that loses
        its node, `on_message(workspace, run)` for each run that waits for something else than before.
        """
        self._store = store
        self._driver = driver
        self._capacity_of = capacity_of
        self._admit = admit
        self._on_evicted = on_evicted
        self._on_message = on_message
        self._locks: dict[Key, threading.Lock] = {}
        self._swept: dict[Key, float] = {}
        self._retry_at: dict[tuple[str, str, str], float] = {}
        self._failures: dict[tuple[str, str, str], int] = {}

    def clusters(self) -> list[Key]:
        """The clusters that this server scales."""
        kinds = [kind for kind in drivers.known_kinds() if _scales(kind)]
        found = self._store.nodes.clusters(kinds)
        return [(workspace, target.name) for workspace, target in found if not is_elsewhere(target)]

    def scale(self, workspace: str, name: str) -> bool:
        """One round for a target: make or remove nodes of a cluster, make room on this computer for others. Returns
        whether that changed anything. Rounds of one target follow each other.
        """
        with self._locks.setdefault((workspace, name), threading.Lock()):
            try:
                target = self._store.targets.get(workspace, name)
                if is_elsewhere(target):
                    return False
                if not _scales(target.kind):
                    return self._make_room((workspace, name))[1]
                driver = self._driver(workspace, name)
            except NotFound:
                return False
            if target.provisioning_state == ProvisioningState.CREATING:
                return False
            return self._scale((workspace, name), target, driver)

    def evict(self, workspace: str, name: str, node: str | None, why: str) -> list[str]:
        """Evict one node or all, as a provider would. Returns their ids."""
        found = [row for row in self._store.nodes.rows(workspace, name) if row.state == READY]
        if node is not None:
            found = [row for row in found if row.id == node]
            if not found:
                raise NotFound(f"{name} has no node {node} that takes runs.", f"windlass compute show {name}")
        for row in found:
            for run in self._store.nodes.preempt(workspace, name, row.id, why):
                self._on_evicted(run)
        return [row.id for row in found]

    def _make_room(self, key: Key) -> tuple[str, bool]:
        """Evict low-priority nodes if the first queued run of a target waits only for them. Returns what this computer
        lacks for that run, and whether nodes were evicted.
        """
        why, evicted = self._store.nodes.make_room(*key, self._capacity_of)
        for run in evicted:
            self._on_evicted(run)
        return why, bool(evicted)

    def _scale(self, key: Key, target: Target, driver: Any) -> bool:
        source: NodeSource = driver.node_source()
        if time.monotonic() - self._swept.get(key, -SWEEP_EVERY) >= SWEEP_EVERY:
            self._sweep(key, source)
            self._swept[key] = time.monotonic()
        rows = self._go_on(key, self._store.nodes.rows(*key), source)
        waiting = self._queue(key, target, FIRST_WAITING)
        if target.provisioning_state == ProvisioningState.DELETING:
            limits, waiting = ScaleLimits(0, 0, 0.0), []
        else:
            limits = ScaleLimits(*driver.scale())
        is_changed = self._change(key, target, driver, rows, waiting, limits)
        if is_changed:
            self._go_on(key, self._store.nodes.rows(*key), source)
        if waiting:
            self._admit(*key)
            lacks, has_evicted = self._make_room(key)
            self._explain(key, target, limits, lacks)
            return is_changed or has_evicted
        unused_since = datetime.now(UTC) - SUBMIT_PATIENCE
        if driver.is_for_one_run() and self._store.nodes.is_used_up(key[0], target, unused_since):
            with suppress(Conflict):  # a run came meanwhile, or it is being deleted
                self._store.attachments.begin_deletion(*key, SERVER, force=False)
        return is_changed

    def _change(
        self,
        key: Key,
        target: Target,
        driver: Any,
        rows: list[NodeRow],
        waiting: list[Waiting],
        limits: ScaleLimits,
    ) -> bool:
        """Store the wanted changes of nodes. Returns whether there were any."""
        computer = self._capacity_of.computer
        size = driver.node_size()
        amount = Amount(round(size.cores * 1000), size.memory_mb, size.gpus)
        usable = [row for row in rows if row.state not in GOING]
        room = ScaleLimits(limits.min_nodes, limits.max_nodes - (len(rows) - len(usable)), limits.idle_seconds)
        statuses = [_status(row) for row in usable]
        wanted = wanted_nodes(statuses, waiting, amount, room)
        if len(waiting) >= FIRST_WAITING and not wanted.is_short:
            wanted = wanted_nodes(statuses, self._queue(key, target, MOST_WAITING), amount, room)
        if wanted.create:
            ids = [f"{key[1]}-{secrets.token_hex(4)}" for _ in range(wanted.create)]
            is_low = driver.has_low_priority(target.config)
            made = self._store.nodes.add(*key, ids, amount, computer, limits.max_nodes, is_low, size.note)
            return bool(made)
        return bool(wanted.remove) and bool(self._store.nodes.leave(*key, wanted.remove, computer))

    def _queue(self, key: Key, target: Target, most: int) -> list[Waiting]:
        return self._store.nodes.queue(key[0], target, self._capacity_of(key[0], target), most)

    def _go_on(self, key: Key, rows: list[NodeRow], source: NodeSource) -> list[NodeRow]:
        """Create the nodes that are being prepared and remove those that leave. Returns the remaining rows."""
        left = []
        for row in rows:
            if row.state == PREPARING and self._is_due(key, row.id):
                left.append(self._make(key, row, source))
            elif row.state in GOING and not row.is_busy and self._is_due(key, row.id):
                if not self._remove(key, row, source):
                    left.append(row)
            else:
                left.append(row)
        return left

    def _make(self, key: Key, row: NodeRow, source: NodeSource) -> NodeRow:
        try:
            is_ready = source.create_node(row.id)
        except WindlassError as e:
            self._fail(key, row.id, e)
            if not e.transient or self._failures[*key, row.id] >= MOST_FAILURES:
                log.warning("target=%s node=%s could not be created, replace it: %s", key[1], row.id, e.message)
                self._store.nodes.move(*key, row.id, PREPARING, UNUSABLE, e.message)
            return row
        if is_ready:
            self._forget(key, row.id)
            self._store.nodes.move(*key, row.id, PREPARING, READY, row.message)
            log.info("target=%s node=%s is ready", key[1], row.id)
        return row

    def _remove(self, key: Key, row: NodeRow, source: NodeSource) -> bool:
        try:
            source.delete_node(row.id)
        except WindlassError as e:
            self._fail(key, row.id, e)
            return False
        self._forget(key, row.id)
        is_gone = self._store.nodes.remove(*key, row.id)
        if is_gone:
            log.info("target=%s node=%s is removed", key[1], row.id)
        return is_gone

    def _sweep(self, key: Key, source: NodeSource) -> None:
        """Delete nodes without a row; give up rows whose node is not there any more."""
        try:
            there = set(source.nodes())
        except WindlassError as e:
            log.warning("target=%s its nodes could not be listed, retry: %s", key[1], e.message)
            return
        rows = self._store.nodes.rows(*key)
        for id in there - {row.id for row in rows}:
            log.warning("target=%s node=%s has no row: it is deleted", key[1], id)
            try:
                source.delete_node(id)
            except WindlassError as e:
                log.warning("target=%s node=%s could not be deleted, retry: %s", key[1], id, e.message)
        for row in rows:
            if row.state == READY and row.id not in there:
                for run in self._store.nodes.preempt(*key, row.id, f"its node {row.id} is gone", UNUSABLE):
                    self._on_evicted(run)

    def _explain(self, key: Key, target: Target, limits: ScaleLimits, lacks: str) -> None:
        """Update the messages of the first queued runs with what they wait for, in numbers. `lacks`: what this computer
        lacks for the first one.
        """
        waiting = self._queue(key, target, MOST_EXPLAINED)
        if not waiting:
            return
        rows = self._store.nodes.rows(*key)
        ready = [row for row in rows if row.state == READY]
        idle = sum(not row.is_busy for row in ready)
        starting = [row for row in rows if row.state == PREPARING]
        since = max((_age(row.created_at) for row in starting), default=0.0)
        said = f"; {len(starting)} starting since {since:.0f} s" if starting else ""
        messages = {
            run.run: f"{idle} of {limits.max_nodes} nodes idle, {run.nodes} needed{said}; {place} ahead"
            if place or not lacks
            else lacks
            for place, run in enumerate(waiting)
        }
        for run_id in self._store.nodes.update_messages(messages):
            self._on_message(key[0], run_id)

    def _is_due(self, key: Key, node: str) -> bool:
        return self._retry_at.get((*key, node), 0.0) <= time.monotonic()

    def _fail(self, key: Key, node: str, error: WindlassError) -> None:
        count = self._failures[*key, node] = self._failures.get((*key, node), 0) + 1
        self._retry_at[*key, node] = time.monotonic() + backoff.delay(count, FIRST_RETRY, LONGEST_RETRY)
        log.warning("target=%s node=%s failed, retry: %s", key[1], node, error.message)

    def _forget(self, key: Key, node: str) -> None:
        self._failures.pop((*key, node), None)
        self._retry_at.pop((*key, node), None)


def _scales(kind: str) -> bool:
    try:
        return issubclass(drivers.load(kind), Scalable)
    except WindlassError:
        return False


def _status(row: NodeRow) -> NodeStatus:
    idle = 0.0 if row.idle_since is None else _age(row.idle_since)
    return NodeStatus(row.id, row.state == READY, row.is_busy, idle, row.free)


def _age(moment: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - moment).total_seconds())
