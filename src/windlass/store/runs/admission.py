"""How queued runs get their slot."""

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
from windlass.store.db.schema import Place, runs, specs, targets
from windlass.store.runs import allocations, events
from windlass.store.runs.records import Account, Capacity, Leased
from windlass.store.runs.rows import leased_of

_MOST_COUNTED = 100  # a run behind more than these does not say how many
_ADMITTED_AT_ONCE = 1000  # of a target without slots; the next call takes the next ones
_ADMITTED_ON_NODES = 100  # of a cluster
_ADMITTED_PER_CORE = 10  # that is free there; if those all have room, the next ones are read


CapacityOf = Callable[[str, Target], Capacity]  # of a target of a workspace; pure

_waiting = (
    (runs.c.place == Place.WAITING)
    & (runs.c.workspace == bindparam("workspace"))
    & (runs.c.target == bindparam("target"))
)
_AHEAD = select(runs.c.pk).where(_waiting, runs.c.priority >= bindparam("priority")).limit(_MOST_COUNTED)
_COUNT_AHEAD = select(func.count()).select_from(_AHEAD.subquery())
_LINE = (
    select(runs.c.pk, runs.c.id, runs.c.priority)
    .where(_waiting)
    .order_by(runs.c.priority.desc(), runs.c.pk)
    .limit(bindparam("most"))
)
_NEXT = _LINE.add_columns(specs.c.spec).join(specs, specs.c.run == runs.c.pk).with_for_update(of=runs, skip_locked=True)
_HEAD = _LINE.add_columns(specs.c.spec).join(specs, specs.c.run == runs.c.pk)
_WITH_QUEUE = ALL.add_columns(targets.c.workspace).where(
    select(runs.c.pk)
    .where(runs.c.place == Place.WAITING, runs.c.workspace == targets.c.workspace, runs.c.target == targets.c.name)
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
        place=Place.DISPATCHED,
        owner=bindparam("by"),
        fence=runs.c.fence + 1,
        lease_until=lease_clock() + bindparam("lease"),
        last_event=runs.c.last_event + 1,
        version=runs.c.version + 1,
    )
    .returning(runs.c.last_event)
)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:queue, 0))")


def admit(
    connection: Connection, workspace: str, target: str, owner: str, capacity_of: CapacityOf, lease_seconds: float
) -> list[Leased]:
    """Dispatch queued runs as far as there is room: of a target, and of the others on its computer."""
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
    account = capacity.account
    computer = None if account is None else allocations.computer(connection, account)
    found = place(computer, rooms, [waiting for _, waiting in queue])
    keys = {waiting.run: waiting.target for _, waiting in queue}
    leased = _dispatch(connection, found.placed, keys, account, owner, lease_seconds)
    has_more = any(is_cut and key not in found.blocked for key, (_, is_cut) in heads.items())
    return leased, has_more and bool(leased)


def _dispatch(
    connection: Connection,
    placed: Sequence[tuple[int, Sequence[Share]]],
    keys: Mapping[int, Key],
    account: Account | None,
    owner: str,
    lease_seconds: float,
) -> list[Leased]:
    at, lease = now(), int(lease_seconds * 1e6)
    given = {}
    for pk, shares in placed:
        seq = connection.execute(_DISPATCH, {"of": pk, "at": at, "by": owner, "lease": lease}).scalar_one()
        events.tell(connection, pk, seq, at, "state", RunState.STARTING, Reason.ACCEPTED)
        given[pk] = allocations.add(connection, pk, keys[pk], account, shares)
    pks = [pk for pk, _ in placed]
    return [replace(leased, allocation=given[pk]) for pk, leased in zip(pks, leased_of(connection, pks), strict=True)]


def queue(connection: Connection, key: Key, capacity: Capacity, limit: int) -> list[Waiting]:
    """The first runs that wait for a target, with what they need. Nothing is locked."""
    rows = connection.execute(_HEAD, {"workspace": key[0], "target": key[1], "most": limit})
    return [Waiting(row.pk, key, *allocations.demand(row.spec.resources, capacity)) for row in rows]


