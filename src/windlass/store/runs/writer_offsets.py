"""Offsets up to which each writer's lines were stored. An offset moves in the transaction that stores the lines, so
that each line counts exactly once.
"""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select, update

from windlass.core.errors import InvalidRequest
from windlass.store.db.base import insert_or
from windlass.store.db.schema import cursors

METRICS = "metrics"
CALLS = "calls"

_of_writer = (
    (cursors.c.run == bindparam("of")) & (cursors.c.kind == bindparam("what")) & (cursors.c.writer == bindparam("by"))
)
_READ = select(cursors.c.position).where(_of_writer)
_MOVE = (
    update(cursors)
    .where(_of_writer, cursors.c.position == bindparam("here"))
    .values(position=bindparam("there"))
    .returning(cursors.c.position)
)
_BEGIN = insert_or(cursors).on_conflict_do_nothing().returning(cursors.c.position)


def position(connection: Connection, pk: int, kind: str, writer: str) -> int:
    return connection.execute(_READ, {"of": pk, "what": kind, "by": writer}).scalar_one_or_none() or 0


def move(connection: Connection, pk: int, kind: str, writer: str, here: int, there: int) -> bool:
    """Move a writer's offset from `here` to `there`; False if it is not `here`. Without a row it is 0."""
    if not 0 <= here <= there:
        raise InvalidRequest(f"A writer's offset goes from 0 forward, not from {here} to {there}.")
    moved = connection.execute(_MOVE, {"of": pk, "what": kind, "by": writer, "here": here, "there": there})
    if moved.one_or_none() is not None:
        return True
    if here > 0:
        return False
    begun = connection.execute(_BEGIN, {"run": pk, "kind": kind, "writer": writer, "position": there})
    return begun.one_or_none() is not None
