"""Submit: new runs of one target are inserted together, each dispatched if the target has room for it, else queued."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from windlass import failpoints
from windlass.core.entities import Run, RunSpec, Target
from windlass.core.errors import Conflict, NotFound
from windlass.core.placement import Amount, Key, Room, Share, Waiting, place
from windlass.core.states import Intent, Reason, RunState
from windlass.store.catalog.targets import CREATING, DELETING, FAILED, GET
from windlass.store.db import search_texts
from windlass.store.db.base import change_clock, insert_or, lease_clock
from windlass.store.db.column_types import clean, now
from windlass.store.db.schema import QueueState, attempts, experiments, runs, specs
from windlass.store.runs import admission, allocations, events, labels
from windlass.store.runs.admission import CapacityOf
from windlass.store.runs.records import Capacity, Leased, NewRun, Submitted
from windlass.store.runs.rows import RUN, run_of

_BY_KEY = select(runs.c.body_hash, *RUN).where(
    runs.c.workspace == bindparam("workspace"), runs.c.key == bindparam("key")
)
_NUMBER = (
    insert_or(experiments)
    .values(last_number=bindparam("more"), tags={})
    .on_conflict_do_update(
        index_elements=["workspace", "name"], set_={"last_number": experiments.c.last_number + bindparam("more")}
    )
    .returning(experiments.c.last_number)
)
_PARENT = select(runs.c.root).where(runs.c.workspace == bindparam("workspace"), runs.c.id == bindparam("parent"))
_TARGET = GET.with_for_update(read=True, key_share=True)
_ADD = (
    insert(runs)
    .values(lease_until=lease_clock() + bindparam("lease"), changed_at=change_clock())
    .returning(runs.c.id, runs.c.pk)
)
_COLUMNS = [column.name for column in RUN]
_ADD_SPEC = insert(specs)
_ADD_ATTEMPT = insert(attempts)


def submit(
    connection: Connection, news: Sequence[NewRun], owner: str, capacity_of: CapacityOf, lease_seconds: float
) -> list[Submitted]:
    """Insert runs of one target: each is dispatched with a lease and its allocation if the target has room for it, else
    queued. NotFound if the target was detached meanwhile; Conflict if it is being deleted, or could not be created.
    """
    first = news[0]
    assert first.spec is not None
    key = (first.workspace, first.spec.target)
    target = _lock_target(connection, *key)
    batch = _SubmitBatch(connection, key, target, owner, capacity_of, lease_seconds)
    for new, number in zip(news, _next_numbers(connection, news), strict=True):
        batch.add(new, number)
    batch.write()
    failpoints.reach("F04")
    return batch.submitted


def create(connection: Connection, new: NewRun) -> Run:
    """Insert an interactive run: it is running, and its owner reports how it goes."""
    [number] = _next_numbers(connection, [new])
    run = _new_run(connection, new, number, RunState.RUNNING, Reason.STARTED, "")
    _add(connection, [(run, _row(new, run, QueueState.INTERACTIVE))])
    return run


def find_by_key(connection: Connection, news: Sequence[NewRun]) -> dict[str, Run]:
    """The existing runs with the keys of new ones, by the new ids; the same key with another body is a Conflict."""
    found = {}
    for new in news:
        row = connection.execute(_BY_KEY, {"workspace": new.workspace, "key": new.key}).one_or_none()
        if row is not None and row.body_hash != new.body_hash:
            raise Conflict(
                f"The idempotency key {str(new.key)[:80]!r} was used for another request, which made run {row.id}.",
                hint="Use a new key for a new run.",
            )
        if row is not None:
            found[new.id] = run_of(row)
    return found


@dataclass(frozen=True, slots=True)
class _Placed:
    """A new run, and its shares of the target if it is dispatched at once."""

    new: NewRun
    spec: RunSpec
    run: Run
    row: Mapping[str, Any]
    shares: Sequence[Share] | None


class _SubmitBatch:
    """Places new runs of one target, and inserts them.

    Queries are shared between runs: until one of them is dispatched, their results stay valid for all. Rows are
    collected, and inserted before the next query.
    """

    def __init__(
        self,
        connection: Connection,
        key: Key,
        target: Target,
        owner: str,
        capacity_of: CapacityOf,
        lease_seconds: float,
    ) -> None:
        self.submitted: list[Submitted] = []
        self._connection = connection
        self._key = key
        self._target = target
        self._owner = owner
        self._capacity_of = capacity_of
        self._capacity = capacity_of(key[0], target)
        self._lease = int(lease_seconds * 1e6)
        self._pending: list[_Placed] = []  # not inserted yet
        self._rooms: list[Room] | None = None
        self._ahead: dict[int, int] = {}  # how many queued runs have that priority or a higher one
        if self._is_ready and self._capacity != Capacity():
            admission.lock_queue(connection, key, self._capacity)

    @property
    def _is_ready(self) -> bool:
        return self._target.provisioning_state != CREATING

    def add(self, new: NewRun, number: int) -> None:
        spec = new.spec
        assert spec is not None
        if new.parent is not None:
            self._invalidate()  # a parent lends its share to this one
        shares, why, reason = None, f"{self._target.name} is being created", Reason.WAITING_FOR_TARGET
        if self._is_ready:
            shares, why = self._find_shares(new, spec)
            reason = Reason.WAITING_FOR_SLOT
        if shares is not None:
            run = _new_run(self._connection, new, number, RunState.STARTING, Reason.ACCEPTED, "")
            row = _row(new, run, QueueState.DISPATCHED, self._owner, self._lease)
        else:
            run = _new_run(self._connection, new, number, RunState.QUEUED, reason, why)
            row = _row(new, run, QueueState.WAITING)
        self._pending.append(_Placed(new, spec, run, row, shares))
        if shares is not None or new.parent is not None:
            self._invalidate()
        for priority in self._ahead:
            self._ahead[priority] += spec.priority >= priority

    def write(self) -> None:
        """Insert the runs that were added, with their allocations."""
        placed, self._pending = self._pending, []
        if not placed:
            return
        pks = _add(self._connection, [(each.run, each.row) for each in placed])
        rows = list(zip(pks, placed, strict=True))
        self._connection.execute(_ADD_SPEC, [{"run": pk, "spec": each.spec} for pk, each in rows])
        self._connection.execute(
            _ADD_ATTEMPT,
            [{"run": pk, "nonce": each.new.nonce, "number": 1, "started_at": each.run.created_at} for pk, each in rows],
        )
        for pk, each in rows:
            self.submitted.append((each.run, True, self._allocate(pk, each)))

    def _allocate(self, pk: int, placed: _Placed) -> Leased | None:
        if placed.shares is None:
            return None
        allocation = allocations.add(self._connection, pk, self._key, self._capacity.computer, placed.shares)
        return Leased(placed.run, placed.spec, 1, placed.new.nonce, None, allocation)

    def _find_shares(self, new: NewRun, spec: RunSpec) -> tuple[Sequence[Share] | None, str]:
        """The shares of a new run if it may start now; otherwise None, and the message that says why."""
        connection, key, capacity = self._connection, self._key, self._capacity
        if capacity == Capacity():
            return [Share("", Amount())], ""
        parent = new.parent or ""
        ahead, here = self._count_ahead(spec.priority), self._find_rooms(parent)
        mine = Waiting(0, key, *allocations.demand(spec.resources, capacity))
        computer, blocked = None, None
        if not ahead:
            self.write()
            others = admission.heads(connection, key, capacity, self._capacity_of, spec.priority)
            rooms = {key: here} | {other: found for other, (found, _, _) in others.items()}
            queue = [head for _, _, head in sorted(others.values(), key=lambda each: (-each[1], each[2].run))]
            if capacity.computer is not None:
                computer = allocations.computer(connection, capacity.computer, parent, key[1])
            found = place(computer, rooms, [*queue, mine])
            blocked = found.blocked.get(key)
            if blocked is None:
                return next(shares for pk, shares in found.placed if pk == mine.run), ""
        return None, admission.waiting_message(key[1], capacity, here, mine.nodes, ahead, blocked, computer)

    def _count_ahead(self, priority: int) -> int:
        if priority not in self._ahead:
            self.write()
            self._ahead[priority] = admission.count_ahead(self._connection, self._key, priority)
        return self._ahead[priority]

    def _find_rooms(self, parent: str) -> list[Room]:
        if self._rooms is None:
            self.write()
            self._rooms = allocations.rooms(self._connection, self._key, self._capacity, parent, self._key[1])
        return self._rooms

    def _invalidate(self) -> None:
        self._rooms = None
        self._ahead.clear()


def _lock_target(connection: Connection, workspace: str, target: str) -> Target:
    """Lock the target, so that it is not detached before the run is committed: the run would stay queued forever. Taken
    before all other locks, so that a detach and the end of a run do not deadlock through this transaction.
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


