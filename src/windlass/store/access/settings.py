"""Settings that an administrator changed; the caller has the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, select

from windlass.store.db.base import Database, insert_or
from windlass.store.db.schema import settings

_ADD = insert_or(settings)
_SET = _ADD.on_conflict_do_update(index_elements=["name"], set_={"value": _ADD.excluded["value"]})


class Settings:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """`defaults`, replaced by stored values. Stored keys without a default are unknown and left out."""
        rows = self._database.read(lambda c: c.execute(select(settings.c.name, settings.c.value)).all())
        stored = {row.name: row.value for row in rows}
        return {name: stored.get(name, default) for name, default in defaults.items()}

    def set(self, values: Mapping[str, Any]) -> None:
        """Store values; None restores the default."""

        def transaction(connection: Connection) -> None:
            for name, value in values.items():
                if value is None:
                    connection.execute(delete(settings).where(settings.c.name == name))
                else:
                    connection.execute(_SET, {"name": name, "value": value})

        self._database.write(transaction)
