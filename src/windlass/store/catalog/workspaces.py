"""Workspaces: the top-level containers."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, select

from windlass.core.entities import Workspace
from windlass.core.errors import AlreadyExists, NotFound
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import now
from windlass.store.db.schema import workspaces

_ALL = select(*(workspaces.c[name] for name in Workspace.__dataclass_fields__))
_GET = _ALL.where(workspaces.c.name == bindparam("named"))


class Workspaces:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Workspace] = {}  # a cache: they never change, and every request reads one

    def create(
        self,
        name: str,
        subscription_id: str = "",
        resource_group: str = "",
        location: str = "",
        tags: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> Workspace:
        """Create a workspace. With `exist_ok`, an existing one is returned unchanged."""
        new = Workspace(name, subscription_id, resource_group, location, now(), dict(tags or {}))
        added = insert_or(workspaces).values(**vars(new)).on_conflict_do_nothing().returning(workspaces.c.name)

        def transaction(connection: Connection) -> Workspace:
            if connection.execute(added).one_or_none() is None and not exist_ok:
                raise AlreadyExists(f"There is a workspace {name} already.", hint="Pass exist_ok=True to use it.")
            return get_workspace(connection, name)

        return self._database.write(transaction)

    def get(self, name: str) -> Workspace:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._database.read(lambda c: get_workspace(c, name))
        return known

    def list(self) -> list[Workspace]:
        return self._database.read(lambda c: [Workspace(*row) for row in c.execute(_ALL.order_by(workspaces.c.name))])


def get_workspace(connection: Connection, name: str) -> Workspace:
    row = connection.execute(_GET, {"named": name}).one_or_none()
    if row is None:
        raise NotFound(f"There is no workspace {name}.")
    return Workspace(*row)
