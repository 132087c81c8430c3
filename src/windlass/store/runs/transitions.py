"""State transitions of runs. Only `advance` and `requeue` change a state, and they write the event with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, insert, null, select, update

from windlass import failpoints
from windlass.core.entities import Run
from windlass.core.errors import Conflict
from windlass.core.states import FINAL, Intent, Reason, RunState, Step, may_become
from windlass.store.access import secrets
from windlass.store.db.column_types import Time, now
from windlass.store.db.schema import QueueState, attempts, runs
from windlass.store.files import artifacts, attempt_files
from windlass.store.runs import allocations, events
from windlass.store.runs.records import Attempt, Ending
from windlass.store.runs.rows import ATTEMPT, CHANGED, RUN, find_run, run_of

_GUARD = and_(runs.c.id == bindparam("of"), runs.c.state == bindparam("expect"))
_FENCED = and_(_GUARD, runs.c.fence == bindparam("held"))
_MESSAGE = {
    "reason": bindparam("why"),
    "message": bindparam("text"),
    **CHANGED,
    "last_event": runs.c.last_event + 1,
}
_CHANGE = {"state": bindparam("to"), "state_at": bindparam("now"), **_MESSAGE}
_START = {"started_at": func.coalesce(runs.c.started_at, bindparam("began", type_=Time()))}
_END = {
    "started_at": func.coalesce(runs.c.started_at, bindparam("began", type_=Time())),
    "ended_at": bindparam("ended"),
    "exit_code": bindparam("code"),
    "signal": bindparam("by_signal"),
    "error": bindparam("failure"),
    "usage": bindparam("used"),
    "queue_state": null(),
    "owner": null(),
    "lease_until": null(),
}
_WITH_EVENT = (runs.c.pk, runs.c.last_event, *RUN)


def _statement(is_fenced: bool, change: Mapping[str, Any]) -> Any:
    return update(runs).where(_FENCED if is_fenced else _GUARD).values(**_CHANGE, **change).returning(*_WITH_EVENT)


_UPDATE_MESSAGE = update(runs).where(_FENCED).values(**_MESSAGE).returning(*_WITH_EVENT)
_UPDATE_PROGRESS = (
    update(runs).where(_FENCED).values(reason=bindparam("why"), message=bindparam("text"), **CHANGED).returning(*RUN)
)
_MOVES = {fenced: _statement(fenced, {}) for fenced in (False, True)}
_STARTS = {fenced: _statement(fenced, _START) for fenced in (False, True)}
_ENDS = {fenced: _statement(fenced, _END) for fenced in (False, True)}
_END_ATTEMPT = (
    update(attempts)
    .where(attempts.c.run == bindparam("of"), attempts.c.number == bindparam("which"))
    .values(
        ended_at=bindparam("ended"), reason=bindparam("why"), exit_code=bindparam("code"), signal=bindparam("by_signal")
    )
)
_REQUEST_CANCEL = (
    update(runs)
    .where(runs.c.pk == bindparam("of"))
    .values(intent=Intent.CANCEL, **CHANGED, last_event=runs.c.last_event + 1)
    .returning(*_WITH_EVENT)
)
_QUEUE_STATE = select(runs.c.queue_state).where(runs.c.pk == bindparam("of"))
_REQUEUE = _statement(
    True,
    {
        **_START,
        "attempt": runs.c.attempt + 1,
        "queue_state": QueueState.WAITING,
        "owner": null(),
        "lease_until": null(),
        "eviction": null(),
    },
)
_ADD_ATTEMPT = insert(attempts)
_REQUEST_EVICTION = (
    update(runs)
    .where(runs.c.pk == bindparam("of"))
    .values(eviction=bindparam("why"), **CHANGED, last_event=runs.c.last_event + 1)
    .returning(*_WITH_EVENT)
)
_OWNED = select(runs.c.pk).where(
    runs.c.id == bindparam("of"), runs.c.fence == bindparam("held"), runs.c.queue_state == QueueState.DISPATCHED
)
_SAVE = (
    update(attempts)
    .where(attempts.c.run == bindparam("of"), attempts.c.number == bindparam("which"))
    .values(handle=bindparam("receipt"))
    .returning(attempts.c.number)
)
# Compare-and-set in one statement: if two servers claim at the same time, the second one gets the first one's owner.
_CLAIM = (
    update(attempts)
    .where(attempts.c.run == bindparam("of"), attempts.c.number == bindparam("which"))
    .values(claimed_by=func.coalesce(attempts.c.claimed_by, bindparam("by")))
    .returning(attempts.c.claimed_by)
)


def advance(
    connection: Connection,
    id: str,
    expect: RunState,
    step: Step,
    fence: int | None,
    ending: Ending | None,
    data: Mapping[str, Any],
    handle: Mapping[str, Any] | None = None,
) -> Run:
    """Change the state by compare-and-set: only with the current fence, only from `expect`, only forward."""
    if not may_become(expect, step.state):
        raise Conflict(f"Run {id} is {expect.value} and cannot become {step.state.value}.")
    is_final = step.state in FINAL
    at = now()
    values = {"of": id, "expect": expect, "to": step.state, "now": at, "why": step.reason, "text": step.message}
    if fence is not None:
        values["held"] = fence
    statements = _ENDS if is_final else _STARTS if step.state is RunState.RUNNING else _MOVES
    values |= _final_values(step, ending or Ending(), at) if is_final else {}
    if step.state is RunState.RUNNING:
        values["began"] = at
    row = connection.execute(statements[fence is not None], values).one_or_none()
    if row is None:
        raise _conflict(connection, id, expect, fence)
    run = run_of(row)
    if handle is not None:
        connection.execute(_SAVE, {"of": row.pk, "which": run.attempt, "receipt": dict(handle)})
    if is_final:
        data = dict(data) | _end_run(connection, row.pk, run, step, ending or Ending())
    events.write(connection, row.pk, row.last_event, at, "state", step.state, step.reason, step.message, data)
    if is_final:
        failpoints.reach("F19")
    return run


def update_message(connection: Connection, id: str, step: Step, fence: int) -> Run:
    """Change reason and message of a run, with an event; its state stays."""
    values = {"of": id, "expect": step.state, "held": fence, "why": step.reason, "text": step.message}
    row = connection.execute(_UPDATE_MESSAGE, values).one_or_none()
    if row is None:
        raise _conflict(connection, id, step.state, fence)
    events.write(connection, row.pk, row.last_event, now(), "state", step.state, step.reason, step.message)
    return run_of(row)


def update_progress(connection: Connection, id: str, step: Step, fence: int) -> Run:
    """Change reason and message of a run, without an event; its state stays."""
    values = {"of": id, "expect": step.state, "held": fence, "why": step.reason, "text": step.message}
    row = connection.execute(_UPDATE_PROGRESS, values).one_or_none()
    if row is None:
        raise _conflict(connection, id, step.state, fence)
    return run_of(row)


def _final_values(step: Step, ending: Ending, at: datetime) -> dict[str, Any]:
    return {
        "began": ending.started_at,
        "ended": ending.ended_at or at,
        "code": step.exit_code,
        "by_signal": step.signal,
        "failure": None if ending.error is None else dict(ending.error),
        "used": None if ending.usage is None else dict(ending.usage),
    }


def _end_run(connection: Connection, pk: int, run: Run, step: Step, ending: Ending) -> dict[str, Any]:
    _end_attempt(connection, pk, run, run.attempt, step, run.ended_at)
    files = ending.artifacts if run.attempt == 1 else attempt_files.settle(connection, pk, ending.artifacts)
    kept_before, not_kept = artifacts.add_new(connection, pk, files, run.attempt)
    return {
        **({"kept_before": kept_before} if kept_before else {}),
        **({"file_and_folder": not_kept} if not_kept else {}),
    }


def _conflict(connection: Connection, id: str, expect: RunState, fence: int | None) -> Conflict:
    _, run = find_run(connection, id)
    if run.state is not expect:
        return Conflict(f"Run {id} is {run.state.value} by now, not {expect.value}.")
    return Conflict(f"Run {id} has a new owner; fence {fence} no longer holds.")


def request_cancel(connection: Connection, workspace: str, id: str) -> Run:
    """Store the intent to cancel; a queued run is canceled at once. No effect on a run that has ended."""
    pk, run = find_run(connection, id, workspace, lock=True)
    if run.is_final or run.intent is Intent.CANCEL:
        return run
    row = connection.execute(_REQUEST_CANCEL, {"of": pk}).one()
    events.write(connection, pk, row.last_event, now(), "cancel", message="a cancel was requested")
    if connection.execute(_QUEUE_STATE, {"of": pk}).scalar_one() != QueueState.WAITING:
        return run_of(row)
    step = Step(RunState.CANCELED, Reason.STOPPED, "canceled before it was started")
    return advance(connection, id, run.state, step, None, None, {})


def request_eviction(connection: Connection, workspace: str, id: str, why: str) -> Run:
    """Request that the attempt of a dispatched run is stopped and the run queued again. No effect if it was requested
    before, or on other runs.
    """
    pk, run = find_run(connection, id, workspace, lock=True)
    is_dispatched = connection.execute(_QUEUE_STATE, {"of": pk}).scalar_one() == QueueState.DISPATCHED
    if not is_dispatched or run.eviction is not None:
        return run
    row = connection.execute(_REQUEST_EVICTION, {"of": pk, "why": why}).one()
    events.write(connection, pk, row.last_event, now(), "eviction", message=f"an eviction was requested: {why}")
    return run_of(row)


def requeue(
    connection: Connection,
    id: str,
    expect: RunState,
    step: Step,
    fence: int,
    nonce: str,
    ending: Ending,
    handle: Mapping[str, Any] | None = None,
) -> Run:
    """End an attempt and queue its run for the next one: the only change to an earlier state. The run's age decides its
    position in the queue.
    """
    at = now()
    values = {"of": id, "expect": expect, "held": fence, "to": step.state, "now": at, "began": ending.started_at}
    values |= {"why": step.reason, "text": step.message}
    row = None if expect in FINAL else connection.execute(_REQUEUE, values).one_or_none()
    if row is None:
        raise _conflict(connection, id, expect, fence)
    run, ended = run_of(row), row.attempt - 1
    if handle is not None:
        connection.execute(_SAVE, {"of": row.pk, "which": ended, "receipt": dict(handle)})
    _end_attempt(connection, row.pk, run, ended, step, ending.ended_at or at)
    attempt_files.keep(connection, row.pk, ended, ending.artifacts)
    connection.execute(_ADD_ATTEMPT, {"run": row.pk, "number": run.attempt, "nonce": nonce, "started_at": at})
    data = {"attempt": run.attempt}
    events.write(connection, row.pk, row.last_event, at, "attempt", step.state, step.reason, step.message, data)
    failpoints.reach("F28")
    return run


def _end_attempt(connection: Connection, pk: int, run: Run, number: int, step: Step, at: datetime | None) -> None:
    ended = {"of": pk, "which": number, "ended": at}
    why = {"why": step.reason, "code": step.exit_code, "by_signal": step.signal}
    connection.execute(_END_ATTEMPT, ended | why)
    allocations.free(connection, pk, number)
    secrets.drop_masks(connection, run.workspace, f"{run.id}.{number}")


def save_handle(connection: Connection, id: str, attempt: int, handle: Mapping[str, Any], fence: int) -> None:
    pk = connection.execute(_OWNED, {"of": id, "held": fence}).scalar_one_or_none()
    values = {"of": pk, "which": attempt, "receipt": dict(handle)}
    if pk is None or connection.execute(_SAVE, values).one_or_none() is None:
        _, run = find_run(connection, id)
        raise Conflict(
            f"Attempt {attempt} of run {id} has no handle to save: {run.state.value}, or it has a new owner."
        )


def free_allocation(connection: Connection, id: str, attempt: int, fence: int) -> bool:
    """Free the allocation of a run whose script has ended, before its outputs are collected. False if it is free
    already.
    """
    pk = connection.execute(_OWNED, {"of": id, "held": fence}).scalar_one_or_none()
    return pk is not None and allocations.free(connection, pk, attempt)


def claim(connection: Connection, id: str, attempt: int, instance: str, fence: int) -> str:
    """Make an instance of the job the owner of the attempt, if it has none; returns the owner."""
    pk = connection.execute(_OWNED, {"of": id, "held": fence}).scalar_one_or_none()
    values = {"of": pk, "which": attempt, "by": instance}
    owner: str | None = None if pk is None else connection.execute(_CLAIM, values).scalar_one_or_none()
    if owner is None:
        _, run = find_run(connection, id)
        raise Conflict(f"Attempt {attempt} of run {id} cannot be claimed: {run.state.value}, or it has a new owner.")
    return owner


def read_attempts(connection: Connection, id: str) -> list[Attempt]:
    asked = select(*ATTEMPT).join(runs, runs.c.pk == attempts.c.run).where(runs.c.id == id).order_by(attempts.c.number)
    return [Attempt(*row) for row in connection.execute(asked)]
