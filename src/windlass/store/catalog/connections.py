"""Connections: the services that Azure's coordinates stand for. Row, credentials and audit log change in one
transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection as DatabaseConnection
from sqlalchemy import Row, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from windlass.core.coordinates import Coordinates
from windlass.core.entities import Connection
from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.store.access import secrets
from windlass.store.access.audit import AuditEntry, append
from windlass.store.access.secrets import SealedCredential
from windlass.store.catalog.workspaces import get_workspace
from windlass.store.db.base import Database
from windlass.store.db.schema import connections, targets

_ALL = select(connections)
_GET = _ALL.where(connections.c.workspace == bindparam("of"), connections.c.name == bindparam("named"))


class Connections:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, workspace: str, name: str) -> Connection:
        return self._database.read(lambda c: _get(c, workspace, name))

    def list(self, workspace: str) -> list[Connection]:
        asked = _ALL.where(connections.c.workspace == workspace).order_by(connections.c.name)
        return self._database.read(lambda c: [_entity(row) for row in c.execute(asked)])

    def add(self, workspace: str, new: Connection, credentials: Sequence[SealedCredential]) -> Connection:
        """AlreadyExists if the name is taken, Conflict if another connection of that kind has the coordinates."""

        def transaction(connection: DatabaseConnection) -> Connection:
            connection.execute(insert(connections).values(workspace=workspace, **_row(new)))
            return _finish(connection, workspace, new, credentials, new.created_by, "connection.add")

        return self._write(transaction, workspace, new)

    def replace(
        self, workspace: str, known: Connection, new: Connection, credentials: Sequence[SealedCredential], by: str
    ) -> Connection:
        """Replace the settings and credentials of a connection, unless it differs from `known`."""

        def transaction(connection: DatabaseConnection) -> Connection:
            there = _of(workspace, new.name)
            connection.execute(select(connections.c.name).where(*there).with_for_update())
            if _get(connection, workspace, new.name) != known:
                raise Conflict(f"The connection {new.name} was changed in this moment.", "Look at it, then try again.")
            connection.execute(update(connections).where(*there).values(**_row(new)))
            return _finish(connection, workspace, new, credentials, by, "connection.replace")

        return self._write(transaction, workspace, new)

    def remove(self, workspace: str, name: str, by: str) -> None:
        """Remove a connection with its credentials. Conflict while targets use it."""

        def transaction(connection: DatabaseConnection) -> None:
            known = _get(connection, workspace, name)
            _refuse_used(connection, workspace, name)
            connection.execute(delete(connections).where(*_of(workspace, name)))
            entries = secrets.drop_below(connection, workspace, f"connection/{name}", by)
            append(connection, *entries, AuditEntry(workspace, by, "connection.remove", name, {"kind": known.kind}))

        self._database.write(transaction)

    def _write(self, transaction: Any, workspace: str, new: Connection) -> Connection:
        try:
            written: Connection = self._database.write(transaction)
            return written
        except IntegrityError:
            self._database.read(lambda c: _raise_clash(c, workspace, new))
            raise Conflict(f"The connection {new.name} was changed in this moment.", "Try again.") from None


def _of(workspace: str, name: str) -> tuple[Any, Any]:
    return connections.c.workspace == workspace, connections.c.name == name


def _row(new: Connection) -> dict[str, Any]:
    coordinates = new.coordinates
    return {
        "name": new.name,
        "kind": new.kind,
        "subscription": coordinates.subscription,
        "resource_group": coordinates.resource_group,
        "resource_name": coordinates.name,
        "coordinates": coordinates.key,
        "config": new.config,
        "created_by": new.created_by,
        "created_at": new.created_at,
        "changed_at": new.changed_at,
    }


def _entity(row: Row[Any]) -> Connection:
    coordinates = Coordinates(row.resource_group, row.resource_name, row.subscription)
    return Connection(row.name, row.kind, coordinates, row.config, row.created_by, row.created_at, row.changed_at)


def _get(connection: DatabaseConnection, workspace: str, name: str) -> Connection:
    row = connection.execute(_GET, {"of": workspace, "named": name}).one_or_none()
    if row is None:
        raise NotFound(f"There is no connection {name}.", "`windlass connection list` lists those that there are.")
    return _entity(row)


def _finish(
    connection: DatabaseConnection,
    workspace: str,
    new: Connection,
    credentials: Sequence[SealedCredential],
    by: str,
    act: str,
) -> Connection:
    """Store the credentials and append to the audit log. Returns the stored connection."""
    entries = secrets.replace_below(connection, workspace, f"connection/{new.name}", credentials, by)
    details = {"kind": new.kind, "coordinates": new.coordinates.key, "config": new.config}
    append(connection, *entries, AuditEntry(workspace, by, act, new.name, details))
    return _get(connection, workspace, new.name)


def _refuse_used(connection: DatabaseConnection, workspace: str, name: str) -> None:
    asked = select(targets.c.name, targets.c.config).where(targets.c.workspace == workspace)
    used = sorted(row.name for row in connection.execute(asked) if row.config.get("connection") == name)
    if used:
        raise Conflict(
            f"The connection {name} is used by {', '.join(used)}.",
            "Detach them first: windlass compute detach NAME",
            {"targets": used},
        )


def _raise_clash(connection: DatabaseConnection, workspace: str, new: Connection) -> None:
    """Raise the error for what a new connection clashes with; return if that is gone."""
    get_workspace(connection, workspace)
    asked = _ALL.where(
        connections.c.workspace == workspace,
        connections.c.kind == new.kind,
        connections.c.coordinates == new.coordinates.key,
        connections.c.name != new.name,
    )
    other = connection.execute(asked).one_or_none()
    if other is not None:
        raise Conflict(
            f"The connection {other.name} has these coordinates already.",
            f"Change that one with --update, or remove it: windlass connection remove {other.name}",
        )
    if connection.execute(_GET, {"of": workspace, "named": new.name}).one_or_none() is not None:
        raise AlreadyExists(
            f"There is a connection {new.name} already.", "Choose another name, or change it with --update."
        )
