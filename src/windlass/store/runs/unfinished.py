"""Runs that take resources or are interactive, with what tells whether they are overdue."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, or_, select

from windlass.store.db.base import lease_clock
from windlass.store.db.schema import QueueState, events, runs, specs
from windlass.store.runs.records import UnfinishedRun
from windlass.store.runs.rows import RUN, run_of

_MOST = 1000
_cancel_at = (
    select(func.max(events.c.at)).where(events.c.run == runs.c.pk, events.c.kind == "cancel").correlate(runs)
).scalar_subquery()
# A queued run has no lease, and an interactive one no server that owns it.
_has_owner = or_(runs.c.queue_state == QueueState.INTERACTIVE, runs.c.lease_until > lease_clock())
_ASKED = (
    select(_cancel_at, func.coalesce(_has_owner, False), specs.c.spec, *RUN)
    .outerjoin(specs, specs.c.run == runs.c.pk)
    .where(runs.c.queue_state.in_((QueueState.DISPATCHED, QueueState.INTERACTIVE)), runs.c.workspace == bindparam("of"))
    .order_by(runs.c.pk)
    .limit(_MOST)
)


def find(connection: Connection, workspace: str) -> list[UnfinishedRun]:
    """The oldest dispatched and interactive runs of a workspace, at most 1000."""
    rows = connection.execute(_ASKED, {"of": workspace})
    return [UnfinishedRun(run_of(row), row[2], bool(row[1]), row[0]) for row in rows]
