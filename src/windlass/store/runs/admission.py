"""Admission: queued runs are dispatched as soon as their target has room for them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, bindparam, func, select, text, update

from windlass.core.entities import Target
from windlass.core.placement import Amount, Blocked, Computer, Key, Lack, Room, Share, Waiting, place
from windlass.core.states import Reason, RunState
from windlass.store.catalog.targets import ALL, GET, SUCCEEDED, UPDATING
from windlass.store.db.base import lease_clock
from windlass.store.db.column_types import now
from windlass.store.db.schema import QueueState, runs, specs, targets
from windlass.store.runs import allocations, events
from windlass.store.runs.records import Capacity, ComputerCapacity, Leased
from windlass.store.runs.rows import CHANGED, leased_of

_MOST_COUNTED = 100  # the message of a run counts at most so many ahead of it
_ADMITTED_AT_ONCE = 1000  # for a target without slots; the next call admits the next ones
_ADMITTED_ON_NODES = 100  # for a cluster
_ADMITTED_PER_CORE = 10  # that is free in a cluster; if all of them have room, more are read


CapacityOf = Callable[[str, Target], Capacity]  # called with a workspace and a target; pure

_waiting = (
    (runs.c.queue_state == QueueState.WAITING)
    & (runs.c.workspace == bindparam("workspace"))
    & (runs.c.target == bindparam("target"))
)
_AHEAD = select(runs.c.pk).where(_waiting, runs.c.priority >= bindparam("priority")).limit(_MOST_COUNTED)
_COUNT_AHEAD = select(func.count()).select_from(_AHEAD.subquery())
_QUEUED = (
    select(runs.c.pk, runs.c.id, runs.c.priority)
    .where(_waiting)
    .order_by(runs.c.priority.desc(), runs.c.pk)
    .limit(bindparam("most"))
)
_NEXT = (
    _QUEUED.add_columns(specs.c.spec).join(specs, specs.c.run == runs.c.pk).with_for_update(of=runs, skip_locked=True)
)
_HEAD = _QUEUED.add_columns(specs.c.spec).join(specs, specs.c.run == runs.c.pk)
_WITH_QUEUE = ALL.add_columns(targets.c.workspace).where(
    select(runs.c.pk)
    .where(
        runs.c.queue_state == QueueState.WAITING,
        runs.c.workspace == targets.c.workspace,
        runs.c.target == targets.c.name,
    )
    .exists()
)
_DISPATCH = (
    update(runs)
    .where(runs.c.pk == bindparam("of"))
    .values(
        state=RunState.STARTING,
        state_at=bindparam("at"),
        reason=Reason.ACCEPTED,
        message="",
        queue_state=QueueState.DISPATCHED,
        owner=bindparam("by"),
        fence=runs.c.fence + 1,
        lease_until=lease_clock() + bindparam("lease"),
        last_event=runs.c.last_event + 1,
        **CHANGED,
    )
    .returning(runs.c.last_event)
)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:queue, 0))")


def admit(
    connection: Connection, workspace: str, target: str, owner: str, capacity_of: CapacityOf, lease_seconds: float
) -> list[Leased]:
    """Dispatch queued runs of a target, and of the other targets on its computer, as far as there is room."""
    leased: list[Leased] = []
    while True:
        found, has_more = _admit_some(connection, workspace, target, owner, capacity_of, lease_seconds)
        leased += found
        if not has_more:
            return leased


def _admit_some(
    connection: Connection, workspace: str, target: str, owner: str, capacity_of: CapacityOf, lease_seconds: float
) -> tuple[list[Leased], bool]:
    """Dispatch the first runs of the queues; also whether there may be room for runs behind those that were read."""
    row = connection.execute(GET, {"of": workspace, "named": target}).one_or_none()
    if row is None:
        return [], False  # it was detached
    capacity = capacity_of(workspace, Target(*row))
    lock_queue(connection, (workspace, target), capacity)
    here = _sharing(connection, (workspace, target), capacity, capacity_of)
    rooms = {key: allocations.rooms(connection, key, known) for key, known in here.items()}
    heads = {key: _next(connection, key, known, rooms[key]) for key, known in here.items()}
    queue = sorted((each for head, _ in heads.values() for each in head), key=lambda each: (-each[0], each[1].run))
    if not queue:
        return [], False
    total = capacity.computer
    computer = None if total is None else allocations.computer(connection, total)
    found = place(computer, rooms, [waiting for _, waiting in queue])
    keys = {waiting.run: waiting.target for _, waiting in queue}
    leased = _dispatch(connection, found.placed, keys, total, owner, lease_seconds)
    has_more = any(is_cut and key not in found.blocked for key, (_, is_cut) in heads.items())
    return leased, has_more and bool(leased)


def _dispatch(
    connection: Connection,
    placed: Sequence[tuple[int, Sequence[Share]]],
    keys: Mapping[int, Key],
    total: ComputerCapacity | None,
    owner: str,
    lease_seconds: float,
) -> list[Leased]:
    at, lease = now(), int(lease_seconds * 1e6)
    allocated = {}
    for pk, shares in placed:
        seq = connection.execute(_DISPATCH, {"of": pk, "at": at, "by": owner, "lease": lease}).scalar_one()
        events.write(connection, pk, seq, at, "state", RunState.STARTING, Reason.ACCEPTED)
        allocated[pk] = allocations.add(connection, pk, keys[pk], total, shares)
    pks = [pk for pk, _ in placed]
    return [
        replace(leased, allocation=allocated[pk]) for pk, leased in zip(pks, leased_of(connection, pks), strict=True)
    ]


def queue(connection: Connection, key: Key, capacity: Capacity, limit: int) -> list[Waiting]:
    """The first queued runs of a target, with what they need. Takes no lock."""
    rows = connection.execute(_HEAD, {"workspace": key[0], "target": key[1], "most": limit})
    return [Waiting(row.pk, key, *allocations.demand(row.spec.resources, capacity)) for row in rows]


def shortage(
    connection: Connection, key: Key, target: Target, capacity_of: CapacityOf
) -> tuple[ComputerCapacity, Amount, str] | None:
    """What the computer lacks for the first run of a queue, as an amount and as a text. None if the run does not wait
    for the computer.
    """
    capacity = capacity_of(key[0], target)
    total = capacity.computer
    if total is None:
        return None
    lock_queue(connection, key, capacity)
    rooms = allocations.rooms(connection, key, capacity)
    computer = allocations.computer(connection, total)
    blocked = place(computer, {key: rooms}, queue(connection, key, capacity, 1)).blocked.get(key)
    if blocked is None or blocked.lack is not Lack.COMPUTER:
        return None
    lacks = blocked.needs - replace(computer.free, gpus=len(computer.devices))
    lack = Amount(max(0, lacks.millicores), max(0, lacks.memory_mb), max(0, lacks.gpus))
    return total, lack, _short_of(total, computer, blocked.needs)


def _sharing(connection: Connection, key: Key, capacity: Capacity, capacity_of: CapacityOf) -> dict[Key, Capacity]:
    """The target and the others with queued runs that share its computer and are ready for runs, with capacities."""
    found = {key: capacity}
    if capacity.computer is None:
        return found
    for *row, workspace in connection.execute(_WITH_QUEUE).all():
        target = Target(*row)
        if (workspace, target.name) == key or target.provisioning_state not in (SUCCEEDED, UPDATING):
            continue
        other = capacity_of(workspace, target)
        if other.computer is not None and other.computer.machine == capacity.computer.machine:
            found[workspace, target.name] = other
    return found


def _next(
    connection: Connection, key: Key, capacity: Capacity, rooms: Sequence[Room]
) -> tuple[list[tuple[int, Waiting]], bool]:
    """The first runs of a queue, with their priorities: about as many as could start. Also whether later runs that
    declare little may have room too.
    """
    most = _ADMITTED_AT_ONCE
    if not capacity.has_nodes and capacity.slots is not None:
        most = min(most, max(0, rooms[0].slots or 0))
    elif capacity.has_nodes:
        cores = sum(room.free.millicores for room in rooms if room.free is not None) / 1000
        most = min(_ADMITTED_ON_NODES, round(cores * _ADMITTED_PER_CORE) + len(rooms)) if cores > 0 else 0
    if most <= 0:
        return [], False
    rows = connection.execute(_NEXT, {"workspace": key[0], "target": key[1], "most": most})
    found = [(row.priority, Waiting(row.pk, key, *allocations.demand(row.spec.resources, capacity))) for row in rows]
    return found, capacity.has_nodes and len(found) == most


def waiting(connection: Connection, workspace: str, target: str, limit: int, known: Container[str]) -> list[Leased]:
    """The first queued runs of a target, except the `known` ones. They have no lease yet."""
    asked = {"workspace": workspace, "target": target, "most": limit}
    return leased_of(connection, [pk for pk, id, _ in connection.execute(_QUEUED, asked) if id not in known])


def lock_queue(connection: Connection, key: Key, capacity: Capacity) -> None:
    """Serialize admissions per computer, or per target, across servers. SQLite needs no lock: it has one writer."""
    if connection.dialect.name == "postgresql":
        total = capacity.computer
        connection.execute(_LOCK, {"queue": "/".join(key) if total is None else f"computer {total.machine}"})


def count_ahead(connection: Connection, key: Key, priority: int) -> int:
    """The number of queued runs that a new one of this priority must not overtake, at most _MOST_COUNTED."""
    asked = {"workspace": key[0], "target": key[1], "priority": priority}
    count: int = connection.execute(_COUNT_AHEAD, asked).scalar_one()
    return count


def heads(
    connection: Connection, key: Key, capacity: Capacity, capacity_of: CapacityOf, priority: int
) -> dict[Key, tuple[list[Room], int, Waiting]]:
    """The first run of every other queue for the same computer that a new run of this priority must not overtake, with
    the rooms of its target and its priority.
    """
    found = {}
    for other, known in _sharing(connection, key, capacity, capacity_of).items():
        if other == key:
            continue
        row = connection.execute(_HEAD, {"workspace": other[0], "target": other[1], "most": 1}).first()
        if row is not None and row.priority >= priority:
            head = Waiting(row.pk, other, *allocations.demand(row.spec.resources, known))
            found[other] = allocations.rooms(connection, other, known), row.priority, head
    return found


def waiting_message(
    target: str,
    capacity: Capacity,
    rooms: Sequence[Room],
    nodes: int,
    ahead: int,
    blocked: Blocked | None,
    computer: Computer | None,
) -> str:
    """The message of a queued run: why it waits, in numbers that a person can act on."""
    many = f"{_MOST_COUNTED} or more" if ahead >= _MOST_COUNTED else str(ahead)
    behind = f"{many} {'is' if ahead == 1 else 'are'} ahead"
    if blocked is not None and blocked.lack is Lack.COMPUTER and computer is not None and capacity.computer is not None:
        return _short_of(capacity.computer, computer, blocked.needs)
    if capacity.has_nodes:
        idle = sum(room.free == room.size for room in rooms)
        return f"{idle} of {len(rooms)} nodes of {target} are idle, {nodes} needed; {behind}"
    slots = capacity.slots or 0
    busy = slots - (rooms[0].slots or 0) if rooms else 0
    runs_are = "1 run is" if busy == 1 else f"{busy} runs are"
    have = "1 slot" if slots == 1 else f"{slots} slots"
    return f"{runs_are} running on {target}, which has {have}; {behind}"


def _short_of(total: ComputerCapacity, computer: Computer, needs: Amount) -> str:
    free = computer.free
    lacks = []
    if needs.millicores > free.millicores:
        cores, left, whole = (each / 1000 for each in (needs.millicores, max(0, free.millicores), total.millicores))
        lacks.append(f"{cores:g} cores needed, {left:g} of {whole:g} free")
    if needs.memory_mb > free.memory_mb:
        lacks.append(f"{needs.memory_mb} MB of memory needed, {max(0, free.memory_mb)} of {total.memory_mb} free")
    if needs.gpus > len(computer.devices):
        lacks.append(f"{needs.gpus} GPUs needed, {len(computer.devices)} of {total.gpus} free")
    return "the computer is in use: " + ("; ".join(lacks) or "a run of another target is ahead")
