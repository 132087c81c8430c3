"""Experiments: named series of runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.exc import IntegrityError

from windlass.core.entities import Experiment
from windlass.core.errors import Conflict, NotFound
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import now
from windlass.store.db.schema import experiments

_ALL = select(*(experiments.c[name] for name in Experiment.__dataclass_fields__))


class Experiments:
    def __init__(self, database: Database) -> None:
        self._database = database

    def ensure(self, workspace: str, name: str) -> Experiment:
        row = {"workspace": workspace, "name": name, "id": str(uuid.uuid4()), "created_at": now(), "tags": {}}
        added = insert_or(experiments).values(**row, last_number=0).on_conflict_do_nothing()

        def transaction(connection: Connection) -> Experiment:
            connection.execute(added)
            return _get(connection, workspace, name)

        try:
            return self._database.write(transaction)
        except IntegrityError:
            raise NotFound(f"There is no workspace {workspace}.") from None

    def get(self, workspace: str, name: str) -> Experiment:
        return self._database.read(lambda c: _get(c, workspace, name))

    def update(
        self, workspace: str, name: str, tags: Mapping[str, str] | None = None, archived: bool | None = None
    ) -> Experiment:
        """Add `tags` to the existing ones; `archived` hides the experiment from lists, or shows it again."""

        def transaction(connection: Connection) -> Experiment:
            old = _get(connection, workspace, name, lock=True)
            archived_at = old.archived_at if archived is None else (old.archived_at or now()) if archived else None
            change = update(experiments).where(experiments.c.workspace == workspace, experiments.c.name == name)
            connection.execute(change.values(tags=old.tags | dict(tags or {}), archived_at=archived_at))
            return _get(connection, workspace, name)

        return self._database.write(transaction)

    def delete(self, workspace: str, name: str) -> None:
        """Delete an experiment without runs; Conflict if it has some."""

        def transaction(connection: Connection) -> None:
            _get(connection, workspace, name)
            gone = delete(experiments).where(experiments.c.workspace == workspace, experiments.c.name == name)
            connection.execute(gone)

        try:
            self._database.write(transaction)
        except IntegrityError:
            raise Conflict(
                f"The experiment {name} has runs.", hint="Only an empty experiment can be deleted."
            ) from None

    def list(self, workspace: str) -> list[Experiment]:
        asked = _ALL.where(experiments.c.workspace == workspace).order_by(experiments.c.name)
        return self._database.read(lambda c: [Experiment(*row) for row in c.execute(asked)])


def _get(connection: Connection, workspace: str, name: str, lock: bool = False) -> Experiment:
    asked = _ALL.where(experiments.c.workspace == workspace, experiments.c.name == name)
    row = connection.execute(asked.with_for_update() if lock else asked).one_or_none()
    if row is None:
        raise NotFound(f"There is no experiment {name}.")
    return Experiment(*row)
