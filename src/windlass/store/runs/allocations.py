"""Allocations: slots, cores, memory and GPUs of dispatched runs. Written with the dispatch, freed at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, func, insert, select, update

from windlass.core.entities import Allocation, NodeShare, Resources
from windlass.core.placement import Amount, Computer, Key, Room, Share
from windlass.store.db.column_types import now
from windlass.store.db.schema import allocations, attempts, nodes, runs
from windlass.store.runs.records import Capacity, ComputerCapacity

READY = "ready"
LEAST_SHARE = Amount(millicores=1000)  # the share of a node for a run that declares memory or GPUs but no cores

_holder = runs.alias("holder")
_child = runs.alias("child")
# A parent lends its allocation to its children on the same target. `parent` is the parent of a run being submitted.
_is_lent = (
    select(_child.c.pk)
    .where(_child.c.parent == _holder.c.id, _child.c.queue_state.is_not(None), _child.c.target == _holder.c.target)
    .exists()
)
_is_lent_now = (_holder.c.id == bindparam("parent")) & (_holder.c.target == bindparam("of_target"))
_HELD = allocations.join(_holder, _holder.c.pk == allocations.c.run)
_here = (allocations.c.workspace == bindparam("workspace")) & (allocations.c.target == bindparam("target"))


def _held(where: ColumnElement[bool], *columns: Any) -> Select[Any]:
    return select(*columns).select_from(_HELD).where(where, ~_is_lent, ~_is_lent_now)


_SUMS = (func.coalesce(func.sum(allocations.c.millicores), 0), func.coalesce(func.sum(allocations.c.memory_mb), 0))
_BUSY_SLOTS = _held(_here, func.count())
_USED = _held(allocations.c.machine == bindparam("machine"), *_SUMS)
_DEVICES = _held(allocations.c.machine == bindparam("machine"), allocations.c.gpus)
_ON_NODES = _held(_here, allocations.c.node, allocations.c.millicores, allocations.c.memory_mb, allocations.c.gpus)
_READY_NODES = (
    select(nodes.c.id, nodes.c.millicores, nodes.c.memory_mb, nodes.c.gpus)
    .where(nodes.c.workspace == bindparam("workspace"), nodes.c.target == bindparam("target"), nodes.c.state == READY)
    .order_by(nodes.c.created_at, nodes.c.id)
)
_ADD = insert(allocations)
_OF_RUNS = (
    select(allocations.c.run, allocations.c.node, allocations.c.millicores, allocations.c.memory_mb, allocations.c.gpus)
    .where(allocations.c.run.in_(bindparam("pks", expanding=True)))
    .order_by(allocations.c.run, allocations.c.ordinal)
)
_FREE = (
    delete(allocations)
    .where(allocations.c.run == bindparam("of"))
    .returning(allocations.c.workspace, allocations.c.target, allocations.c.node, allocations.c.since)
)
_COUNT_SECONDS = (
    update(attempts)
    .where(attempts.c.run == bindparam("of"), attempts.c.number == bindparam("which"))
    .values(node_seconds=func.coalesce(attempts.c.node_seconds, 0) + bindparam("seconds"))
)
# Whether a run has an allocation on a node.
IS_BUSY = (
    select(allocations.c.run)
    .where(
        allocations.c.workspace == nodes.c.workspace,
        allocations.c.target == nodes.c.target,
        allocations.c.node == nodes.c.id,
    )
    .exists()
)
_IDLE = (
    update(nodes)
    .where(
        nodes.c.workspace == bindparam("of_workspace"),
        nodes.c.target == bindparam("of_target"),
        nodes.c.id == bindparam("node"),
        ~IS_BUSY,
    )
    .values(idle_since=bindparam("at"))
)
_BUSY = (
    update(nodes)
    .where(nodes.c.workspace == bindparam("of_workspace"), nodes.c.target == bindparam("of_target"))
    .where(nodes.c.id == bindparam("node"))
    .values(idle_since=None)
)
_AT_ONCE = 5000  # databases bound the number of parameters


def demand(asked: Resources, capacity: Capacity) -> tuple[int, Amount | None]:
    """The number of rooms (nodes or slots) that a run needs, and the amount of each; None: a whole node."""
    declared = Amount(round((asked.cpus or 0) * 1000), asked.memory_mb or 0, asked.gpus or 0)
    if capacity.has_nodes:
        if declared == Amount():
            return asked.nodes or 1, None
        return asked.nodes or 1, declared if declared.millicores else declared + LEAST_SHARE
    if capacity.computer is None:
        return 1, Amount()
    if not declared.millicores and capacity.slots:
        declared += Amount(millicores=capacity.computer.millicores // capacity.slots)
    return 1, declared


def rooms(connection: Connection, key: Key, capacity: Capacity, parent: str = "", of_target: str = "") -> list[Room]:
    """The rooms of a target: its ready nodes, or the target as one, with what is free in them."""
    here = {"workspace": key[0], "target": key[1], "parent": parent, "of_target": of_target}
    if not capacity.has_nodes:
        if capacity.slots is None:
            return [Room()]
        return [Room(slots=capacity.slots - int(connection.execute(_BUSY_SLOTS, here).scalar_one()))]
    used: dict[str, Amount] = {}
    for row in connection.execute(_ON_NODES, here):
        used[row.node] = used.get(row.node, Amount()) + Amount(row.millicores, row.memory_mb, len(row.gpus))
    found = []
    for row in connection.execute(_READY_NODES, here):
        size = Amount(row.millicores, row.memory_mb, row.gpus)
        found.append(Room(row.id, size=size, free=size - used.get(row.id, Amount())))
    return found


def computer(connection: Connection, total: ComputerCapacity, parent: str = "", of_target: str = "") -> Computer:
    """What is free of a computer."""
    asked = {"machine": total.machine, "parent": parent, "of_target": of_target}
    millicores, memory_mb = connection.execute(_USED, asked).one()
    taken: set[int] = set()
    if total.gpus:
        taken.update(device for gpus in connection.execute(_DEVICES, asked).scalars() for device in gpus)
    devices = tuple(device for device in range(total.gpus) if device not in taken)
    free = Amount(total.millicores - millicores, total.memory_mb - memory_mb, len(devices))
    return Computer(free, devices)


def add(
    connection: Connection, pk: int, key: Key, total: ComputerCapacity | None, shares: Sequence[Share]
) -> Allocation:
    """Insert the allocation of a run, in the transaction that dispatches it."""
    at = now()
    rows = [
        {
            "run": pk,
            "ordinal": ordinal,
            "workspace": key[0],
            "target": key[1],
            "node": share.room,
            "machine": "" if total is None else total.machine,
            "millicores": share.amount.millicores,
            "memory_mb": share.amount.memory_mb,
            "gpus": list(share.devices),
            "since": at,
        }
        for ordinal, share in enumerate(shares)
    ]
    connection.execute(_ADD, rows)
    for share in shares:
        if share.room:
            connection.execute(_BUSY, {"of_workspace": key[0], "of_target": key[1], "node": share.room})
    return Allocation(tuple(_share(share.room, share.amount, share.devices) for share in shares))


def of_runs(connection: Connection, pks: Sequence[int]) -> dict[int, Allocation]:
    """The allocations of these runs; runs without one are left out."""
    found: dict[int, list[NodeShare]] = {}
    for start in range(0, len(pks), _AT_ONCE):
        for row in connection.execute(_OF_RUNS, {"pks": list(pks[start : start + _AT_ONCE])}):
            share = _share(row.node, Amount(row.millicores, row.memory_mb), row.gpus)
            found.setdefault(row.run, []).append(share)
    return {pk: Allocation(tuple(shares)) for pk, shares in found.items()}


def free(connection: Connection, pk: int, attempt: int) -> bool:
    """Free the allocation of a run, and add the time that it had nodes to its attempt. False if it had none."""
    freed = connection.execute(_FREE, {"of": pk}).all()
    at = now()
    on_nodes = [row for row in freed if row.node]
    if on_nodes:
        seconds = sum((at - row.since).total_seconds() for row in on_nodes)
        connection.execute(_COUNT_SECONDS, {"of": pk, "which": attempt, "seconds": max(0.0, seconds)})
    for row in on_nodes:
        connection.execute(_IDLE, {"of_workspace": row.workspace, "of_target": row.target, "node": row.node, "at": at})
    return bool(freed)


def _share(node: str, amount: Amount, devices: Iterable[int]) -> NodeShare:
    return NodeShare(node, amount.millicores / 1000, amount.memory_mb, tuple(devices))
