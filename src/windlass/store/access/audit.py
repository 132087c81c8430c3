"""Who did what. Rows are only ever added, in the transaction of the act that they tell of, and each has the digest of
the one before in its own: a row that was changed, taken out or put in between shows.
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

_LOCK = 0x77696E65  # servers that share a database add one row after the other
_LOCKED = text("SELECT pg_advisory_xact_lock(:lock)")
_LAST = select(audit.c.digest).order_by(audit.c.pk.desc()).limit(1)
_ADD = insert(audit)
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody is about to do."""

    workspace: str
    principal: str
    act: str  # "secret.set", "secret.use" ...
    object: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """What somebody did."""

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
    """How many rows there are and the digest of the last: whoever notes both sees later if the end was cut off."""

    count: int
    digest: str
    broken_at: int | None = None  # the first row that is not what was written

    @property
    def is_whole(self) -> bool:
        return self.broken_at is None


_ALL = select(*(audit.c[name] for name in Entry.__dataclass_fields__))
_NEXT = _ALL.where(audit.c.pk > bindparam("after")).order_by(audit.c.pk).limit(_AT_ONCE)
_PAGE = (
    _ALL.where(audit.c.workspace == bindparam("of"), audit.c.pk < bindparam("before"))
    .order_by(audit.c.pk.desc())
    .limit(bindparam("most"))
)


class Audit:
    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, workspace: str, limit: int = 100, before: int | None = None) -> list[Entry]:
        """The newest first; `before` is the number of the last one that was seen."""
        asked = {"of": workspace, "before": before or 1 << 62, "most": limit}
        return self._database.read(lambda c: [Entry(*row) for row in c.execute(_PAGE, asked)])

    def verify(self) -> Chain:
        return self._database.read(_verify)


def append(connection: Connection, *acts: Act) -> None:
    """The last thing in a transaction: on PostgreSQL all others wait from here to its end."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCKED, {"lock": _LOCK})
    digest = connection.execute(_LAST).scalar_one_or_none() or ""
    for act in acts:
        row = {
            "at": now(),
            "workspace": act.workspace,
            "principal": clean(act.principal),
            "act": act.act,
            "object": clean(act.object),
            "details": dict(act.details),
        }
        digest = _digest(digest, row)
        connection.execute(_ADD, {**row, "digest": digest})


def _verify(connection: Connection) -> Chain:
    count, digest, last = 0, "", 0
    while rows := connection.execute(_NEXT, {"after": last}).all():
        for entry in (Entry(*row) for row in rows):
            digest = _digest(digest, {name: getattr(entry, name) for name in _TOLD})
            if digest != entry.digest:
                return Chain(count, digest, broken_at=entry.pk)
            count, last = count + 1, entry.pk
    return Chain(count, digest)


_TOLD = ("at", "workspace", "principal", "act", "object", "details")


def _digest(previous: str, row: Mapping[str, Any]) -> str:
    told = {**row, "at": format_time(row["at"])}
    canonical = json.dumps([previous, told], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
