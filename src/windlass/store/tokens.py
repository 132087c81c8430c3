"""Access tokens. The secret is shown once; we keep its digest."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, insert, select, update

from windlass.core.errors import NotFound
from windlass.store.columns import now
from windlass.store.database import Database
from windlass.store.schema import tokens


@dataclass(frozen=True, slots=True)
class Token:
    id: str
    principal: str
    role: str
    workspace: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


_ALL = select(*(tokens.c[name] for name in Token.__dataclass_fields__))
_FIND = _ALL.where(tokens.c.digest == bindparam("digest"))


class Tokens:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self, principal: str, role: str, workspace: str | None = None, expires_at: datetime | None = None
    ) -> tuple[str, str]:
        """Returns the token's id and its secret, which nobody can read again."""
        id, secret = secrets.token_hex(8), f"wl_{secrets.token_urlsafe(32)}"
        row = {"id": id, "digest": _digest(secret), "principal": principal, "role": role, "workspace": workspace}
        added = insert(tokens).values(**row, created_at=now(), expires_at=expires_at)
        self._database.write(lambda c: c.execute(added))
        return id, secret

    def find(self, secret: str) -> Token | None:
        """The token of that secret, also when it has expired or was revoked: the caller judges."""
        row = self._database.read(lambda c: c.execute(_FIND, {"digest": _digest(secret)}).one_or_none())
        return None if row is None else Token(*row)

    def revoke(self, id: str) -> None:
        at = update(tokens).where(tokens.c.id == id).values(revoked_at=now()).returning(tokens.c.id)
        if self._database.write(lambda c: c.execute(at.where(tokens.c.revoked_at.is_(None))).one_or_none()) is None:
            known = select(tokens.c.id).where(tokens.c.id == id)
            if self._database.read(lambda c: c.execute(known).one_or_none()) is None:
                raise NotFound(f"There is no token {id}.")

    def list(self) -> list[Token]:
        rows = self._database.read(lambda c: c.execute(_ALL.order_by(tokens.c.created_at)).all())
        return [Token(*row) for row in rows]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
