"""Runs, their attempts and events. Each method is one transaction; what it does stands in the file of its noun."""

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
from windlass.store.db.group_commit import Turns, Wish
from windlass.store.db.schema import Place, runs, snapshots, specs, targets, workspaces
from windlass.store.runs import (
    admission,
    attempt_cleanup,
    labels,
    leases,
    search,
    submission,
    transitions,
    writer_offsets,
)
from windlass.store.runs import events as stories
from windlass.store.runs import script_calls as wishes
from windlass.store.runs.admission import CapacityOf
from windlass.store.runs.query import Page, RunQuery
from windlass.store.runs.records import Attempt, Ending, Leased, NewRun, Submitted
from windlass.store.runs.rows import RUN, find_run, run_of

T = TypeVar("T")

_SPEC = select(specs.c.spec).join(runs, runs.c.pk == specs.c.run).where(runs.c.id == bindparam("of"))
_ACTIVE = select(runs.c.id).where(runs.c.place.is_not(None))
_SPECS = (
    select(specs.c.spec).join(runs, runs.c.pk == specs.c.run).where(runs.c.id.in_(bindparam("ids", expanding=True)))
)
_AT_ONCE = 5000  # databases bound the number of parameters
_ORIGIN = _SPEC.outerjoin(
    targets, (targets.c.workspace == runs.c.workspace) & (targets.c.name == runs.c.target)
).with_only_columns(type_coerce(specs.c.spec, Json), targets.c.kind)


class _Submit(Wish):
    """A run that waits to be inserted, and what became of it."""

    def __init__(self, new: NewRun, terms: tuple[str, CapacityOf, float]) -> None:
        super().__init__()
        self.new = new
        self.terms = terms  # the owner, the capacities, the seconds of the lease
        self.result: Submitted | None = None


