"""How runs come in and get their slot."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, text, update

from windlass import failpoints
from windlass.core.entities import Run, RunSpec, Target
from windlass.core.errors import Conflict, NotFound
from windlass.core.placement import Amount, Blocked, Computer, Key, Lack, Room, Share, Waiting, place
from windlass.core.states import Intent, Reason, RunState
from windlass.store import allocations, labels, stories
from windlass.store.columns import clean, now
from windlass.store.database import insert_or, lease_clock
from windlass.store.records import Account, Capacity, Leased, NewRun, Submitted
from windlass.store.rows import RUN, leased_of, run_of
from windlass.store.schema import Place, attempts, experiments, runs, specs, targets
from windlass.store.targets import ALL, CREATING, DELETING, FAILED, GET, SUCCEEDED, UPDATING

_MOST_COUNTED = 100  # a run behind more than these does not say how many
_ADMITTED_AT_ONCE = 1000  # of a target without slots; the next call takes the next ones
_ADMITTED_ON_NODES = 100  # of a cluster
_ADMITTED_PER_CORE = 10  # that is free there; of runs that declare less than that, the next call takes more


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
_SEEN = select(runs.c.body_hash, *RUN).where(runs.c.workspace == bindparam("workspace"), runs.c.key == bindparam("key"))
_NUMBER = (
    insert_or(experiments)
    .values(last_number=1, tags={})
    .on_conflict_do_update(index_elements=["workspace", "name"], set_={"last_number": experiments.c.last_number + 1})
    .returning(experiments.c.last_number)
)
_PARENT = select(runs.c.root).where(runs.c.workspace == bindparam("workspace"), runs.c.id == bindparam("parent"))
_TARGET = GET.with_for_update(read=True, key_share=True)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:queue, 0))")

_ADD = insert(runs).returning(runs.c.pk)
_ADD_LEASED = insert(runs).values(lease_until=lease_clock() + bindparam("lease")).returning(runs.c.pk)
_COLUMNS = [column.name for column in RUN]
_ADD_SPEC = insert(specs)
_ADD_ATTEMPT = insert(attempts)


def submit(connection: Connection, new: NewRun, owner: str, capacity_of: CapacityOf, lease_seconds: float) -> Submitted:
    """Insert a run: dispatched with a lease and its allocation if its target has room for it, else queued. NotFound if
    its target was detached meanwhile; Conflict if it is being deleted, or could not be created.
    """
    assert new.spec is not None
    key = (new.workspace, new.spec.target)
    target = _lock_target(connection, *key)
    is_ready = target.provisioning_state != CREATING
    capacity = capacity_of(new.workspace, target)
    shares, why = None, f"{target.name} is being created"
    if is_ready:
        shares, why = _room_for(connection, new, new.spec, capacity, capacity_of)
    reason = Reason.WAITING_FOR_SLOT if is_ready else Reason.WAITING_FOR_TARGET
    number = _next_number(connection, new)
    if shares is not None:
        run = _entity(connection, new, number, RunState.STARTING, Reason.ACCEPTED, "")
        lease = int(lease_seconds * 1e6)
        row = _row(new, run) | {"place": Place.DISPATCHED, "owner": owner, "fence": 1, "lease": lease}
    else:
        run = _entity(connection, new, number, RunState.QUEUED, reason, why)
        row = _row(new, run) | {"place": Place.WAITING}
    pk = _add(connection, run, row)
    connection.execute(_ADD_SPEC, {"run": pk, "spec": new.spec})
    connection.execute(_ADD_ATTEMPT, {"run": pk, "nonce": new.nonce, "number": 1, "started_at": run.created_at})
    leased = None
    if shares is not None:
        allocation = allocations.add(connection, pk, key, capacity.account, shares)
        leased = Leased(run, new.spec, 1, new.nonce, None, allocation)
    failpoints.reach("F04")
    return run, True, leased


def _lock_target(connection: Connection, workspace: str, target: str) -> Target:
    """Keep the target from being detached until the run is committed: it would wait for it forever. Taken before all
    other locks, so that a detach and the end of a run do not deadlock through this transaction.
    """
    row = connection.execute(_TARGET, {"of": workspace, "named": target}).first()
    if row is None:
        raise NotFound(f"There is no target {target}.", hint="`windlass compute list` lists those that there are.")
    if row.provisioning_state == DELETING:
        raise Conflict(f"{target} is being deleted: it takes no runs.", "Submit the run to another target.")
    if row.provisioning_state == FAILED:
        raise Conflict(
            f"{target} takes no runs: its provisioning failed. {row.provisioning_message}".rstrip(),
            f"Look at it: windlass compute show {target}",
        )
    return Target(*row)


def create(connection: Connection, new: NewRun) -> Run:
    """An interactive run: it is running, and its owner reports how it went."""
    run = _entity(connection, new, _next_number(connection, new), RunState.RUNNING, Reason.STARTED, "")
    _add(connection, run, _row(new, run) | {"place": Place.INTERACTIVE})
    return run


def admit(
    connection: Connection, workspace: str, target: str, owner: str, capacity_of: CapacityOf, lease_seconds: float
) -> list[Leased]:
    """Dispatch queued runs as far as there is room: of a target, and of the others on its computer."""
    row = connection.execute(GET, {"of": workspace, "named": target}).one_or_none()
    if row is None:
        return []  # it was detached
    capacity = capacity_of(workspace, Target(*row))
    lock_queue(connection, (workspace, target), capacity)
    here = _sharing(connection, (workspace, target), capacity, capacity_of)
    rooms = {key: allocations.rooms(connection, key, known) for key, known in here.items()}
    queue = sorted(
        (each for key, known in here.items() for each in _next(connection, key, known, rooms[key])),
        key=lambda each: (-each[0], each[1].run),
    )
    if not queue:
        return []
    account = capacity.account
    computer = None if account is None else allocations.computer(connection, account)
    found = place(computer, rooms, [waiting for _, waiting in queue])
    keys = {waiting.run: waiting.target for _, waiting in queue}
    return _dispatch(connection, found.placed, keys, account, owner, lease_seconds)


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
        stories.tell(connection, pk, seq, at, "state", RunState.STARTING, Reason.ACCEPTED)
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


def _next(connection: Connection, key: Key, capacity: Capacity, rooms: Sequence[Room]) -> list[tuple[int, Waiting]]:
    """The first runs of a queue, with their priorities: as many as could start."""
    most = _ADMITTED_AT_ONCE
    if not capacity.has_nodes and capacity.slots is not None:
        most = min(most, max(0, rooms[0].slots or 0))
    elif capacity.has_nodes:
        cores = sum(room.free.millicores for room in rooms if room.free is not None) / 1000
        most = min(_ADMITTED_ON_NODES, round(cores * _ADMITTED_PER_CORE) + len(rooms)) if cores > 0 else 0
    if most <= 0:
        return []
    rows = connection.execute(_NEXT, {"workspace": key[0], "target": key[1], "most": most})
    return [(row.priority, Waiting(row.pk, key, *allocations.demand(row.spec.resources, capacity))) for row in rows]


def waiting(connection: Connection, workspace: str, target: str, limit: int, known: Container[str]) -> list[Leased]:
    asked = {"workspace": workspace, "target": target, "most": limit}
    return leased_of(connection, [pk for pk, id, _ in connection.execute(_LINE, asked) if id not in known])


def lock_queue(connection: Connection, key: Key, capacity: Capacity) -> None:
    """One admission at a time per computer, or per target, however many servers there are. SQLite has one writer."""
    if connection.dialect.name == "postgresql":
        account = capacity.account
        connection.execute(_LOCK, {"queue": "/".join(key) if account is None else f"computer {account.machine}"})


def seen(connection: Connection, news: Sequence[NewRun]) -> dict[str, Run]:
    """The runs that these keys made before, by the new ids; the same key with another body is a Conflict."""
    found = {}
    for new in news:
        row = connection.execute(_SEEN, {"workspace": new.workspace, "key": new.key}).one_or_none()
        if row is not None and row.body_hash != new.body_hash:
            raise Conflict(
                f"The idempotency key {str(new.key)[:80]!r} was used for another request, which made run {row.id}.",
                hint="Use a new key for a new run.",
            )
        if row is not None:
            found[new.id] = run_of(row)
    return found


def _room_for(
    connection: Connection, new: NewRun, spec: RunSpec, capacity: Capacity, capacity_of: CapacityOf
) -> tuple[Sequence[Share] | None, str]:
    """What a new run gets if it may start now; otherwise None, and why not, for its message."""
    if capacity == Capacity():
        return [Share("", Amount())], ""
    key, parent = (new.workspace, spec.target), new.parent or ""
    lock_queue(connection, key, capacity)
    rooms = {key: allocations.rooms(connection, key, capacity, parent, spec.target)}
    asked = {"workspace": new.workspace, "target": spec.target, "priority": spec.priority}
    ahead: int = connection.execute(_COUNT_AHEAD, asked).scalar_one()
    mine = Waiting(0, key, *allocations.demand(spec.resources, capacity))
    computer, blocked = None, None
    if not ahead:
        others = _heads(connection, key, capacity, capacity_of, spec.priority)
        rooms |= {other: found for other, (found, _, _) in others.items()}
        queue = [head for _, _, head in sorted(others.values(), key=lambda each: (-each[1], each[2].run))]
        if capacity.account is not None:
            computer = allocations.computer(connection, capacity.account, parent, spec.target)
        found = place(computer, rooms, [*queue, mine])
        blocked = found.blocked.get(key)
        if blocked is None:
            return next(shares for pk, shares in found.placed if pk == mine.run), ""
    return None, explain(spec.target, capacity, rooms[key], mine.nodes, ahead, blocked, computer)


def _heads(
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


def _add(connection: Connection, run: Run, row: Mapping[str, Any]) -> int:
    """Insert the row of a new run, its first event and its labels; returns the row's number."""
    pk: int = connection.execute(_ADD_LEASED if "lease" in row else _ADD, row).scalar_one()
    stories.begin(connection, pk, run)
    labels.add(connection, pk, run.tags, run.properties)
    return pk


