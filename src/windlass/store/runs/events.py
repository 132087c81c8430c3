"""Events of runs. The run's row counts them, so that their numbers have no gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from windlass.core.entities import Event, Run
from windlass.core.errors import NotFound
from windlass.core.states import Reason, RunState
from windlass.store.db.column_types import clean, now
from windlass.store.db.schema import events, runs
from windlass.store.runs.rows import CHANGED, EVENT, event_of

_INSERT = insert(events)
_COUNT = (
    update(runs)
    .where(runs.c.id == bindparam("of"))
    .values(last_event=runs.c.last_event + 1, **CHANGED)
    .returning(runs.c.pk, runs.c.last_event)
)
_READ = (
    select(*EVENT)
    .join(runs, runs.c.pk == events.c.run)
    .where(runs.c.id == bindparam("of"), events.c.seq > bindparam("after"))
    .order_by(events.c.seq)
    .limit(bindparam("most"))
)


def write(
    connection: Connection,
    pk: int,
    seq: int,
    at: datetime,
    kind: str,
    state: RunState | None = None,
    reason: Reason | None = None,
    message: str = "",
    data: Mapping[str, Any] | None = None,
) -> None:
    """Write an event whose number `seq` the caller has just counted in the run's row."""
    connection.execute(_INSERT, _values(pk, seq, at, kind, state, reason, message, data))


def _values(
    pk: int,
    seq: int,
    at: datetime,
    kind: str,
    state: RunState | None,
    reason: Reason | None,
    message: str,
    data: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    values = {"run": pk, "seq": seq, "at": at, "kind": kind, "state": state, "reason": reason, "message": message}
    return {**values, "data": dict(data or {})}


def write_first(connection: Connection, inserted: Sequence[tuple[int, Run]]) -> None:
    """Write the first events of runs that were just inserted, given with the keys of their rows."""
    connection.execute(
        _INSERT, [_values(pk, 1, run.created_at, "state", run.state, run.reason, run.message) for pk, run in inserted]
    )


def append(connection: Connection, id: str, kind: str, message: str, data: Mapping[str, Any]) -> Event:
    """Count an event in the run's row, and write it."""
    counted = connection.execute(_COUNT, {"of": id}).one_or_none()
    if counted is None:
        raise NotFound(f"There is no run {id}.", hint="`windlass runs` lists the runs.")
    at = now()
    write(connection, counted.pk, counted.last_event, at, kind, message=message, data=data)
    return Event(id, counted.last_event, at, kind, message=clean(message), data=dict(data))


def read(connection: Connection, id: str, after: int, limit: int) -> list[Event]:
    return [event_of(id, row) for row in connection.execute(_READ, {"of": id, "after": after, "most": limit})]
