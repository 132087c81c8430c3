"""How runs come in and get their slot."""

from __future__ import annotations

import uuid
from collections.abc import Container, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, insert, select, text, update

from windlass import failpoints
from windlass.core.entities import Run, RunSpec
from windlass.core.errors import Conflict, NotFound
from windlass.core.states import Intent, Reason, RunState
from windlass.store import labels, stories
from windlass.store.columns import clean, now
from windlass.store.database import insert_or, lease_clock
from windlass.store.records import Leased, NewRun, Submitted
from windlass.store.rows import RUN, leased_of, run_of
from windlass.store.schema import Place, attempts, experiments, runs, specs, targets
from windlass.store.targets import CREATING, DELETING, FAILED

_MOST_COUNTED = 100  # a run behind more than these does not say how many
_ADMITTED_AT_ONCE = 1000  # of a target without slots; the next call takes the next ones


def _busy_slots(runs_here: Any, but: ColumnElement[bool]) -> Select[int]:
    """Slots in use on a target. A parent does not count while it has active children on the same target."""
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
_BUSY = _busy_slots(_holder, _holder.c.id != bindparam("but"))
_BUSY_BUT = _busy_slots(_holder, _holder.c.id.not_in(bindparam("left", expanding=True)))
_AHEAD = select(runs.c.pk).where(_waiting, runs.c.priority >= bindparam("priority")).limit(_MOST_COUNTED)
_BUSY_AND_AHEAD = select(
    _BUSY.scalar_subquery().label("busy"),
    select(func.count()).select_from(_AHEAD.subquery()).scalar_subquery().label("ahead"),
)
_LINE = (
    select(runs.c.pk, runs.c.id).where(_waiting).order_by(runs.c.priority.desc(), runs.c.pk).limit(bindparam("most"))
)
_NEXT = _LINE.with_for_update(skip_locked=True)
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
_TARGET = (
    select(targets.c.provisioning_state, targets.c.provisioning_message)
    .where(targets.c.workspace == bindparam("workspace"), targets.c.name == bindparam("target"))
    .with_for_update(read=True, key_share=True)
)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:queue, 0))")

_ADD = insert(runs).returning(runs.c.pk)
_ADD_LEASED = insert(runs).values(lease_until=lease_clock() + bindparam("lease")).returning(runs.c.pk)
_COLUMNS = [column.name for column in RUN]
_ADD_SPEC = insert(specs)
_ADD_ATTEMPT = insert(attempts)


def submit(connection: Connection, new: NewRun, owner: str, slots: int | None, lease_seconds: float) -> Submitted:
    """Insert a run: dispatched with a lease if its target has a free slot, else queued. NotFound if its target was
    detached meanwhile; Conflict if it is being deleted, or could not be created.
    """
    assert new.spec is not None
    is_ready = _lock_target(connection, new.workspace, new.spec.target)
    waits_for = _why_queued(connection, new, new.spec, slots) if is_ready else f"{new.spec.target} is being created"
    reason = Reason.WAITING_FOR_SLOT if is_ready else Reason.WAITING_FOR_TARGET
    number = _next_number(connection, new)
    if waits_for is None:
        run = _entity(connection, new, number, RunState.STARTING, Reason.ACCEPTED, "")
        lease = int(lease_seconds * 1e6)
        row = _row(new, run) | {"place": Place.DISPATCHED, "owner": owner, "fence": 1, "lease": lease}
    else:
        run = _entity(connection, new, number, RunState.QUEUED, reason, waits_for)
        row = _row(new, run) | {"place": Place.WAITING}
    pk = _add(connection, run, row)
    connection.execute(_ADD_SPEC, {"run": pk, "spec": new.spec})
    connection.execute(_ADD_ATTEMPT, {"run": pk, "nonce": new.nonce, "number": 1, "started_at": run.created_at})
    failpoints.reach("F04")
    return run, True, None if waits_for is not None else Leased(run, new.spec, 1, new.nonce)


def _lock_target(connection: Connection, workspace: str, target: str) -> bool:
    """Keep the target from being detached until the run is committed: it would wait for it forever. Taken before all
    other locks, so that a detach and the end of a run do not deadlock through this transaction. Returns whether the
    target is ready; False: it is being created.
    """
    row = connection.execute(_TARGET, {"workspace": workspace, "target": target}).first()
    if row is None:
        raise NotFound(f"There is no target {target}.", hint="`windlass compute list` lists those that there are.")
    if row.provisioning_state == DELETING:
        raise Conflict(f"{target} is being deleted: it takes no runs.", "Submit the run to another target.")
    if row.provisioning_state == FAILED:
        raise Conflict(
            f"{target} takes no runs: its provisioning failed. {row.provisioning_message}".rstrip(),
            f"Look at it: windlass compute show {target}",
        )
    return bool(row.provisioning_state != CREATING)


def create(connection: Connection, new: NewRun) -> Run:
    """An interactive run: it is running, and its owner reports how it went."""
    run = _entity(connection, new, _next_number(connection, new), RunState.RUNNING, Reason.STARTED, "")
    _add(connection, run, _row(new, run) | {"place": Place.INTERACTIVE})
    return run


def admit(
    connection: Connection,
    workspace: str,
    target: str,
    owner: str,
    slots: int | None,
    lease_seconds: float,
    left: Sequence[str] = (),
) -> list[Leased]:
    most = _ADMITTED_AT_ONCE
    if slots is not None:
        lock_queue(connection, workspace, target)
        here = {"workspace": workspace, "target": target}
        if len(left) > 1:
            busy: int = connection.execute(_BUSY_BUT, {**here, "left": list(left)}).scalar_one()
        else:
            busy = connection.execute(_BUSY, {**here, "but": next(iter(left), "")}).scalar_one()
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


def waiting(connection: Connection, workspace: str, target: str, limit: int, known: Container[str]) -> list[Leased]:
    asked = {"workspace": workspace, "target": target, "most": limit}
    return leased_of(connection, [pk for pk, id in connection.execute(_LINE, asked) if id not in known])


def lock_queue(connection: Connection, workspace: str, target: str) -> None:
    """One admission at a time per target, however many servers there are. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"queue": f"{workspace}/{target}"})


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


def _why_queued(connection: Connection, new: NewRun, spec: RunSpec, slots: int | None) -> str | None:
    """Why a new run must wait, for its message; None if it may start."""
    if slots is None:
        return None
    lock_queue(connection, new.workspace, spec.target)
    asked = {"workspace": new.workspace, "target": spec.target, "but": new.parent or "", "priority": spec.priority}
    busy, ahead = connection.execute(_BUSY_AND_AHEAD, asked).one()
    if busy < slots and not ahead:
        return None
    runs_are = "1 run is" if busy == 1 else f"{busy} runs are"
    have = "1 slot" if slots == 1 else f"{slots} slots"
    many = f"{_MOST_COUNTED} or more" if ahead >= _MOST_COUNTED else str(ahead)
    return f"{runs_are} running on {spec.target}, which has {have}; {many} {'is' if ahead == 1 else 'are'} ahead"


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