class Runs:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._submits: dict[Key, Turns[_Submit]] = {}  # by target: a submit that waits for a lock delays no others

    # Coming in

    def submit(self, new: NewRun, owner: str, capacity_of: CapacityOf, lease_seconds: float) -> Submitted:
        """Insert a run, once per key: dispatched and leased if the target has room for it, queued otherwise. Runs of
        one target that come at the same time share a transaction and most of its statements.
        """
        if new.spec is None:
            raise InvalidRequest(f"Run {new.id} says nothing of what to run.")
        mine = _Submit(new, (owner, capacity_of, lease_seconds))
        turns = self._submits.setdefault((new.workspace, new.spec.target), Turns())
        turns.take(mine, self._submit_all)
        assert mine.result is not None
        return mine.result

    def _submit_all(self, batch: list[_Submit]) -> None:
        try:
            if not self._submit_together(batch):
                for each in batch:
                    self._submit_alone(each)
        except Exception as error:
            for each in batch:
                each.fail(error)
        except BaseException:  # this thread is being stopped; those for which it performs are not
            for each in batch:
                if each.result is None and each.error is None:
                    each.fail(ServerUnavailable("The submit was interrupted.", hint="Try again with the same key."))
            raise

    def _submit_together(self, batch: list[_Submit]) -> bool:
        """False if they cannot be inserted together, such as because one of them cannot be inserted at all."""
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

    def _submit_alone(self, one: _Submit) -> None:
        def act(connection: Connection, existing: Mapping[str, Run]) -> Submitted:
            if one.new.id in existing:
                return existing[one.new.id], False, None
            [made] = submission.submit(connection, [one.new], *one.terms)
            return made

        try:
            one.result = self._insert([one.new], act)
        except Exception as error:
            one.fail(error)

    def create(self, news: Sequence[NewRun]) -> list[Run]:
        """Interactive runs: they are running, and their owner reports. All of them, or none."""
        return self._insert(news, lambda c, there: [there.get(new.id) or submission.create(c, new) for new in news])

    def admit(
        self, workspace: str, target: str, owner: str, capacity_of: CapacityOf, lease_seconds: float
    ) -> list[Leased]:
        """Queued runs that may start now, of this target and of others on its computer: higher priority first, then
        first come, first served.
        """
        return self._database.write(
            lambda c: admission.admit(c, workspace, target, owner, capacity_of, lease_seconds), durable=False
        )

    def free_allocation(
        self, run: Run, fence: int, owner: str, capacity_of: CapacityOf, lease_seconds: float
    ) -> list[Leased]:
        """Free what a run has whose script has ended, before its record is complete, and admit others."""

        def act(connection: Connection) -> list[Leased]:
            if not transitions.release(connection, run.id, run.attempt, fence):
                return []
            return admission.admit(connection, run.workspace, run.target, owner, capacity_of, lease_seconds)

        return self._database.write(act, durable=False)

    def waiting(self, workspace: str, target: str, limit: int, known: Container[str] = ()) -> list[Leased]:
        """Who will be admitted next, but for those who are known. Nobody holds a lease on them yet."""
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
        """Those of all workspaces that have not ended."""
        return self._database.read(lambda c: set(c.execute(_ACTIVE).scalars()))

    def specs(self, ids: Collection[str]) -> list[RunSpec]:
        """Of those that were submitted."""
        wanted = list(ids)
        pieces = [{"ids": wanted[start : start + _AT_ONCE]} for start in range(0, len(wanted), _AT_ONCE)]
        return self._database.read(lambda c: [spec for piece in pieces for spec in c.execute(_SPECS, piece).scalars()])

    def origin(self, id: str) -> tuple[dict[str, Any] | None, str | None]:
        """The specification as it is written down, and the target's kind; None for what is not there, or no more."""
        row = self._database.read(lambda c: c.execute(_ORIGIN, {"of": id}).one_or_none())
        return (None, None) if row is None else (row[0], row[1])

    def find(self, query: RunQuery) -> Page:
        return self._database.read(lambda c: search.find(c, query))

    def children(self, workspace: str, id: str, recursive: bool = False) -> list[Run]:
        return self._database.read(lambda c: _children(c, workspace, id, recursive))

    def events(self, id: str, after: int = 0, limit: int = 1000) -> list[Event]:
        return self._database.read(lambda c: stories.read(c, id, after, limit))

    def attempts(self, id: str) -> list[Attempt]:
        return self._database.read(lambda c: transitions.read_attempts(c, id))

    # Going on

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

    def reword(self, id: str, *, step: Step, fence: int) -> Run:
        """Tell anew why a run waits, if it is still in the step's state and the fence holds; otherwise Conflict."""
        return self._database.write(lambda c: transitions.reword(c, id, step, fence), durable=False)

    def report(self, id: str, *, step: Step, fence: int) -> Run:
        """As reword, for progress: only the run itself says it, and none of its events."""
        return self._database.write(lambda c: transitions.report(c, id, step, fence), durable=False)

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
        """Advance to a final state, free what the run had, and admit others, in one transaction. With `is_freed`,
        free_allocation() has done that already, and there is no more room than it found.
        """
        if step.state not in FINAL:
            raise InvalidRequest(f"Run {id} is not finished by {step.state.value}.")

        def act(connection: Connection) -> tuple[Run, list[Leased]]:
            run = transitions.advance(connection, id, expect, step, fence, ending, data or {}, handle)
            if is_freed:
                return run, []
            return run, admission.admit(connection, run.workspace, run.target, owner, capacity_of, lease_seconds)

        return self._database.write(act)

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
        """End an attempt, queue the run for the next one, which has this nonce, free what it had, and admit runs, in
        one transaction. The run itself may be among them.
        """
        if not step.is_retry:
            raise InvalidRequest(f"Run {id} is not queued again by {step.state.value}.")

        def act(connection: Connection) -> tuple[Run, list[Leased]]:
            run = transitions.requeue(connection, id, expect, step, fence, nonce, ending, handle)
            return run, admission.admit(connection, run.workspace, run.target, owner, capacity_of, lease_seconds)

        return self._database.write(act)

    def request_cancel(self, workspace: str, id: str) -> Run:
        """Keep the wish; a run that still waits for its slot is canceled by it at once."""
        return self._database.write(lambda c: transitions.request_cancel(c, workspace, id))

    def request_eviction(self, workspace: str, id: str, why: str) -> Run:
        """Have the attempt of a dispatched run stopped, and the run queued again. Other runs stay as they are."""
        return self._database.write(lambda c: transitions.request_eviction(c, workspace, id, why))

    # Leases

    def lease(
        self, owner: str, lease_seconds: float, limit: int, elsewhere: Sequence[tuple[str, str]] = ()
    ) -> list[Leased]:
        """Runs that nobody owns any more, but for those on targets (workspace, name) that the owner cannot reach."""
        return self._database.write(lambda c: leases.lease(c, owner, lease_seconds, limit, elsewhere))

    def take_over(self, owner: str, lease_seconds: float) -> list[Leased]:
        """At boot: everything that was dispatched. Where other servers may live, only what they no longer own."""
        if self._database.is_shared:
            return self.lease(owner, lease_seconds, 1 << 30)
        return self._database.write(lambda c: leases.take_over(c, owner, lease_seconds))

    def renew(self, owner: str, lease_seconds: float, held: Sequence[str] | None = None) -> set[str]:
        """The runs that are still this owner's: all, or of those `held`. The leases of others run out."""
        return self._database.write(lambda c: leases.renew(c, owner, lease_seconds, held))

    def stop_requests(self, owner: str) -> dict[str, tuple[Intent, str | None]]:
        """Runs of this owner that are to be stopped: the intent, and why they are evicted."""
        return self._database.read(lambda c: leases.stop_requests(c, owner))

    def release(self, owner: str) -> None:
        self._database.write(lambda c: leases.release(c, owner))

    # What is left on machines

    def uncleaned(
        self, before: datetime, limit: int, elsewhere: attempt_cleanup.Places = ()
    ) -> list[tuple[Run, Attempt]]:
        return self._database.read(lambda c: attempt_cleanup.uncleaned(c, before, limit, elsewhere))

    def given_up(self, limit: int, elsewhere: attempt_cleanup.Places = ()) -> list[tuple[Run, Attempt]]:
        return self._database.read(lambda c: attempt_cleanup.given_up(c, limit, elsewhere))

    def mark_cleaned(self, cleaned: Sequence[tuple[str, int]]) -> None:
        """These attempts, by run and number, have nothing left on their machines."""
        self._database.write(lambda c: attempt_cleanup.mark_cleaned(c, cleaned), durable=False)

    # What owners and scripts report

    def heartbeat(self, workspace: str, id: str) -> Run:
        def act(connection: Connection) -> Run:
            pk, run = find_run(connection, id, workspace)
            connection.execute(update(runs).where(runs.c.pk == pk).values(heartbeat_at=now()))
            return run

        return self._database.write(act)

    def silent_interactive(self, before: datetime) -> list[Run]:
        """Interactive runs that were not heard of since then, but for those of which that is known: people leave
        notebooks behind.
        """
        is_silent = (runs.c.heartbeat_at < before) & (runs.c.state != RunState.NOT_RESPONDING)
        asked = select(*RUN).where(runs.c.place == Place.INTERACTIVE, is_silent).order_by(runs.c.pk)
        return self._database.read(lambda c: [run_of(row) for row in c.execute(asked)])

    def append_event(self, id: str, kind: str, message: str = "", data: Mapping[str, Any] | None = None) -> Event:
        return self._database.write(lambda c: stories.append(c, id, kind, message, data or {}))

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
    ) -> Run:
        """Change what people wrote about a run. Properties are written once: another value is a Conflict."""

        def act(connection: Connection) -> Run:
            pk, run = find_run(connection, id, workspace, lock=True)
            changed = labels.described(run, name, description, tags, remove_tags, properties)
            return labels.rewrite(connection, pk, run, changed)

        return self._database.write(act)

    def attach_snapshot(self, workspace: str, id: str, digest: str) -> Run:
        """Say which source tree an interactive run came from, once."""

        def act(connection: Connection) -> Run:
            pk, run = find_run(connection, id, workspace, lock=True)
            if run.snapshot is not None:
                if run.snapshot != digest:
                    raise Conflict(f"Run {id} has the snapshot {run.snapshot} already.")
                return run
            changed = update(runs).where(runs.c.pk == pk).values(snapshot=digest, version=runs.c.version + 1)
            return run_of(connection.execute(changed.returning(*RUN)).one())

        return self._database.write(act)

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
        """What a script asked for, exactly once; False when `offset` is not where this writer's last call ended."""
        return self._database.write(lambda c: wishes.apply(c, id, writer, offset, next_offset, calls, uploads, refused))

    def calls_cursor(self, id: str, writer: str) -> int:
        return self._database.read(
            lambda c: writer_offsets.position(c, find_run(c, id)[0], writer_offsets.CALLS, writer)
        )

    def _insert(self, news: Sequence[NewRun], act: Callable[[Connection, Mapping[str, Run]], T]) -> T:
        """Insert at once, and look for runs that these keys made before only where the database says that there are:
        retries are rare, and two that pass each other meet there too.
        """
        try:
            return self._database.write(lambda c: act(c, {}))
        except IntegrityError:
            self._database.read(lambda c: _explain_clash(c, news))
        return self._database.write(lambda c: act(c, submission.seen(c, news)))


def _explain_clash(connection: Connection, news: Sequence[NewRun]) -> None:
    """Why a run could not be inserted, unless its key was just used, which is fine."""
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
