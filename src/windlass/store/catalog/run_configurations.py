"""Saved run configurations of a workspace: by name, what a run is submitted with, but its snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.exc import IntegrityError

from windlass.core.codec import from_wire, to_wire
from windlass.core.entities import RunSpec
from windlass.core.errors import NotFound
from windlass.store.access.audit import AuditEntry, append
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import now
from windlass.store.db.schema import run_configurations as rows

_COLUMNS = select(rows.c.name, rows.c.content, rows.c.changed_by, rows.c.changed_at)
_LIST = _COLUMNS.where(rows.c.workspace == bindparam("of")).order_by(rows.c.name)
_GET = _COLUMNS.where(rows.c.workspace == bindparam("of"), rows.c.name == bindparam("named"))
_ADD = insert_or(rows)
_PUT = _ADD.on_conflict_do_update(
    index_elements=["workspace", "name"],
    set_={name: _ADD.excluded[name] for name in ("content", "changed_by", "changed_at")},
)
_REMOVE = delete(rows).where(rows.c.workspace == bindparam("of"), rows.c.name == bindparam("named"))


@dataclass(frozen=True, slots=True)
class SavedRunConfiguration:
    name: str
    content: RunSpec
    changed_by: str
    changed_at: datetime


class RunConfigurations:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, workspace: str) -> list[SavedRunConfiguration]:
        return self._database.read(lambda c: [_entity(*row) for row in c.execute(_LIST, {"of": workspace})])

    def get(self, workspace: str, name: str) -> SavedRunConfiguration:
        return self._database.read(lambda c: _get(c, workspace, name))

    def put(self, workspace: str, name: str, content: RunSpec, by: str) -> SavedRunConfiguration:
        """Save a run configuration; one of that name is replaced."""
        row = {"workspace": workspace, "name": name, "content": to_wire(content), "changed_by": by}

        def transaction(connection: Connection) -> SavedRunConfiguration:
            connection.execute(_PUT, {**row, "changed_at": now()})
            append(connection, AuditEntry(workspace, by, "run_configuration.put", name, {"target": content.target}))
            return _get(connection, workspace, name)

        try:
            return self._database.write(transaction)
        except IntegrityError:
            raise NotFound(f"There is no workspace {workspace}.") from None

    def remove(self, workspace: str, name: str, by: str) -> None:
        def transaction(connection: Connection) -> None:
            _get(connection, workspace, name)
            connection.execute(_REMOVE, {"of": workspace, "named": name})
            append(connection, AuditEntry(workspace, by, "run_configuration.remove", name))

        self._database.write(transaction)


def _get(connection: Connection, workspace: str, name: str) -> SavedRunConfiguration:
    row = connection.execute(_GET, {"of": workspace, "named": name}).one_or_none()
    if row is None:
        raise NotFound(f"There is no run configuration {name} in this workspace.")
    return _entity(*row)


def _entity(name: str, content: object, changed_by: str, changed_at: datetime) -> SavedRunConfiguration:
    return SavedRunConfiguration(name, from_wire(RunSpec, content), changed_by, changed_at)
