"""Compute targets: named places to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.exc import IntegrityError

from windlass.core.entities import Target
from windlass.core.errors import Conflict, NotFound
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import now
from windlass.store.db.schema import Place, runs, targets

# Azure's words for the states of provisioning that end by themselves.
CREATING, UPDATING, DELETING = UNDER_WAY = ("Creating", "Updating", "Deleting")
FAILED, SUCCEEDED = "Failed", "Succeeded"

ALL = select(*(targets.c[name] for name in Target.__dataclass_fields__))
GET = ALL.where(targets.c.workspace == bindparam("of"), targets.c.name == bindparam("named"))


class Targets:
    def __init__(self, database: Database) -> None:
        self._database = database

    def ensure(
        self, workspace: str, name: str, kind: str, config: Mapping[str, Any], slots: int | None, is_attached: bool
    ) -> Target:
        """The target of that name, made if it is not there; what was set on one that is there stays."""
        new = Target(name, kind, dict(config), now(), is_attached, slots)
        added = insert_or(targets).values(workspace=workspace, **vars(new)).on_conflict_do_nothing()

        def act(connection: Connection) -> Target:
            connection.execute(added)
            there = find(connection, workspace, name)
            if there.kind != kind:
                raise Conflict(f"The target {name} is of kind {there.kind}, not {kind}.", hint="Choose another name.")
            return there

        try:
            return self._database.write(act)
        except IntegrityError:
            raise NotFound(f"There is no workspace {workspace}.") from None

    def get(self, workspace: str, name: str) -> Target:
        return self._database.read(lambda c: find(c, workspace, name))

    def update(self, workspace: str, name: str, **changes: Any) -> Target:
        """Change columns: slots, config, inventory, quarantine."""
        change = update(targets).where(targets.c.workspace == workspace, targets.c.name == name).values(changes)

        def act(connection: Connection) -> Target:
            connection.execute(change)
            return find(connection, workspace, name)

        return self._database.write(act)

    def counts(self, workspace: str) -> dict[str, tuple[int, int]]:
        """For each target that has any: how many runs are active, how many wait for a slot."""
        asked = (
            select(runs.c.target, runs.c.place, func.count().label("many"))
            .where(runs.c.place.in_((Place.WAITING, Place.DISPATCHED)), runs.c.workspace == workspace)
            .group_by(runs.c.target, runs.c.place)
        )
        many = {(row.target, row.place): row.many for row in self._database.read(lambda c: c.execute(asked).all())}
        return {
            target: (many.get((target, Place.DISPATCHED), 0), many.get((target, Place.WAITING), 0))
            for target, _ in many
        }

    def under_way(self) -> list[tuple[str, Target]]:
        """The targets of all workspaces that are being created, updated or deleted, with their workspaces."""
        asked = ALL.add_columns(targets.c.workspace).where(targets.c.provisioning_state.in_(UNDER_WAY))
        return self._database.read(lambda c: [(row[-1], Target(*row[:-1])) for row in c.execute(asked)])

    def list(self, workspace: str) -> list[Target]:
        asked = ALL.where(targets.c.workspace == workspace).order_by(targets.c.name)
        return self._database.read(lambda c: [Target(*row) for row in c.execute(asked)])


def find(connection: Connection, workspace: str, name: str) -> Target:
    row = connection.execute(GET, {"of": workspace, "named": name}).one_or_none()
    if row is None:
        raise NotFound(f"There is no target {name}.", hint="`windlass compute list` lists those that there are.")
    return Target(*row)
