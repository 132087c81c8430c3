"""Conversion of rows of runs to entities."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from windlass.core.entities import Artifact, Event, Run
from windlass.core.errors import NotFound
from windlass.store.db.base import change_clock
from windlass.store.db.schema import artifacts, attempts, events, runs, specs
from windlass.store.runs.records import Attempt, Leased

RUN = tuple(runs.c[name] for name in Run.__dataclass_fields__)
ATTEMPT = tuple(attempts.c[name] for name in Attempt.__dataclass_fields__)
EVENT = tuple(events.c[name] for name in ("seq", "at", "kind", "state", "reason", "message", "data"))
ARTIFACT = tuple(artifacts.c[name] for name in Artifact.__dataclass_fields__)

# Set by every change of a run that lists and streams show.
CHANGED = {"version": runs.c.version + 1, "changed_at": change_clock()}

_BY_ID = select(runs.c.pk, *RUN).where(runs.c.id == bindparam("id"))
_BY_ID_LOCKED = _BY_ID.with_for_update(key_share=True)
_LEASED = (
    select(runs.c.pk, specs.c.spec, runs.c.fence, attempts.c.nonce, attempts.c.handle, *RUN)
    .join(specs, specs.c.run == runs.c.pk)
    .join(attempts, (attempts.c.run == runs.c.pk) & (attempts.c.number == runs.c.attempt))
)
_LEASED_ONE = _LEASED.where(runs.c.pk == bindparam("pk"))
_LEASED_SOME = _LEASED.where(runs.c.pk.in_(bindparam("pks", expanding=True)))
_AT_ONCE = 5000  # databases bound the number of parameters


def run_of(row: Row[Any]) -> Run:
    """A run from a row that ends with the columns RUN."""
    return Run(*row[-len(RUN) :])


def find_run(connection: Connection, id: str, workspace: str | None = None, lock: bool = False) -> tuple[int, Run]:
    """The primary key and the run; NotFound also if it belongs to another workspace."""
    row = connection.execute(_BY_ID_LOCKED if lock else _BY_ID, {"id": id}).one_or_none()
    if row is None or (workspace is not None and row.workspace != workspace):
        raise NotFound(f"There is no run {id}.", hint="`windlass runs` lists the runs.")
    return row.pk, run_of(row)


def leased_of(connection: Connection, pks: list[int]) -> list[Leased]:
    """The runs with these primary keys, in that order, without their allocations."""
    if len(pks) == 1:  # the usual case: expanding a list in SQLAlchemy costs as much as all the rest
        return [_leased(connection.execute(_LEASED_ONE, {"pk": pks[0]}).one())]
    found = {}
    for start in range(0, len(pks), _AT_ONCE):
        for row in connection.execute(_LEASED_SOME, {"pks": pks[start : start + _AT_ONCE]}):
            found[row.pk] = _leased(row)
    return [found[pk] for pk in pks]


def _leased(row: Row[Any]) -> Leased:
    return Leased(run_of(row), row.spec, row.fence, row.nonce, row.handle)


def event_of(run: str, row: Row[Any]) -> Event:
    return Event(run, row.seq, row.at, row.kind, row.state, row.reason, row.message, row.data)
