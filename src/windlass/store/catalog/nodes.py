"""Nodes of clusters. A row is inserted before its node is created, and deleted after the node is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Executable, bindparam, delete, func, insert, select, update

from windlass.core.entities import Target
from windlass.core.placement import Amount, Key, Waiting, newest_until
from windlass.store.catalog import target_events
from windlass.store.catalog.targets import ALL, GET
from windlass.store.db.base import Database
from windlass.store.db.column_types import now
from windlass.store.db.schema import QueueState, nodes, runs, targets
from windlass.store.db.schema import allocations as allocated
from windlass.store.runs import admission, transitions
from windlass.store.runs.admission import CapacityOf
from windlass.store.runs.allocations import IS_BUSY, READY
from windlass.store.runs.records import Capacity, ComputerCapacity
from windlass.store.runs.rows import CHANGED

PREPARING, LEAVING, PREEMPTED, UNUSABLE = "preparing", "leaving", "preempted", "unusable"
_MOST_NAMED = 5
GOING = (LEAVING, PREEMPTED, UNUSABLE)  # they get no new runs, and are removed once they have none

_here = (nodes.c.workspace == bindparam("of_workspace")) & (nodes.c.target == bindparam("of_target"))
_runs_there = (
    select(allocated.c.node, runs.c.id, allocated.c.millicores, allocated.c.memory_mb, allocated.c.gpus)
    .join(runs, runs.c.pk == allocated.c.run)
    .where(allocated.c.workspace == bindparam("of_workspace"), allocated.c.target == bindparam("of_target"))
    .order_by(runs.c.pk)
)
_LIST = select(nodes).where(_here).order_by(nodes.c.created_at, nodes.c.id)
_COUNT = select(func.count()).where(_here)
_named = _here & (nodes.c.id == bindparam("node"))
_LEAVE = update(nodes).where(_named, nodes.c.state == READY, ~IS_BUSY).values(state=LEAVING).returning(nodes.c.id)
_MOVE = (
    update(nodes)
    .where(_named, nodes.c.state == bindparam("before"))
    .values(state=bindparam("after"), message=bindparam("why"), idle_since=bindparam("idle"))
    .returning(nodes.c.id)
)
_REMOVE = delete(nodes).where(_named, nodes.c.state.in_((*GOING, PREPARING)), ~IS_BUSY).returning(nodes.c.id)
_LOW = (
    select(
        nodes.c.workspace,
        nodes.c.target,
        nodes.c.id,
        nodes.c.state,
        func.sum(allocated.c.millicores).label("millicores"),
        func.sum(allocated.c.memory_mb).label("memory_mb"),
    )
    .join(
        allocated,
        (allocated.c.workspace == nodes.c.workspace)
        & (allocated.c.target == nodes.c.target)
        & (allocated.c.node == nodes.c.id),
    )
    .where(nodes.c.machine == bindparam("machine"), nodes.c.is_low_priority, nodes.c.state.in_((READY, PREEMPTED)))
    .group_by(nodes.c.workspace, nodes.c.target, nodes.c.id)
    .order_by(nodes.c.created_at.desc(), nodes.c.id)
)
_MESSAGES = select(runs.c.pk, runs.c.message).where(runs.c.pk.in_(bindparam("pks", expanding=True)))
_UPDATE_MESSAGE = (
    update(runs)
    .where(runs.c.pk == bindparam("of"), runs.c.queue_state == QueueState.WAITING, runs.c.message != bindparam("text"))
    .values(message=bindparam("text"), **CHANGED)
    .returning(runs.c.id)
)


@dataclass(frozen=True, slots=True)
class NodeRow:
    id: str
    state: str
    size: Amount
    is_low_priority: bool
    created_at: datetime
    idle_since: datetime | None
    message: str
    runs: tuple[str, ...]
    free: Amount

    @property
    def is_busy(self) -> bool:
        return bool(self.runs)


class Nodes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self, workspace: str, target: str) -> list[NodeRow]:
        return self._database.read(lambda c: _rows(c, (workspace, target)))

    def queue(self, workspace: str, target: Target, capacity: Capacity, limit: int) -> list[Waiting]:
        """The first queued runs of a cluster, with what they need."""
        return self._database.read(lambda c: admission.queue(c, (workspace, target.name), capacity, limit))

    def add(
        self,
        workspace: str,
        target: str,
        ids: Sequence[str],
        size: Amount,
        computer: ComputerCapacity,
        most: int,
        is_low_priority: bool,
        note: str,
    ) -> list[str]:
        """Insert rows of nodes that are about to be created, up to `most` rows in all; returns their ids."""

        def transaction(connection: Connection) -> list[str]:
            admission.lock_queue(connection, (workspace, target), Capacity(computer=computer))
            if connection.execute(GET, {"of": workspace, "named": target}).first() is None:
                return []
            there: int = connection.execute(_COUNT, _of((workspace, target))).scalar_one()
            made = list(ids[: max(0, most - there)])
            at = now()
            values = {
                "workspace": workspace,
                "target": target,
                "state": PREPARING,
                "machine": computer.machine,
                "is_low_priority": is_low_priority,
                "millicores": size.millicores,
                "memory_mb": size.memory_mb,
                "gpus": size.gpus,
                "created_at": at,
                "message": note,
            }
            if made:
                connection.execute(insert(nodes), [{**values, "id": id} for id in made])
                text = f"{_listed(made)} will be created"
                target_events.append(connection, workspace, target, "nodes_requested", text)
            return made

        return self._database.write(transaction)

    def move(self, workspace: str, target: str, node: str, before: str, after: str, message: str) -> bool:
        """Change the state of a node by compare-and-set; False if it is not `before` any more."""
        values = {"before": before, "after": after, "why": message, "idle": now() if after == READY else None}
        kind = {READY: "node_ready", UNUSABLE: "node_failed"}.get(after, f"node_{after}")
        text = f"node {node} is {after}" + (f": {message}" if message and after != READY else "")
        return self._change(_MOVE, workspace, target, node, values, kind, text)

    def leave(self, workspace: str, target: str, ids: Sequence[str], computer: ComputerCapacity) -> list[str]:
        """Mark idle nodes as leaving; returns them. Nodes that got a run meanwhile stay."""

        def transaction(connection: Connection) -> list[str]:
            admission.lock_queue(connection, (workspace, target), Capacity(computer=computer))
            here = _of((workspace, target))
            left = [id for id in ids if connection.execute(_LEAVE, {**here, "node": id}).first() is not None]
            if left:
                text = f"{_listed(left)} will be deleted: not needed any more"
                target_events.append(connection, workspace, target, "nodes_leaving", text)
            return left

        return self._database.write(transaction)

    def remove(self, workspace: str, target: str, node: str) -> bool:
        """Delete the row of a node that is gone, unless a run still has an allocation on it."""
        return self._change(_REMOVE, workspace, target, node, {}, "node_removed", f"node {node} is deleted")

    def preempt(self, workspace: str, target: str, node: str, why: str, state: str = PREEMPTED) -> list[str]:
        """Preempt a node: it gets no more runs, and its runs are evicted. Returns these."""

        def transaction(connection: Connection) -> list[str]:
            return _preempt(connection, (workspace, target), node, why, state)

        return self._database.write(transaction)

    def make_room(self, workspace: str, target: str, capacity_of: CapacityOf) -> tuple[str, list[str]]:
        """Evict low-priority nodes, the newest first, if the first run of a queue would start without them and its
        own target is not of low priority. Returns what the computer lacks for that run, and the runs that are evicted.
        """

        def transaction(connection: Connection) -> tuple[str, list[str]]:
            row = connection.execute(GET, {"of": workspace, "named": target}).one_or_none()
            if row is None:
                return "", []
            cluster = Target(*row)
            short = admission.shortage(connection, (workspace, target), cluster, capacity_of)
            if short is None:
                return "", []
            computer, shortage, why = short
            if capacity_of(workspace, cluster).is_low_priority:
                return why, []
            found = connection.execute(_LOW, {"machine": computer.machine}).all()
            candidates = [("/".join(each[:3]), Amount(each.millicores, each.memory_mb)) for each in found]
            taken = {"/".join(each[:3]) for each in found if each.state == PREEMPTED}
            evicted: list[str] = []
            for name in newest_until(shortage, candidates, taken):
                where, other, node = name.split("/", 2)
                why_evicted = f"its node {node} was taken away for a run on {target}"
                evicted += _preempt(connection, (where, other), node, why_evicted, PREEMPTED)
            return why, evicted

        return self._database.write(transaction)

    def update_messages(self, messages: Mapping[int, str]) -> list[str]:
        """Update the messages of queued runs, by primary key. Returns the ids of the runs whose message changed."""

        def transaction(connection: Connection) -> list[str]:
            before = connection.execute(_MESSAGES, {"pks": list(messages)})
            changed = [pk for pk, message in before if message != messages[pk]]
            changed_rows = [
                connection.execute(_UPDATE_MESSAGE, {"of": pk, "text": messages[pk]}).first() for pk in changed
            ]
            return [row.id for row in changed_rows if row is not None]

        return self._database.write(transaction, durable=False) if messages else []

    def is_used_up(self, workspace: str, target: Target, unused_since: datetime) -> bool:
        """Whether a target had runs and has none any more, or was created before that time and never had one."""
        here = (runs.c.workspace == workspace) & (runs.c.target == target.name)
        live = select(runs.c.pk).where(here, runs.c.queue_state.is_not(None)).limit(1)
        # There may be runs of an earlier target of that name too.
        ended = (
            select(runs.c.pk).where(here, runs.c.queue_state.is_(None), runs.c.created_at >= target.created_at).limit(1)
        )

        def query(connection: Connection) -> bool:
            if connection.execute(live).first() is not None:
                return False
            return target.created_at < unused_since or connection.execute(ended).first() is not None

        return self._database.read(query)

    def clusters(self, kinds: Sequence[str]) -> list[tuple[str, Target]]:
        """The targets of these kinds in all workspaces."""
        asked = ALL.add_columns(targets.c.workspace).where(targets.c.kind.in_(kinds))
        return self._database.read(lambda c: [(row[-1], Target(*row[:-1])) for row in c.execute(asked)])

    def _change(
        self,
        statement: Executable,
        workspace: str,
        target: str,
        node: str,
        values: Mapping[str, object],
        event: str,
        text: str,
    ) -> bool:
        """Change a row of a node. False, without an event, if there is none in that state."""
        asked = {**_of((workspace, target)), "node": node, **values}

        def transaction(connection: Connection) -> bool:
            if connection.execute(statement, asked).first() is None:
                return False
            target_events.append(connection, workspace, target, event, text)
            return True

        return self._database.write(transaction)


def _of(key: Key) -> dict[str, str]:
    return {"of_workspace": key[0], "of_target": key[1]}


def _listed(ids: Sequence[str]) -> str:
    """Nodes for people: how many, and the first ones."""
    shown = ", ".join(ids[:_MOST_NAMED]) + (" ..." if len(ids) > _MOST_NAMED else "")
    return f"{len(ids)} node{'' if len(ids) == 1 else 's'} ({shown})"


def _rows(connection: Connection, key: Key) -> list[NodeRow]:
    here = _of(key)
    users: dict[str, list[str]] = {}
    used: dict[str, Amount] = {}
    for row in connection.execute(_runs_there, here):
        users.setdefault(row.node, []).append(row.id)
        taken = Amount(row.millicores, row.memory_mb, len(row.gpus))
        used[row.node] = used.get(row.node, Amount()) + taken
    found = []
    for row in connection.execute(_LIST, here):
        size = Amount(row.millicores, row.memory_mb, row.gpus)
        there = tuple(users.get(row.id, ()))
        free = size - used.get(row.id, Amount())
        found.append(
            NodeRow(
                row.id, row.state, size, row.is_low_priority, row.created_at, row.idle_since, row.message, there, free
            )
        )
    return found


def _preempt(connection: Connection, key: Key, node: str, why: str, state: str) -> list[str]:
    here = _of(key)
    known = next((each for each in _rows(connection, key) if each.id == node), None)
    if known is None or known.state in GOING:
        return []
    values = {**here, "node": node, "before": known.state, "after": state, "why": why, "idle": None}
    connection.execute(_MOVE, values)
    evicted = []
    for run in known.runs:
        if transitions.request_eviction(connection, key[0], run, why).eviction == why:
            evicted.append(run)
    kind, text = ("node_preempted", "was taken away") if state == PREEMPTED else ("node_failed", "is lost")
    again = f"; queued again: {', '.join(evicted[:_MOST_NAMED])}" if evicted else ""
    target_events.append(connection, *key, kind, f"node {node} {text}: {why}{again}")
    return evicted
