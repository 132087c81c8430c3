"""Ended attempts that may still have files or processes on their machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select, tuple_, update

from windlass.core.entities import Run
from windlass.core.states import Reason
from windlass.store.db.column_types import now
from windlass.store.db.schema import attempts, runs
from windlass.store.runs.records import Attempt
from windlass.store.runs.rows import ATTEMPT, RUN, run_of

TargetKeys = Sequence[tuple[str, str]]  # workspace and name

_left = (
    select(*ATTEMPT, *RUN)
    .join(runs, runs.c.pk == attempts.c.run)
    .where(attempts.c.cleaned_at.is_(None), attempts.c.handle.is_not(None))
    .order_by(attempts.c.run)
    .limit(bindparam("most"))
)
_UNCLEANED = _left.where(attempts.c.ended_at < bindparam("before"))
_GIVEN_UP = _left.where(attempts.c.reason == Reason.GAVE_UP)
_MARK = (
    update(attempts)
    .where(attempts.c.run == select(runs.c.pk).where(runs.c.id == bindparam("of")).scalar_subquery())
    .where(attempts.c.number == bindparam("which"))
    .values(cleaned_at=bindparam("at"))
)


def uncleaned(
    connection: Connection, before: datetime, limit: int, elsewhere: TargetKeys = ()
) -> list[tuple[Run, Attempt]]:
    """Attempts that ended before then and are still to be cleaned up, oldest first, except on targets `elsewhere`."""
    return _pairs(connection.execute(_without(_UNCLEANED, elsewhere), {"before": before, "most": limit}))


def given_up(connection: Connection, limit: int, elsewhere: TargetKeys = ()) -> list[tuple[Run, Attempt]]:
    """Attempts without contact for so long that their run was ended; their processes may still run."""
    return _pairs(connection.execute(_without(_GIVEN_UP, elsewhere), {"most": limit}))


def _without(asked: Select[Any], targets: TargetKeys) -> Select[Any]:
    return asked.where(tuple_(runs.c.workspace, runs.c.target).not_in(targets)) if targets else asked


def _pairs(found: Iterable[Any]) -> list[tuple[Run, Attempt]]:
    return [(run_of(row), Attempt(*row[: len(ATTEMPT)])) for row in found]


def mark_cleaned(connection: Connection, cleaned: Sequence[tuple[str, int]]) -> None:
    if cleaned:
        moment = now()
        connection.execute(_MARK, [{"of": run, "which": number, "at": moment} for run, number in cleaned])
