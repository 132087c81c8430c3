"""What happened to targets and their nodes: the last events of each one, in the transaction of the change.

Those of a removed target stay for a while, and show what became of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, delete, insert, select

from windlass.store.db.base import Database
from windlass.store.db.column_types import now
from windlass.store.db.schema import target_events, targets

MOST = 1000  # of one target
_TRIMMED_EVERY = 50  # rows: older ones are deleted at every insert of such a number
KEPT_AFTER_REMOVAL = timedelta(days=30)
LONGEST = 2000  # characters of a message

_here = (target_events.c.workspace == bindparam("of"), target_events.c.target == bindparam("named"))
_ADD = insert(target_events).returning(target_events.c.pk)
_OLDEST_KEPT = select(target_events.c.pk).where(*_here).order_by(target_events.c.pk.desc()).offset(MOST - 1).limit(1)
_TRIM = delete(target_events).where(*_here, target_events.c.pk < bindparam("first"))
_LIST = (
    select(target_events.c.pk, target_events.c.at, target_events.c.kind, target_events.c.message)
    .where(*_here, target_events.c.pk < bindparam("before"))
    .order_by(target_events.c.pk.desc())
    .limit(bindparam("most"))
)
_FORGET = delete(target_events).where(
    target_events.c.workspace == bindparam("of"),
    target_events.c.at < bindparam("until"),
    target_events.c.target.not_in(select(targets.c.name).where(targets.c.workspace == bindparam("of"))),
)
_LATEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TargetEvent:
    pk: int
    at: datetime
    kind: str  # "created", "node_ready" ...
    message: str


class TargetEvents:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, workspace: str, target: str, limit: int, before: int | None = None) -> Sequence[TargetEvent]:
        """The latest events of a target, the newest first; with `before`, those older than that number."""
        asked = {"of": workspace, "named": target, "most": limit, "before": _LATEST if before is None else before}
        return self._database.read(lambda c: [TargetEvent(*row) for row in c.execute(_LIST, asked)])

    def add(self, workspace: str, target: str, kind: str, message: str) -> None:
        """Append an event that belongs to no other change of rows. A power cut may lose it."""
        self._database.write(lambda c: append(c, workspace, target, kind, message), durable=False)


def append(connection: Connection, workspace: str, target: str, kind: str, *messages: str) -> None:
    """Append an event for each message, in the transaction of the change that they tell of."""
    common = {"workspace": workspace, "target": target, "at": now(), "kind": kind}
    for message in messages:
        pk: int = connection.execute(_ADD, {**common, "message": message[:LONGEST]}).scalar_one()
        if pk % _TRIMMED_EVERY == 0:
            _trim(connection, workspace, target)


def forget_removed(connection: Connection, workspace: str) -> None:
    """Delete the events of targets that were removed long ago."""
    connection.execute(_FORGET, {"of": workspace, "until": now() - KEPT_AFTER_REMOVAL})


def _trim(connection: Connection, workspace: str, target: str) -> None:
    here = {"of": workspace, "named": target}
    first = connection.execute(_OLDEST_KEPT, here).scalar()
    if first is not None:
        connection.execute(_TRIM, {**here, "first": first})
