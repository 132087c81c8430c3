"""How runs come in and get their slot."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, insert, select, text, update

from windlass import failpoints
from windlass.core import codec
from windlass.core.entities import Run
from windlass.core.errors import Conflict, NotFound
from windlass.core.states import Intent, Reason, RunState
from windlass.store import labels, stories
from windlass.store.columns import clean, now
from windlass.store.database import insert_or, lease_clock
from windlass.store.records import Leased, NewRun
from windlass.store.rows import RUN, leased_of, run_of
from windlass.store.schema import Place, attempts, experiments, runs, specs

_ADMITTED_AT_ONCE = 1000  # of a target without slots; the next call takes the next ones


def _free_of(runs_here: Any, but: ColumnElement[bool]) -> Select[int]:
    """How many dispatched runs of a target hold a slot: a parent that waits for its children there lends its own."""
    child = runs.alias("child")
    has_children = (
        select(child.c.pk)
        .where(child.c.parent == runs_here.c.id, child.c.place.is_not(None), child.c.target == runs_here.c.target)
        .exists()
    )
    return select(func.count()).where(
        runs_here.c.place == Place.DISPATCHED,
        runs_here.c.workspace == bindparam("workspace"),
        runs_here.c.target == bindparam("target"),
        but,
        ~has_children,
    )


_holder = runs.alias("holder")
_waiting = (
    (runs.c.place == Place.WAITING)
    & (runs.c.workspace == bindparam("workspace"))
    & (runs.c.target == bindparam("target"))
)
_BUSY = _free_of(_holder, _holder.c.id != bindparam("parent"))
_BUSY_AND_AHEAD = select(
    _BUSY.scalar_subquery().label("busy"),
    select(func.count()).where(_waiting, runs.c.priority >= bindparam("priority")).scalar_subquery().label("ahead"),
)
_NEXT = (
    select(runs.c.pk)
    .where(_waiting)
    .order_by(runs.c.priority.desc(), runs.c.pk)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
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
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:queue, 0))")

_ADD_RUN = insert(runs).returning(runs.c.pk)
_ADD_LEASED_RUN = insert(runs).values(lease_until=lease_clock() + bindparam("lease")).returning(runs.c.pk)
_ADD_SPEC = insert(specs)
_ADD_ATTEMPT = insert(attempts)


def submit(
    connection: Connection, new: NewRun, owner: str, slots: int | None, lease_seconds: float
) -> tuple[Run, bool, Leased | None]:
    assert new.spec is not None
    message = _reason_to_wait(connection, new, slots)
    is_waiting = message is not None
    state, reason = (RunState.QUEUED, Reason.WAITING_FOR_SLOT) if is_waiting else (RunState.STARTING, Reason.ACCEPTED)
    place = {"place": Place.WAITING} if is_waiting else {"place": Place.DISPATCHED, "owner": owner, "fence": 1}
    run, pk = _add(connection, new, state, reason, message or "", place, lease_seconds)
    spec = codec.to_wire(new.spec)
    connection.execute(_ADD_SPEC, {"run": pk, "spec": spec})
    connection.execute(_ADD_ATTEMPT, {"run": pk, "number": 1, "nonce": new.nonce, "started_at": run.created_at})
    failpoints.reach("F04")
    return run, True, None if is_waiting else Leased(run, new.spec, 1, new.nonce)


def create(connection: Connection, new: NewRun) -> Run:
    """An interactive run: it is running, and its owner will tell how it went."""
    run, _ = _add(connection, new, RunState.RUNNING, Reason.STARTED, "", {"place": Place.INTERACTIVE}, 0)
    return run


def admit(
    connection: Connection, workspace: str, target: str, owner: str, slots: int | None, lease_seconds: float
) -> list[Leased]:
    most = _ADMITTED_AT_ONCE
    if slots is not None:
        lock_queue(connection, workspace, target)
        here = {"workspace": workspace, "target": target, "parent": ""}
        busy: int = connection.execute(_BUSY, here).scalar_one()
        most = min(most, slots - busy)
    if most <= 0:
        return []
    asked = {"workspace": workspace, "target": target, "most": most}
    pks = list(connection.execute(_NEXT, asked).scalars())
    at, lease = now(), int(lease_seconds * 1e6)
    for pk in pks:
        seq = connection.execute(_DISPATCH, {"of": pk, "at": at, "by": owner, "lease": lease}).scalar_one()
        stories.tell(connection, pk, seq, at, "state", RunState.STARTING, Reason.ACCEPTED)
    return leased_of(connection, pks)


def lock_queue(connection: Connection, workspace: str, target: str) -> None:
    """One admission at a time per target, however many servers there are. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"queue": f"{workspace}/{target}"})


