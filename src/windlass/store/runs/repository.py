"""The repository of runs, attempts and events. Each method is one transaction; the modules beside it do the work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, select, type_coerce, update
from sqlalchemy.exc import IntegrityError

from windlass.core.entities import Artifact, Event, Run, RunSpec
from windlass.core.errors import (
    AlreadyExists,
    Conflict,
    InvalidRequest,
    NotFound,
    ServerUnavailable,
    SnapshotIncomplete,
)
from windlass.core.placement import Key
from windlass.core.states import FINAL, Intent, RunState, Step
from windlass.store.db.base import Database
from windlass.store.db.column_types import Json, now
from windlass.store.db.group_commit import GroupCommit, QueuedWork
from windlass.store.db.schema import QueueState, runs, snapshots, specs, targets, workspaces
from windlass.store.runs import (
    admission,
    attempt_cleanup,
    changes,
    columns,
    counts,
    deletion,
    events,
    labels,
    leases,
    script_calls,
    search,
    submission,
    transitions,
    unfinished,
    writer_offsets,
)
from windlass.store.runs.admission import CapacityOf
from windlass.store.runs.changes import ChangePosition, Changes
from windlass.store.runs.columns import Columns
from windlass.store.runs.counts import RunCounts
from windlass.store.runs.query import Page, RunQuery
from windlass.store.runs.records import Attempt, Ending, Leased, NewRun, Submitted, UncleanedAttempt, UnfinishedRun
from windlass.store.runs.rows import CHANGED, RUN, find_run, run_of

T = TypeVar("T")

_SPEC = select(specs.c.spec).join(runs, runs.c.pk == specs.c.run).where(runs.c.id == bindparam("of"))
_ACTIVE = select(runs.c.id).where(runs.c.queue_state.is_not(None))
_SPECS = (
    select(specs.c.spec).join(runs, runs.c.pk == specs.c.run).where(runs.c.id.in_(bindparam("ids", expanding=True)))
)
_AT_ONCE = 5000  # databases bound the number of parameters
_ORIGIN = _SPEC.outerjoin(
    targets, (targets.c.workspace == runs.c.workspace) & (targets.c.name == runs.c.target)
).with_only_columns(type_coerce(specs.c.spec, Json), targets.c.kind)


class _QueuedSubmit(QueuedWork):
    """A run that is to be inserted, and the result."""

    def __init__(self, new: NewRun, terms: tuple[str, CapacityOf, float]) -> None:
        super().__init__()
        self.new = new
        self.terms = terms  # the owner, the capacities, the seconds of the lease
        self.result: Submitted | None = None

    @property
    def is_settled(self) -> bool:
        return self.result is not None or self.error is not None  # each run may have had its own transaction


class Runs:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._submits: dict[Key, GroupCommit[_QueuedSubmit]] = {}  # by target: a lock on one delays no other

    # Submit and admission

    def submit(self, new: NewRun, owner: str, capacity_of: CapacityOf, lease_seconds: float) -> Submitted:
        """Insert a run, once per key: dispatched and leased if the target has room for it, queued otherwise. Submits
        to one target at the same time share a transaction and most of its statements.
        """
        if new.spec is None:
            raise InvalidRequest(f"Run {new.id} says nothing of what to run.")
        mine = _QueuedSubmit(new, (owner, capacity_of, lease_seconds))
        group = self._submits.setdefault((new.workspace, new.spec.target), GroupCommit(_interrupted))
        group.execute(mine, self._submit_batch)
        assert mine.result is not None
        return mine.result

    def _submit_batch(self, batch: list[_QueuedSubmit]) -> None:
        if not self._submit_together(batch):
            for each in batch:
                self._submit_alone(each)

    def _submit_together(self, batch: list[_QueuedSubmit]) -> bool:
        """Insert the runs in one transaction. False if that fails, such as because one of them cannot be inserted."""
        terms = batch[0].terms
        if len(batch) == 1 or any(each.terms != terms for each in batch):
            return False
        news = [each.new for each in batch]
        try:
            made = self._database.write(lambda c: submission.submit(c, news, *terms))
        except (IntegrityError, Conflict, InvalidRequest, NotFound):
            return False
        for each, result in zip(batch, made, strict=True):
            each.result = result
        return True

    def _submit_alone(self, one: _QueuedSubmit) -> None:
        def transaction(connection: Connection, existing: Mapping[str, Run]) -> Submitted:
            if one.new.id in existing:
                return existing[one.new.id], False, None
            [made] = submission.submit(connection, [one.new], *one.terms)
            return made

        try:
            one.result = self._insert([one.new], transaction)
        except Exception as error:
            one.fail(error)

    def create(self, news: Sequence[NewRun]) -> list[Run]:
        """Insert interactive runs, all or none. They are running; their owner reports how they go."""
        return self._insert(news, lambda c, there: [there.get(new.id) or submission.create(c, new) for new in news])

    def admit(
        self, workspace: str, target: str, owner: str, capacity_of: CapacityOf, lease_seconds: float
    ) -> list[Leased]:
        """Dispatch the queued runs that may start now, of this target and of others on its computer: by priority, then
        first come, first served. Returns them with their leases.
        """
        return self._database.write(
            lambda c: admission.admit(c, workspace, target, owner, capacity_of, lease_seconds), durable=False
        )

    def free_allocation(
        self, run: Run, fence: int, owner: str, capacity_of: CapacityOf, lease_seconds: float
    ) -> list[Leased]:
        """Free the allocation of a run whose script has ended, before its outputs are collected, and admit others."""

        def transaction(connection: Connection) -> list[Leased]:
            if not transitions.free_allocation(connection, run.id, run.attempt, fence):
                return []
            return admission.admit(connection, run.workspace, run.target, owner, capacity_of, lease_seconds)

        return self._database.write(transaction, durable=False)

    def waiting(self, workspace: str, target: str, limit: int, known: Container[str] = ()) -> list[Leased]:
        """The runs that will be admitted next, except the `known` ones. They have no lease yet."""
        return self._database.read(lambda c: admission.waiting(c, workspace, target, limit, known))

    # Reading

    def get(self, workspace: str, id: str) -> Run:
        return self._database.read(lambda c: find_run(c, id, workspace)[1])

    def spec(self, id: str) -> RunSpec:
        spec: RunSpec | None = self._database.read(lambda c: c.execute(_SPEC, {"of": id}).scalar_one_or_none())
        if spec is None:
            raise NotFound(f"There is no run {id} that was submitted.", hint="`windlass runs` lists the runs.")
        return spec

    def active(self) -> set[str]:
        """The ids of the runs of all workspaces that have not ended."""
        return self._database.read(lambda c: set(c.execute(_ACTIVE).scalars()))

    def specs(self, ids: Collection[str]) -> list[RunSpec]:
        """The specifications of these runs; interactive runs have none."""
        wanted = list(ids)
        pieces = [{"ids": wanted[start : start + _AT_ONCE]} for start in range(0, len(wanted), _AT_ONCE)]
        return self._database.read(lambda c: [spec for piece in pieces for spec in c.execute(_SPECS, piece).scalars()])

    def origin(self, id: str) -> tuple[dict[str, Any] | None, str | None]:
        """The stored specification and the target's kind. None for what does not exist (any more)."""
        row = self._database.read(lambda c: c.execute(_ORIGIN, {"of": id}).one_or_none())
        return (None, None) if row is None else (row[0], row[1])

    def find(self, query: RunQuery) -> Page:
        return self._database.read(lambda c: search.find(c, query))

    def columns(self, workspace: str, experiment: str | None = None) -> Columns:
        """What a table of runs can show and filter by, as far as recent runs have it."""
        return self._database.read(lambda c: columns.find(c, workspace, experiment))

    def count_by_state(self, workspace: str) -> dict[RunState, int]:
        """How many runs that are not archived are in which state."""
        return self._database.read(lambda c: counts.by_state(c, workspace))

    def count_by_experiment(self, workspace: str) -> dict[str, RunCounts]:
        """The counts of experiments with runs."""
        return self._database.read(lambda c: counts.by_experiment(c, workspace))

    def count_of_experiment(self, workspace: str, name: str) -> RunCounts:
        return self._database.read(lambda c: counts.of_experiment(c, workspace, name))

    def unfinished(self, workspace: str) -> list[UnfinishedRun]:
        """The oldest dispatched and interactive runs of a workspace, at most 1000."""
        return self._database.read(lambda c: unfinished.find(c, workspace))

    def children(self, workspace: str, id: str, recursive: bool = False) -> list[Run]:
        return self._database.read(lambda c: _children(c, workspace, id, recursive))

    def events(self, id: str, after: int = 0, limit: int = 1000) -> list[Event]:
        return self._database.read(lambda c: events.read(c, id, after, limit))

    def attempts(self, id: str) -> list[Attempt]:
        return self._database.read(lambda c: transitions.read_attempts(c, id))

    def changed_since(self, workspace: str, position: ChangePosition) -> Changes:
        """The runs that changed after a position, on a shared database."""
        return self._database.read(lambda c: changes.since(c, workspace, position))

    def change_position(self, workspace: str, seconds: float) -> ChangePosition:
        """The position of so many seconds ago, on a shared database."""
        return self._database.read(lambda c: changes.position(c, workspace, seconds))

    # Changes of state

    def advance(
        self,
        id: str,
        *,
        expect: RunState,
        step: Step,
        fence: int | None,
        ending: Ending | None = None,
        data: Mapping[str, Any] | None = None,
        handle: Mapping[str, Any] | None = None,
    ) -> Run:
        """Change a run's state, if it is still `expect` and the fence still holds; otherwise Conflict. A `handle` that
        was not saved before is saved with it.
        """
        return self._database.write(
            lambda c: transitions.advance(c, id, expect, step, fence, ending, data or {}, handle),
            durable=step.state in FINAL,
        )

    def update_message(self, id: str, *, step: Step, fence: int) -> Run:
        """Change reason and message, with an event. Conflict if the state is not the step's, or the fence is old."""
        return self._database.write(lambda c: transitions.update_message(c, id, step, fence), durable=False)

    def update_progress(self, id: str, *, step: Step, fence: int) -> Run:
        """As update_message, for progress: without an event."""
        return self._database.write(lambda c: transitions.update_progress(c, id, step, fence), durable=False)

    def finish(
        self,
        id: str,
        *,
        expect: RunState,
        step: Step,
        fence: int | None,
        ending: Ending | None,
        owner: str,
        capacity_of: CapacityOf,
        lease_seconds: float,
        data: Mapping[str, Any] | None = None,
        handle: Mapping[str, Any] | None = None,
        is_freed: bool = False,
    ) -> tuple[Run, list[Leased]]:
        """Advance to a final state, free the run's allocation, and admit others, in one transaction. With `is_freed`,
        free_allocation() has freed it and admitted others already.
        """
        if step.state not in FINAL:
            raise InvalidRequest(f"Run {id} is not finished by {step.state.value}.")

        def transaction(connection: Connection) -> tuple[Run, list[Leased]]:
            run = transitions.advance(connection, id, expect, step, fence, ending, data or {}, handle)
            if is_freed:
                return run, []
            return run, admission.admit(connection, run.workspace, run.target, owner, capacity_of, lease_seconds)

        return self._database.write(transaction)

    def save_handle(self, id: str, attempt: int, handle: Mapping[str, Any], fence: int) -> None:
        self._database.write(lambda c: transitions.save_handle(c, id, attempt, handle, fence))

    def claim(self, id: str, attempt: int, instance: str, fence: int) -> str:
        """Let an instance of the job own the attempt, if none does yet; returns the owner. It may execute once this is
        committed, so it is durable. Conflict if the run has another owner or has ended.
        """
        return self._database.write(lambda c: transitions.claim(c, id, attempt, instance, fence))

    def requeue(
        self,
        id: str,
        *,
        expect: RunState,
        step: Step,
        fence: int,
        nonce: str,
        ending: Ending,
        owner: str,
        capacity_of: CapacityOf,
        lease_seconds: float,
        handle: Mapping[str, Any] | None = None,
    ) -> tuple[Run, list[Leased]]:
        """End an attempt, free its allocation, queue the run for the next attempt, which has this nonce, and admit
        runs, in one transaction. The run itself may be among them.
        """
        if not step.is_retry:
            raise InvalidRequest(f"Run {id} is not queued again by {step.state.value}.")

        def transaction(connection: Connection) -> tuple[Run, list[Leased]]:
            run = transitions.requeue(connection, id, expect, step, fence, nonce, ending, handle)
            return run, admission.admit(connection, run.workspace, run.target, owner, capacity_of, lease_seconds)

        return self._database.write(transaction)

    def request_cancel(self, workspace: str, id: str) -> Run:
        """Store the intent to cancel; a run that is still queued is canceled at once."""
        return self._database.write(lambda c: transitions.request_cancel(c, workspace, id))

    def request_eviction(self, workspace: str, id: str, why: str) -> Run:
        """Request that the attempt of a dispatched run is stopped and the run queued again. No effect on other runs."""
        return self._database.write(lambda c: transitions.request_eviction(c, workspace, id, why))

    # Leases

    def lease(
        self, owner: str, lease_seconds: float, limit: int, elsewhere: Sequence[tuple[str, str]] = ()
    ) -> list[Leased]:
        """Lease runs without a valid lease, except those on targets (workspace, name) that this owner cannot reach."""
        return self._database.write(lambda c: leases.lease(c, owner, lease_seconds, limit, elsewhere))

    def take_over(self, owner: str, lease_seconds: float) -> list[Leased]:
        """Lease all dispatched runs, at the start of a server. On a shared database, only those without a valid
        lease.
        """
        if self._database.is_shared:
            return self.lease(owner, lease_seconds, 1 << 30)
        return self._database.write(lambda c: leases.take_over(c, owner, lease_seconds))

    def renew(self, owner: str, lease_seconds: float, held: Sequence[str] | None = None) -> set[str]:
        """Renew this owner's leases, all or those of the runs `held`. Returns the runs that it still owns."""
        return self._database.write(lambda c: leases.renew(c, owner, lease_seconds, held))

    def stop_requests(self, owner: str) -> dict[str, tuple[Intent, str | None]]:
        """Runs of this owner that are to be stopped: the intent, and the reason of an eviction."""
        return self._database.read(lambda c: leases.stop_requests(c, owner))

    def release(self, owner: str) -> None:
        self._database.write(lambda c: leases.release(c, owner))

    # Cleanup of machines

    def uncleaned(
        self, before: datetime, limit: int, elsewhere: attempt_cleanup.TargetKeys = ()
    ) -> list[UncleanedAttempt]:
        return self._database.read(lambda c: attempt_cleanup.uncleaned(c, before, limit, elsewhere))

    def given_up(self, limit: int, elsewhere: attempt_cleanup.TargetKeys = ()) -> list[UncleanedAttempt]:
        return self._database.read(lambda c: attempt_cleanup.given_up(c, limit, elsewhere))

    def uncleaned_of_deleted(self, limit: int, elsewhere: attempt_cleanup.TargetKeys = ()) -> list[UncleanedAttempt]:
        return self._database.read(lambda c: attempt_cleanup.deleted(c, limit, elsewhere))

    def mark_cleaned(self, cleaned: Sequence[tuple[str, int, str]]) -> None:
        """Mark attempts, given by run, number and nonce, as having no files left on their machines."""
        self._database.write(lambda c: attempt_cleanup.mark_cleaned(c, cleaned), durable=False)

    # Reports of owners and scripts

    def heartbeat(self, workspace: str, id: str) -> Run:
        def transaction(connection: Connection) -> Run:
            pk, run = find_run(connection, id, workspace)
            connection.execute(update(runs).where(runs.c.pk == pk).values(heartbeat_at=now()))
            return run

        return self._database.write(transaction)

    def silent_interactive(self, before: datetime) -> list[Run]:
        """Interactive runs without a heartbeat since then that are not NotResponding yet: people leave notebooks
        behind.
        """
        is_silent = (runs.c.heartbeat_at < before) & (runs.c.state != RunState.NOT_RESPONDING)
        asked = select(*RUN).where(runs.c.queue_state == QueueState.INTERACTIVE, is_silent).order_by(runs.c.pk)
        return self._database.read(lambda c: [run_of(row) for row in c.execute(asked)])

    def append_event(self, id: str, kind: str, message: str = "", data: Mapping[str, Any] | None = None) -> Event:
        return self._database.write(lambda c: events.append(c, id, kind, message, data or {}))

    def describe(
        self,
        workspace: str,
        id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        tags: Mapping[str, str | None] | None = None,
        remove_tags: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        archived: bool | None = None,
    ) -> Run:
        """Change a run's name, description, tags and properties, archive it or restore it. Properties are written once:
        another value is a Conflict. So is archiving a run that has not ended.
        """

        def transaction(connection: Connection) -> Run:
            pk, run = find_run(connection, id, workspace, lock=True)
            changed = labels.with_changes(run, name, description, tags, remove_tags, properties, archived)
            return labels.rewrite(connection, pk, run, changed)

        return self._database.write(transaction)

    def delete(
        self, workspace: str, id: str, with_children: bool, by: str, check: Callable[[Run], None] = lambda run: None
    ) -> list[str]:
        """Delete a run that has ended, with all that belongs to it in the database, and its descendants if that is
        wanted; otherwise children are a Conflict. Returns the ids. `check` raises an error to refuse one of the runs.
        """
        return self._database.write(lambda c: deletion.delete_tree(c, workspace, id, with_children, by, check))

    def attach_snapshot(self, workspace: str, id: str, digest: str) -> Run:
        """Set the source tree of an interactive run, once."""

        def transaction(connection: Connection) -> Run:
            pk, run = find_run(connection, id, workspace, lock=True)
            if run.snapshot is not None:
                if run.snapshot != digest:
                    raise Conflict(f"Run {id} has the snapshot {run.snapshot} already.")
                return run
            changed = update(runs).where(runs.c.pk == pk).values(snapshot=digest, **CHANGED)
            return run_of(connection.execute(changed.returning(*RUN)).one())

        return self._database.write(transaction)

    def apply_calls(
        self,
        id: str,
        writer: str,
        offset: int,
        next_offset: int,
        calls: Sequence[Mapping[str, Any]],
        uploads: Sequence[Artifact],
        refused: Sequence[str] = (),
    ) -> bool:
        """Apply calls of a script exactly once; False if `offset` is not the end of this writer's last call."""
        return self._database.write(
            lambda c: script_calls.apply(c, id, writer, offset, next_offset, calls, uploads, refused)
        )

    def calls_offset(self, id: str, writer: str) -> int:
        return self._database.read(
            lambda c: writer_offsets.position(c, find_run(c, id)[0], writer_offsets.CALLS, writer)
        )

    def _insert(self, news: Sequence[NewRun], transaction: Callable[[Connection, Mapping[str, Run]], T]) -> T:
        """Insert first, and look up runs with the same keys only after a constraint failed: retries are rare, and so
        two concurrent requests with one key are handled too.
        """
        try:
            return self._database.write(lambda c: transaction(c, {}))
        except IntegrityError:
            self._database.read(lambda c: _raise_clash(c, news))
        return self._database.write(lambda c: transaction(c, submission.find_by_key(c, news)))