def _row(new: NewRun, run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in _COLUMNS} | {
        "key": new.key,
        "body_hash": new.body_hash,
        "priority": new.spec.priority if new.spec else 0,
        "last_event": 1,
        "fence": 0,
        "heartbeat_at": run.created_at,
        "searched": labels.searched(run.id, run.name),
    }


def _entity(connection: Connection, new: NewRun, number: int, state: RunState, reason: Reason, message: str) -> Run:
    at = now()
    return Run(
        id=new.id,
        workspace=new.workspace,
        experiment=new.experiment,
        number=number,
        type=new.type,
        state=state,
        state_at=at,
        created_at=at,
        target=new.spec.target if new.spec else "",
        name=clean(new.name),
        submitted_by=clean(new.submitted_by),
        parent=new.parent,
        root=_root(connection, new),
        intent=Intent.RUN,
        reason=reason,
        message=message,
        started_at=at if state is RunState.RUNNING else None,
        snapshot=new.snapshot,
        tags=labels.cleaned(new.tags),
        properties={clean(key): clean(value) for key, value in new.properties.items()},
    )


def _next_number(connection: Connection, new: NewRun) -> int:
    """The next number in the experiment, which is made if it is not there."""
    values = {"workspace": new.workspace, "name": new.experiment, "id": str(uuid.uuid4()), "created_at": now()}
    number: int = connection.execute(_NUMBER, values).scalar_one()
    return number


def _root(connection: Connection, new: NewRun) -> str:
    if new.parent is None:
        return new.id
    row = connection.execute(_PARENT, {"workspace": new.workspace, "parent": new.parent}).one_or_none()
    if row is None:
        raise NotFound(
            f"There is no run {new.parent} to be the parent of a new one.", hint="`windlass runs` lists the runs."
        )
    return str(row.root)