def seen(connection: Connection, news: Sequence[NewRun]) -> dict[str, Run]:
    """The runs that these keys made before, by the new ids; the same key with another wish is a mistake."""
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


def _reason_to_wait(connection: Connection, new: NewRun, slots: int | None) -> str | None:
    if slots is None or new.spec is None:
        return None
    lock_queue(connection, new.workspace, new.spec.target)
    here = {"workspace": new.workspace, "target": new.spec.target, "parent": new.parent or ""}
    busy, ahead = connection.execute(_BUSY_AND_AHEAD, {**here, "priority": new.spec.priority}).one()
    if busy < slots and not ahead:
        return None
    runs_are = "1 run is" if busy == 1 else f"{busy} runs are"
    have = "1 slot" if slots == 1 else f"{slots} slots"
    return f"{runs_are} running on {new.spec.target}, which has {have}; {ahead} {'is' if ahead == 1 else 'are'} ahead"


def _add(
    connection: Connection,
    new: NewRun,
    state: RunState,
    reason: Reason,
    message: str,
    place: dict[str, Any],
    lease_seconds: float,
) -> tuple[Run, int]:
    root = _root(connection, new)
    at = now()
    run = _entity(new, _number(connection, new, at), root, state, reason, message, at)
    values = {column.name: getattr(run, column.name) for column in RUN} | {
        "key": new.key,
        "body_hash": new.body_hash,
        "priority": new.spec.priority if new.spec else 0,
        "last_event": 1,
        "fence": 0,
        "heartbeat_at": at,
        "searched": labels.searched(run.id, run.name),
        **place,
    }
    if place["place"] is Place.DISPATCHED:
        pk = connection.execute(_ADD_LEASED_RUN, {**values, "lease": int(lease_seconds * 1e6)}).scalar_one()
    else:
        pk = connection.execute(_ADD_RUN, values).scalar_one()
    stories.tell(connection, pk, 1, at, "state", state, reason, message)
    labels.add(connection, pk, run.tags, run.properties)
    return run, pk


def _entity(new: NewRun, number: int, root: str, state: RunState, reason: Reason, message: str, at: datetime) -> Run:
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
        root=root,
        intent=Intent.RUN,
        reason=reason,
        message=message,
        started_at=at if state is RunState.RUNNING else None,
        snapshot=new.snapshot,
        tags=labels.cleaned(new.tags),
        properties={clean(key): clean(value) for key, value in new.properties.items()},
    )


def _number(connection: Connection, new: NewRun, at: datetime) -> int:
    """The next number in the experiment, which is made if it is not there."""
    values = {"workspace": new.workspace, "name": new.experiment, "id": str(uuid.uuid4()), "created_at": at}
    number: int = connection.execute(_NUMBER, values).scalar_one()
    return number


def _root(connection: Connection, new: NewRun) -> str:
    if new.parent is None:
        return new.id
    row = connection.execute(_PARENT, {"workspace": new.workspace, "parent": new.parent}).one_or_none()
    if row is None:
        raise NotFound(f"There is no run {new.parent} to be the parent of a new one.", hint="windlass runs")
    return str(row.root)
