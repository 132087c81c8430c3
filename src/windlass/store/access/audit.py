"""The audit log: who did what. Rows are only added, in the transaction of the change that they record. The digest of
each row covers the digest of the row before, so that changed, removed and inserted rows are detected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, text

from windlass.core.codec import format_time
from windlass.store.db.base import Database
from windlass.store.db.column_types import clean, now
from windlass.store.db.schema import audit

_LOCK = 0x77696E65  # an advisory lock: servers that share a database append one after the other
_LOCKED = text("SELECT pg_advisory_xact_lock(:lock)")
_LAST = select(audit.c.digest).order_by(audit.c.pk.desc()).limit(1)
_ADD = insert(audit)
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry to append: what a principal does."""

    workspace: str
    principal: str
    act: str  # "secret.set", "secret.use" ...
    object: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry as stored: what a principal did."""

    pk: int
    at: datetime
    workspace: str
    principal: str
    act: str
    object: str
    details: Mapping[str, Any]
    digest: str


@dataclass(frozen=True, slots=True)
class Chain:
    """The number of rows and the digest of the last one. A note of both detects later that the end was cut off."""

    count: int
    digest: str
    broken_at: int | None = None  # the first row that is not what was written

    @property
    def is_whole(self) -> bool:
        return self.broken_at is None


_ALL = select(*(audit.c[name] for name in AuditRecord.__dataclass_fields__))
_NEXT = _ALL.where(audit.c.pk > bindparam("after")).order_by(audit.c.pk).limit(_AT_ONCE)
_PAGE = (
    _ALL.where(audit.c.workspace == bindparam("of"), audit.c.pk < bindparam("before"))
    .order_by(audit.c.pk.desc())
    .limit(bindparam("most"))
)


class Audit:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, workspace: str, limit: int = 100, before: int | None = None) -> list[AuditRecord]:
        """The newest first; `before` is the `pk` of the last record of the page before."""
        asked = {"of": workspace, "before": before or 1 << 62, "most": limit}
        return self._database.read(lambda c: [AuditRecord(*row) for row in c.execute(_PAGE, asked)])

    def add(self, *entries: AuditEntry) -> None:
        """Append entries about something that changes nothing in the store."""
        self._database.write(lambda c: append(c, *entries))

    def verify(self) -> Chain:
        return self._database.read(_verify)


def append(connection: Connection, *entries: AuditEntry) -> None:
    """Append entries, as the last statements of a transaction: on PostgreSQL this locks the log until its end."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCKED, {"lock": _LOCK})
    digest = connection.execute(_LAST).scalar_one_or_none() or ""
    for entry in entries:
        row = {
            "at": now(),
            "workspace": entry.workspace,
            "principal": clean(entry.principal),
            "act": entry.act,
            "object": clean(entry.object),
            "details": dict(entry.details),
        }
        digest = _digest(digest, row)
        connection.execute(_ADD, {**row, "digest": digest})


def _verify(connection: Connection) -> Chain:
    count, digest, last = 0, "", 0
    while rows := connection.execute(_NEXT, {"after": last}).all():
        for record in (AuditRecord(*row) for row in rows):
            digest = _digest(digest, {name: getattr(record, name) for name in _DIGESTED})
            if digest != record.digest:
                return Chain(count, digest, broken_at=record.pk)
            count, last = count + 1, record.pk
    return Chain(count, digest)


_DIGESTED = ("at", "workspace", "principal", "act", "object", "details")


def _digest(previous: str, row: Mapping[str, Any]) -> str:
    content = {**row, "at": format_time(row["at"])}
    canonical = json.dumps([previous, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
