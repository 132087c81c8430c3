"""Quotas: the maximum of cores per family of VM sizes in a workspace."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select
from sqlalchemy.exc import IntegrityError

from windlass.core.errors import NotFound
from windlass.store.access.audit import AuditEntry, append
from windlass.store.db.base import Database, insert_or
from windlass.store.db.schema import quotas

_ADD = insert_or(quotas)
_SET = _ADD.on_conflict_do_update(index_elements=["workspace", "family"], set_={"cores": _ADD.excluded["cores"]})


class Quotas:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, workspace: str) -> dict[str, int]:
        """The maximum of cores by family. A family without a quota has no limit."""
        return self._database.read(lambda c: limits(c, workspace))

    def set(self, workspace: str, family: str, cores: int | None, by: str) -> None:
        """Set the maximum of cores of a family; None removes it."""

        def transaction(connection: Connection) -> None:
            if cores is None:
                connection.execute(delete(quotas).where(quotas.c.workspace == workspace, quotas.c.family == family))
            else:
                connection.execute(_SET, {"workspace": workspace, "family": family, "cores": cores})
            append(connection, AuditEntry(workspace, by, "quota.set", family, {"cores": cores}))

        try:
            self._database.write(transaction)
        except IntegrityError:
            raise NotFound(f"There is no workspace {workspace}.") from None


def limits(connection: Connection, workspace: str) -> dict[str, int]:
    asked = select(quotas.c.family, quotas.c.cores).where(quotas.c.workspace == workspace)
    return {row.family: row.cores for row in connection.execute(asked)}