def shortage(
    connection: Connection, key: Key, target: Target, capacity_of: CapacityOf
) -> tuple[Account, Amount, str] | None:
    """What the computer lacks for the first run of a queue, as an amount and as a text, if that is all it waits for."""
    capacity = capacity_of(key[0], target)
    account = capacity.account
    if account is None:
        return None
    lock_queue(connection, key, capacity)
    rooms = allocations.rooms(connection, key, capacity)
    computer = allocations.computer(connection, account)
    blocked = place(computer, {key: rooms}, queue(connection, key, capacity, 1)).blocked.get(key)
    if blocked is None or blocked.lack is not Lack.COMPUTER:
        return None
    lacks = blocked.needs - replace(computer.free, gpus=len(computer.devices))
    lack = Amount(max(0, lacks.millicores), max(0, lacks.memory_mb), max(0, lacks.gpus))
    return account, lack, _short_of(account, computer, blocked.needs)


def _sharing(connection: Connection, key: Key, capacity: Capacity, capacity_of: CapacityOf) -> dict[Key, Capacity]:
    """The target, and those with queued runs that take from the same computer and are ready for runs."""
    found = {key: capacity}
    if capacity.account is None:
        return found
    for *row, workspace in connection.execute(_WITH_QUEUE).all():
        target = Target(*row)
        if (workspace, target.name) == key or target.provisioning_state not in (SUCCEEDED, UPDATING):
            continue
        other = capacity_of(workspace, target)
        if other.account is not None and other.account.machine == capacity.account.machine:
            found[workspace, target.name] = other
    return found


def _next(
    connection: Connection, key: Key, capacity: Capacity, rooms: Sequence[Room]
) -> tuple[list[tuple[int, Waiting]], bool]:
    """The first runs of a queue, with their priorities: about as many as could start. Also whether runs that declare
    little may have room behind them.
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
    asked = {"workspace": workspace, "target": target, "most": limit}
    return leased_of(connection, [pk for pk, id, _ in connection.execute(_LINE, asked) if id not in known])


def lock_queue(connection: Connection, key: Key, capacity: Capacity) -> None:
    """One admission at a time per computer, or per target, however many servers there are. SQLite has one writer."""
    if connection.dialect.name == "postgresql":
        account = capacity.account
        connection.execute(_LOCK, {"queue": "/".join(key) if account is None else f"computer {account.machine}"})


def count_ahead(connection: Connection, key: Key, priority: int) -> int:
    """How many runs of a queue a new one of this priority must not overtake; not more than are counted."""
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


def explain(
    target: str,
    capacity: Capacity,
    rooms: Sequence[Room],
    nodes: int,
    ahead: int,
    blocked: Blocked | None,
    computer: Computer | None,
) -> str:
    """Why a run waits, in numbers that a person can act on."""
    many = f"{_MOST_COUNTED} or more" if ahead >= _MOST_COUNTED else str(ahead)
    behind = f"{many} {'is' if ahead == 1 else 'are'} ahead"
    if blocked is not None and blocked.lack is Lack.COMPUTER and computer is not None and capacity.account is not None:
        return _short_of(capacity.account, computer, blocked.needs)
    if capacity.has_nodes:
        idle = sum(room.free == room.size for room in rooms)
        return f"{idle} of {len(rooms)} nodes of {target} are idle, {nodes} needed; {behind}"
    slots = capacity.slots or 0
    busy = slots - (rooms[0].slots or 0) if rooms else 0
    runs_are = "1 run is" if busy == 1 else f"{busy} runs are"
    have = "1 slot" if slots == 1 else f"{slots} slots"
    return f"{runs_are} running on {target}, which has {have}; {behind}"


def _short_of(account: Account, computer: Computer, needs: Amount) -> str:
    free = computer.free
    lacks = []
    if needs.millicores > free.millicores:
        cores, left, whole = (each / 1000 for each in (needs.millicores, max(0, free.millicores), account.millicores))
        lacks.append(f"{cores:g} cores needed, {left:g} of {whole:g} free")
    if needs.memory_mb > free.memory_mb:
        lacks.append(f"{needs.memory_mb} MB of memory needed, {max(0, free.memory_mb)} of {account.memory_mb} free")
    if needs.gpus > len(computer.devices):
        lacks.append(f"{needs.gpus} GPUs needed, {len(computer.devices)} of {account.gpus} free")
    return "the computer is in use: " + ("; ".join(lacks) or "a run of another target is ahead")