def _interrupted() -> ServerUnavailable:
    return ServerUnavailable("The submit was interrupted.", hint="Try again with the same key.")


def _raise_clash(connection: Connection, news: Sequence[NewRun]) -> None:
    """Raise the error for a run that could not be inserted; return if its key exists, which makes it a retry."""
    for new in news:
        if not connection.execute(select(workspaces.c.name).where(workspaces.c.name == new.workspace)).first():
            raise NotFound(f"There is no workspace {new.workspace}.")
        if (
            new.snapshot
            and not connection.execute(select(snapshots.c.digest).where(snapshots.c.digest == new.snapshot)).first()
        ):
            raise SnapshotIncomplete(f"The snapshot {new.snapshot} is not here.", hint="Send its files again.")
        taken = connection.execute(select(runs.c.key).where(runs.c.id == new.id)).one_or_none()
        if taken is not None and (taken.key is None or taken.key != new.key):
            raise AlreadyExists(f"There is a run {new.id} already.", hint="Choose another run id.")


def _children(connection: Connection, workspace: str, id: str, recursive: bool) -> list[Run]:
    find_run(connection, id, workspace)
    asked = select(*RUN).where(runs.c.parent == id)
    if recursive:
        tree = select(runs.c.id).where(runs.c.parent == id).cte("tree", recursive=True)
        tree = tree.union_all(select(runs.c.id).join(tree, runs.c.parent == tree.c.id))
        asked = select(*RUN).where(runs.c.id.in_(select(tree.c.id)))
    return [run_of(row) for row in connection.execute(asked.order_by(runs.c.pk))]
