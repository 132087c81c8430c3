"""Compute targets: named places to run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Connection, Table, Text, bindparam, func, select, type_coerce, update
from sqlalchemy.exc import IntegrityError

from windlass.core.entities import Target
from windlass.core.errors import Conflict, NotFound
from windlass.store.db.base import Database, insert_or
from windlass.store.db.column_types import Json, Names, Time, now
from windlass.store.db.schema import QueueState, nodes, runs, targets

# Azure's names of the provisioning states that end by themselves.
CREATING, UPDATING, DELETING = UNDER_WAY = ("Creating", "Updating", "Deleting")
FAILED, SUCCEEDED = "Failed", "Succeeded"

ALL = select(*(targets.c[name] for name in Target.__dataclass_fields__))
GET = ALL.where(targets.c.workspace == bindparam("of"), targets.c.name == bindparam("named"))


def _raw(table: Table) -> Any:
    """The rows of a table without conversion of values."""
    raw: dict[type[Any], Any] = {Json: Text, Names: Text, Time: BigInteger}
    return select(*(type_coerce(each, raw.get(type(each.type), type(each.type))) for each in table.c))


_RAW_TARGETS, _RAW_NODES = _raw(targets), _raw(nodes)


class Targets:
    def __init__(self, database: Database) -> None:
        self._database = database

    def ensure(
        self, workspace: str, name: str, kind: str, config: Mapping[str, Any], slots: int | None, is_attached: bool
    ) -> Target:
        """The target of that name, created if it does not exist; an existing one is not changed."""
        new = Target(name, kind, dict(config), now(), is_attached, slots)
        added = insert_or(targets).values(workspace=workspace, **vars(new)).on_conflict_do_nothing()

        def transaction(connection: Connection) -> Target:
            connection.execute(added)
            there = find(connection, workspace, name)
            if there.kind != kind:
                raise Conflict(f"The target {name} is of kind {there.kind}, not {kind}.", hint="Choose another name.")
            return there

        try:
            return self._database.write(transaction)
        except IntegrityError:
            raise NotFound(f"There is no workspace {workspace}.") from None

    def get(self, workspace: str, name: str) -> Target:
        return self._database.read(lambda c: find(c, workspace, name))

    def update(self, workspace: str, name: str, **changes: Any) -> Target:
        """Change columns: slots, config, inventory, quarantine."""
        change = update(targets).where(targets.c.workspace == workspace, targets.c.name == name).values(changes)

        def transaction(connection: Connection) -> Target:
            connection.execute(change)
            return find(connection, workspace, name)

        return self._database.write(transaction)

    def counts(self, workspace: str) -> dict[str, tuple[int, int]]:
        """For each target with active runs: the numbers of dispatched and of queued runs."""
        asked = (
            select(runs.c.target, runs.c.queue_state, func.count())
            .where(runs.c.queue_state.in_((QueueState.WAITING, QueueState.DISPATCHED)), runs.c.workspace == workspace)
            .group_by(runs.c.target, runs.c.queue_state)
        )
        rows = self._database.read(lambda c: c.execute(asked).all())
        many = {(target, queue_state): count for target, queue_state, count in rows}
        return {
            target: (many.get((target, QueueState.DISPATCHED), 0), many.get((target, QueueState.WAITING), 0))
            for target, _ in many
        }

    def fingerprint(self, workspace: str) -> str:
        """A digest of what is shown of the targets of a workspace: of their rows, nodes and numbers of runs."""
        of_targets = _RAW_TARGETS.where(targets.c.workspace == workspace).order_by(targets.c.name)
        of_nodes = _RAW_NODES.where(nodes.c.workspace == workspace).order_by(nodes.c.target, nodes.c.id)
        rows = self._database.read(
            lambda c: [tuple(row) for asked in (of_targets, of_nodes) for row in c.execute(asked)]
        )
        shown = repr((rows, sorted(self.counts(workspace).items())))
        return hashlib.blake2b(shown.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

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
