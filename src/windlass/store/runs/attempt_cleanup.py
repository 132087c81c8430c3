"""Ended attempts that may still have files or processes on their machine, also those of deleted runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, Table, bindparam, delete, insert, select, tuple_, update

from windlass.core.states import Reason
from windlass.store.db.column_types import now
from windlass.store.db.schema import attempts, deleted_attempts, runs, targets
from windlass.store.runs.records import UncleanedAttempt

TargetKeys = Sequence[tuple[str, str]]  # workspace and name

_is_left = attempts.c.cleaned_at.is_(None) & attempts.c.handle.is_not(None)
_left = (
    select(runs.c.workspace, runs.c.target, runs.c.id, *(attempts.c[name] for name in UncleanedAttempt.OF_ATTEMPT))
    .join(runs, runs.c.pk == attempts.c.run)
    .where(_is_left)
    .order_by(attempts.c.run)
    .limit(bindparam("most"))
)
_UNCLEANED = _left.where(attempts.c.ended_at < bindparam("before"))
_GIVEN_UP = _left.where(attempts.c.reason == Reason.GAVE_UP)
_DELETED = (
    select(*(deleted_attempts.c[name] for name in ("workspace", "target", "run", *UncleanedAttempt.OF_ATTEMPT)))
    .join(
        targets,
        (targets.c.workspace == deleted_attempts.c.workspace) & (targets.c.name == deleted_attempts.c.target),
    )
    .order_by(deleted_attempts.c.pk)
    .limit(bindparam("most"))
)
_MARK = (
    update(attempts)
    .where(attempts.c.run == select(runs.c.pk).where(runs.c.id == bindparam("of")).scalar_subquery())
    .where(attempts.c.number == bindparam("which"), attempts.c.nonce == bindparam("known_by"))
    .values(cleaned_at=bindparam("at"))
)
_FORGET = delete(deleted_attempts).where(
    deleted_attempts.c.run == bindparam("of"),
    deleted_attempts.c.number == bindparam("which"),
    deleted_attempts.c.nonce == bindparam("known_by"),
)
_KEEP = insert(deleted_attempts).from_select(
    ["workspace", "run", "target", "number", "nonce", "handle", "started_at", "reason"],
    select(
        runs.c.workspace,
        runs.c.id,
        runs.c.target,
        attempts.c.number,
        attempts.c.nonce,
        attempts.c.handle,
        attempts.c.started_at,
        attempts.c.reason,
    )
    .join(runs, runs.c.pk == attempts.c.run)
    .where(_is_left, runs.c.pk == bindparam("of")),
)


def uncleaned(
    connection: Connection, before: datetime, limit: int, elsewhere: TargetKeys = ()
) -> list[UncleanedAttempt]:
    """Attempts that ended before then and are still to be cleaned up, oldest first, except on targets `elsewhere`."""
    return _found(connection, _without(_UNCLEANED, runs, elsewhere), {"before": before, "most": limit})


def given_up(connection: Connection, limit: int, elsewhere: TargetKeys = ()) -> list[UncleanedAttempt]:
    """Attempts without contact for so long that their run was ended; their processes may still run."""
    return _found(connection, _without(_GIVEN_UP, runs, elsewhere), {"most": limit})


def deleted(connection: Connection, limit: int, elsewhere: TargetKeys = ()) -> list[UncleanedAttempt]:
    """Attempts of deleted runs, which are cleaned up whatever their age."""
    return _found(connection, _without(_DELETED, deleted_attempts, elsewhere), {"most": limit})


def keep_of_deleted(connection: Connection, pk: int) -> None:
    """Remember the attempts of a run that is about to be deleted whose files are still on their machines."""
    connection.execute(_KEEP, {"of": pk})


def mark_cleaned(connection: Connection, cleaned: Sequence[tuple[str, int, str]]) -> None:
    """Mark attempts, given by run, number and nonce. A new run may have the id of a deleted one, but not its nonce."""
    if cleaned:
        moment = now()
        rows = [{"of": run, "which": number, "known_by": nonce, "at": moment} for run, number, nonce in cleaned]
        connection.execute(_MARK, rows)
        connection.execute(_FORGET, [{"of": run, "which": number, "known_by": nonce} for run, number, nonce in cleaned])


def _without(asked: Select[Any], table: Table, elsewhere: TargetKeys) -> Select[Any]:
    return asked.where(tuple_(table.c.workspace, table.c.target).not_in(elsewhere)) if elsewhere else asked


def _found(connection: Connection, asked: Select[Any], values: dict[str, Any]) -> list[UncleanedAttempt]:
    return [UncleanedAttempt(*row) for row in connection.execute(asked, values)]
