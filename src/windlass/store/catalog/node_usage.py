"""Node usage: current allocations of runs, and how long they had nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, func, select

from windlass.core.entities import Allocation
from windlass.core.states import RunState
from windlass.store.db.base import Database
from windlass.store.db.column_types import now
from windlass.store.db.schema import allocations, attempts, former_targets, nodes, runs
from windlass.store.runs.allocations import IS_BUSY, READY, of_runs
from windlass.store.runs.rows import find_run

_RUN = (runs.c.id, runs.c.experiment, runs.c.target, runs.c.submitted_by, runs.c.state, runs.c.created_at)


@dataclass(frozen=True, slots=True)
class NodeTime:
    """The node time of a run: the sum over its nodes and attempts."""

    run: str
    experiment: str
    target: str
    submitted_by: str
    state: RunState
    created_at: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class FormerTarget:
    """A removed target with its VM size."""

    name: str
    config: Mapping[str, str]
    removed_at: datetime


class NodeUsage:
    def __init__(self, database: Database) -> None:
        self._database = database

    def allocation(self, run: str) -> Allocation:
        """The current allocation of a run."""

        def query(connection: Connection) -> Allocation:
            pk, _ = find_run(connection, run)
            return of_runs(connection, [pk]).get(pk, Allocation())

        return self._database.read(query)

    def node_counts(self, workspace: str) -> dict[str, dict[str, int]]:
        """The number of nodes by state, for each target that has nodes. States have Azure's names."""
        asked = (
            select(nodes.c.target, nodes.c.state, IS_BUSY.label("is_busy"), func.count().label("many"))
            .where(nodes.c.workspace == workspace)
            .group_by(nodes.c.target, nodes.c.state, IS_BUSY)
        )
        found: dict[str, dict[str, int]] = {}
        for row in self._database.read(lambda c: c.execute(asked).all()):
            state = row.state if row.state != READY else "running" if row.is_busy else "idle"
            states = found.setdefault(row.target, {})
            states[state] = states.get(state, 0) + row.many
        return found

    def former_targets(self, workspace: str) -> list[FormerTarget]:
        """Removed targets, the oldest first."""
        asked = select(former_targets.c.name, former_targets.c.config, former_targets.c.removed_at)
        asked = asked.where(former_targets.c.workspace == workspace).order_by(former_targets.c.pk)
        return self._database.read(lambda c: [FormerTarget(*row) for row in c.execute(asked)])

    def node_times(self, workspace: str, since: datetime | None = None, target: str | None = None) -> list[NodeTime]:
        """Node times of the runs submitted `since` then, the longest first. Nodes that are in use count until now."""
        chosen = select(*_RUN).where(runs.c.workspace == workspace)
        if since is not None:
            chosen = chosen.where(runs.c.created_at >= since)
        if target is not None:
            chosen = chosen.where(runs.c.target == target)
        ended = chosen.add_columns(func.sum(attempts.c.node_seconds))
        ended = ended.join(attempts, attempts.c.run == runs.c.pk).where(attempts.c.node_seconds.is_not(None))
        held = chosen.add_columns(allocations.c.since)
        held = held.join(allocations, allocations.c.run == runs.c.pk).where(allocations.c.node != "")

        def query(connection: Connection) -> list[NodeTime]:
            moment = now()
            found = [NodeTime(*row) for row in connection.execute(ended.group_by(*_RUN))]
            held_now = [(*row[:-1], _seconds(row.since, moment)) for row in connection.execute(held)]
            found += [NodeTime(*each) for each in held_now]
            return _summed(found)

        return self._database.read(query)


def _seconds(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())


def _summed(times: Iterable[NodeTime]) -> list[NodeTime]:
    """Sum up the times of each run."""
    by_run: dict[str, NodeTime] = {}
    for each in times:
        before = by_run.get(each.run)
        by_run[each.run] = each if before is None else replace(each, seconds=before.seconds + each.seconds)
    return sorted(by_run.values(), key=lambda each: (-each.seconds, each.run))