def _add(connection: Connection, placed: Sequence[tuple[Run, Mapping[str, Any]]]) -> list[int]:
    """Insert the rows of new runs, their first events and their labels; returns the primary keys."""
    found: dict[str, int] = {id: pk for id, pk in connection.execute(_ADD, [row for _, row in placed])}
    inserted = [(found[run.id], run) for run, _ in placed]
    events.write_first(connection, inserted)
    for pk, run in inserted:
        labels.add(connection, pk, run.tags, run.properties)
    return [pk for pk, _ in inserted]


def _row(
    new: NewRun, run: Run, queue_state: QueueState, owner: str | None = None, lease: int | None = None
) -> dict[str, Any]:
    return {name: getattr(run, name) for name in _COLUMNS} | {
        "key": new.key,
        "body_hash": new.body_hash,
        "priority": new.spec.priority if new.spec else 0,
        "last_event": 1,
        "queue_state": queue_state,
        "owner": owner,
        "lease": lease,
        "fence": 0 if lease is None else 1,
        "heartbeat_at": run.created_at,
        "searched": search_texts.of_run(run.id, run.name, run.experiment, run.tags),
        "searched_arguments": search_texts.of_words(_words(new.spec)),
    }


def _words(spec: RunSpec | None) -> Sequence[str]:
    return () if spec is None else (spec.script or "", *spec.command, *spec.arguments)


def _new_run(connection: Connection, new: NewRun, number: int, state: RunState, reason: Reason, message: str) -> Run:
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


def _next_numbers(connection: Connection, news: Sequence[NewRun]) -> list[int]:
    """The next run numbers of the experiments, which are created if they do not exist."""
    many = Counter((new.workspace, new.experiment) for new in news)
    following = {}
    for (workspace, name), more in sorted(many.items()):  # in order: rows are locked until the commit
        values = {"workspace": workspace, "name": name, "id": str(uuid.uuid4()), "created_at": now(), "more": more}
        last: int = connection.execute(_NUMBER, values).scalar_one()
        following[workspace, name] = iter(range(last - more + 1, last + 1))
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
