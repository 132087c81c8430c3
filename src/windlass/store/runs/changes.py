"""Changes of runs that any server has made, on a shared database.

`changed_at` is the database's clock when a row was written, which is before the commit: a change may become visible
after later ones. So each read goes back a while, and leaves out what is known. Deleted runs stand in the audit log,
whose rows become visible in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, func, select

from windlass.store.db.base import change_clock
from windlass.store.db.schema import audit, runs

DELETE = "run.delete"
LATE = 10_000_000  # microseconds after which a change is visible at the latest
MOST = 500  # rows per read

_CLOCK = select(change_clock())
_CHANGED = (
    select(runs.c.id, runs.c.changed_at)
    .where(runs.c.workspace == bindparam("of"), runs.c.changed_at > bindparam("after"))
    .order_by(runs.c.changed_at.desc())
    .limit(MOST)
)
_LAST_ENTRY = select(func.coalesce(func.max(audit.c.pk), 0)).where(audit.c.workspace == bindparam("of"))
_ENTRIES = (
    select(audit.c.pk, audit.c.act, audit.c.object)
    .where(audit.c.workspace == bindparam("of"), audit.c.pk > bindparam("after"))
    .order_by(audit.c.pk)
    .limit(MOST)
)


@dataclass(frozen=True, slots=True)
class ChangePosition:
    """All changes until `changed_at`, later ones in `known`, and entries of the audit log until `entry` were read."""

    changed_at: int
    entry: int
    known: Mapping[str, int] = field(default_factory=dict)  # when these runs were changed, by id
    is_crowded: bool = False  # there were more changes than a read returns, so that some are not known


@dataclass(frozen=True, slots=True)
class Changes:
    """The ids of the changed runs, None if any may have changed; and the position after them."""

    ids: Sequence[str] | None
    position: ChangePosition


def position(connection: Connection, workspace: str, seconds: float) -> ChangePosition:
    clock = connection.execute(_CLOCK).scalar_one()
    entry = connection.execute(_LAST_ENTRY, {"of": workspace}).scalar_one()
    return ChangePosition(clock - int(seconds * 1e6), entry)


def since(connection: Connection, workspace: str, after: ChangePosition) -> Changes:
    clock: int = connection.execute(_CLOCK).scalar_one()
    rows = connection.execute(_CHANGED, {"of": workspace, "after": after.changed_at}).all()
    entries = connection.execute(_ENTRIES, {"of": workspace, "after": after.entry}).all()
    known = {row.id: row.changed_at for row in rows}
    new = [id for id, changed_at in known.items() if after.known.get(id) != changed_at]
    gone = [entry.object for entry in entries if entry.act == DELETE]
    is_crowded = len(rows) == MOST
    following = ChangePosition(
        max(after.changed_at, clock - LATE), entries[-1].pk if entries else after.entry, known, is_crowded
    )
    # At the end of a crowded time too: what became visible late may be among what was not read.
    are_unknown = (is_crowded and bool(new)) or (after.is_crowded and not is_crowded) or len(entries) == MOST
    return Changes(None if are_unknown else list(dict.fromkeys([*new, *gone])), following)
