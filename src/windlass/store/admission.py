"""How runs come in and get their slot."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, insert, select, text, update

from windlass import failpoints
from windlass.core.entities import Run
from windlass.core.errors import Conflict, NotFound
from windlass.core.states import Intent, Reason, RunState
from windlass.store import labels, stories
from windlass.store.columns import clean, now
from windlass.store.database import insert_or, lease_clock
from windlass.store.records import Leased, NewRun, Submitted
from windlass.store.rows import RUN, leased_of, run_of
from windlass.store.schema import Place, attempts, experiments, runs, specs, targets
from windlass.store.targets import CREATING, DELETING, FAILED

_MOST_COUNTED = 100  # who waits behind more than these is not told how many
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
_BUSY = _free_of(_holder, _holder.c.id != bindparam("but"))
_BUSY_BUT = _free_of(_holder, _holder.c.id.not_in(bindparam("left", expanding=True)))
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
    .values(last_number=bindparam("more"), tags={})
    .on_conflict_do_update(
        index_elements=["workspace", "name"], set_={"last_number": experiments.c.last_number + bindparam("more")}
    )
    .returning(experiments.c.last_number)
)
_PARENT = select(runs.c.root).where(runs.c.workspace == bindparam("workspace"), runs.c.id == bindparam("parent"))
_TARGET = (
    select(targets.c.provisioning_state, targets.c.provisioning_message)
    .where(targets.c.workspace == bindparam("workspace"), targets.c.name == bindparam("target"))
    .with_for_update(read=True, key_share=True)
)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:queue, 0))")

_ADD = insert(runs).returning(runs.c.pk, runs.c.id)
_ADD_LEASED = insert(runs).values(lease_until=lease_clock() + bindparam("lease")).returning(runs.c.pk, runs.c.id)
_COLUMNS = [column.name for column in RUN]
_ADD_SPEC = insert(specs)
_ADD_ATTEMPT = insert(attempts)


def submit(
    connection: Connection,
    news: Sequence[NewRun],
    owner: str,
    slots: Mapping[tuple[str, str], int | None],
    lease_seconds: float,
) -> list[Submitted]:
    """`slots` by workspace and target; NotFound if there is none for a run, or its target was detached meanwhile.
    Conflict if it is being deleted, or could not be created.
    """
    queues = _Queues(connection, slots, _hold_targets(connection, news, slots))
    waits = [queues.join(new) for new in news]
    numbers = _numbers(connection, news)
    made = [
        _entity(connection, new, number, RunState.STARTING, Reason.ACCEPTED, "")
        if wait is None
        else _entity(connection, new, number, RunState.QUEUED, *wait)
        for new, number, wait in zip(news, numbers, waits, strict=True)
    ]
    lease = {"place": Place.DISPATCHED, "owner": owner, "fence": 1, "lease": int(lease_seconds * 1e6)}
    rows = [
        _row(new, run) | ({"place": Place.WAITING} if run.state is RunState.QUEUED else lease)
        for new, run in zip(news, made, strict=True)
    ]
    pks = _add(connection, made, rows)
    connection.execute(_ADD_SPEC, [{"run": pks[new.id], "spec": new.spec} for new in news])
    began = {"number": 1, "started_at": made[0].created_at}
    connection.execute(_ADD_ATTEMPT, [{"run": pks[new.id], "nonce": new.nonce, **began} for new in news])
    failpoints.reach("F04")
    return [(run, True, _lease(new, run)) for new, run in zip(news, made, strict=True)]


def _hold_targets(
    connection: Connection, news: Sequence[NewRun], slots: Mapping[tuple[str, str], int | None]
) -> set[tuple[str, str]]:
    """Lock the targets, so that none is detached before these runs are in: they would wait there for ever. Locked
    before anything else, so that a detach and the end of a run do not wait for each other. Returns those that are being
    created.
    """
    created = set()
    for workspace, target in sorted({(new.workspace, new.spec.target) for new in news if new.spec}):
        here = {"workspace": workspace, "target": target}
        row = connection.execute(_TARGET, here).first() if (workspace, target) in slots else None
        if row is None:
            raise NotFound(f"There is no target {target}.", hint="`windlass compute list` lists those that there are.")
        state, message = row
        if state == CREATING:
            created.add((workspace, target))
        elif state == DELETING:
            raise Conflict(f"{target} is being deleted: it takes no runs.", "Submit the run to another target.")
        elif state == FAILED:
            raise Conflict(
                f"{target} takes no runs: its provisioning failed. {message}".rstrip(),
                f"Look at it: windlass compute show {target}",
            )
    return created


def _lease(new: NewRun, run: Run) -> Leased | None:
    assert new.spec is not None
    return None if run.state is RunState.QUEUED else Leased(run, new.spec, 1, new.nonce)


def create(connection: Connection, new: NewRun) -> Run:
    """An interactive run: it is running, and its owner will tell how it went."""
    [number] = _numbers(connection, [new])
    run = _entity(connection, new, number, RunState.RUNNING, Reason.STARTED, "")
    _add(connection, [run], [_row(new, run) | {"place": Place.INTERACTIVE}])
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


class _Queues:
    """Who gets a slot and who waits, for runs that come in one after the other, in one transaction."""

    def __init__(
        self,
        connection: Connection,
        slots: Mapping[tuple[str, str], int | None],
        in_creation: Collection[tuple[str, str]],
    ) -> None:
        self._connection = connection
        self._slots = slots
        self._in_creation = in_creation
        self._seen: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._dispatched: Counter[tuple[str, str]] = Counter()
        self._waiting: list[tuple[tuple[str, str], int]] = []
        for queue in sorted(queue for queue, count in slots.items() if count is not None):
            lock_queue(connection, *queue)

    def join(self, new: NewRun) -> tuple[Reason, str] | None:
        """Why it must wait, or None if it may start."""
        assert new.spec is not None
        queue, priority = (new.workspace, new.spec.target), new.spec.priority
        slots = self._slots[queue]
        if queue in self._in_creation:
            self._waiting.append((queue, priority))
            return Reason.WAITING_FOR_TARGET, f"{queue[1]} is being created"
        if slots is None:
            return None
        busy, ahead = self._look(queue, new.parent or "", priority)
        busy += self._dispatched[queue]
        ahead += sum(there == queue and before >= priority for there, before in self._waiting)
        if busy < slots and not ahead:
            self._dispatched[queue] += 1
            return None
        self._waiting.append((queue, priority))
        runs_are = "1 run is" if busy == 1 else f"{busy} runs are"
        have = "1 slot" if slots == 1 else f"{slots} slots"
        many = f"{_MOST_COUNTED} or more" if ahead >= _MOST_COUNTED else str(ahead)
        where = f"{runs_are} running on {queue[1]}, which has {have}; {many} {'is' if ahead == 1 else 'are'} ahead"
        return Reason.WAITING_FOR_SLOT, where

    def _look(self, queue: tuple[str, str], parent: str, priority: int) -> tuple[int, int]:
        asked = (*queue, parent, priority)
        if asked not in self._seen:
            values = dict(zip(("workspace", "target", "but", "priority"), asked, strict=True))
            busy, ahead = self._connection.execute(_BUSY_AND_AHEAD, values).one()
            self._seen[asked] = busy, ahead
        return self._seen[asked]


def _add(connection: Connection, new: Sequence[Run], rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The rows of new runs, their first events and labels; their row numbers by their ids."""
    pks: dict[str, int] = {}
    for statement, is_leased in ((_ADD, False), (_ADD_LEASED, True)):
        some = [row for row in rows if ("lease" in row) is is_leased]
        if some:
            pks |= {row.id: row.pk for row in connection.execute(statement, some)}
    stories.begin(connection, [(pks[run.id], run) for run in new])
    for run in new:
        labels.add(connection, pks[run.id], run.tags, run.properties)
    return pks


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


def _numbers(connection: Connection, news: Sequence[NewRun]) -> list[int]:
    """The next numbers in the experiments, which are made if they are not there."""
    more = Counter((new.workspace, new.experiment) for new in news)
    following = {}
    for workspace, name in sorted(more):  # in one order, so that two transactions do not wait for each other
        values = {"workspace": workspace, "name": name, "id": str(uuid.uuid4()), "created_at": now()}
        last: int = connection.execute(_NUMBER, {**values, "more": more[workspace, name]}).scalar_one()
        following[workspace, name] = itertools.count(last - more[workspace, name] + 1)
    return [next(following[new.workspace, new.experiment]) for new in news]


def _root(connection: Connection, new: NewRun) -> str:
    if new.parent is None:
        return new.id
    row = connection.execute(_PARENT, {"workspace": new.workspace, "parent": new.parent}).one_or_none()
    if row is None:
        raise NotFound(
            f"There is no run {new.parent} to be the parent of a new one.", hint="`windlass runs` lists the runs."
        )
    return str(row.root)
