"""Access tokens. The secret is shown once, and only its digest is stored. Tokens of members are issued and revoked by
name, with a row in the audit log.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, insert, or_, select, update

from windlass.core.codec import format_time
from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.store.access.audit import AuditEntry, append
from windlass.store.db.base import Database
from windlass.store.db.column_types import now
from windlass.store.db.schema import tokens


@dataclass(frozen=True, slots=True)
class Token:
    id: str
    principal: str
    role: str
    workspace: str | None  # None: all workspaces, such as for the token in the server's home
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None  # to the minute, and only for members


_ALL = select(*(tokens.c[name] for name in Token.__dataclass_fields__))
_FIND = _ALL.where(tokens.c.digest == bindparam("digest"))
_NOT_REVOKED = tokens.c.revoked_at.is_(None)
_OF = tokens.c.workspace == bindparam("of")
# Case-insensitive: names that differ only in case would be confused.
_NAMED = func.lower(tokens.c.principal) == func.lower(bindparam("named"))
_MEMBERS = _ALL.where(_OF, _NOT_REVOKED).order_by(tokens.c.principal)
_HOLDERS = _ALL.where(_NAMED, _NOT_REVOKED, or_(_OF, tokens.c.workspace.is_(None)))
_BY_ID = _ALL.where(tokens.c.id == bindparam("known"))
_KNOWN = select(tokens.c.id).where(_OF, tokens.c.principal == bindparam("named")).limit(1)
_SERVERS_OWN = (
    select(tokens.c.id)
    .where(tokens.c.workspace.is_(None), tokens.c.principal == bindparam("named"), _NOT_REVOKED)
    .limit(1)
)
_ADD = insert(tokens)
_RENEW = (
    update(tokens)
    .where(tokens.c.id == bindparam("known"))
    .values(digest=bindparam("made"), expires_at=bindparam("until"))
)
_REVOKE_ONE = update(tokens).where(tokens.c.id == bindparam("known")).values(revoked_at=bindparam("at"))
_REVOKE = (
    update(tokens)
    .where(_OF, tokens.c.principal == bindparam("named"), _NOT_REVOKED)
    .values(revoked_at=bindparam("at"))
    .returning(tokens.c.digest)
)
_RECORD_USE = update(tokens).where(tokens.c.id == bindparam("known")).values(last_used_at=bindparam("at"))


class Tokens:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self, principal: str, role: str, workspace: str | None = None, expires_at: datetime | None = None
    ) -> tuple[str, str]:
        """Create a token; returns its id and its secret, which cannot be read again."""
        id, secret = secrets.token_hex(8), _make_secret()
        row = _row(id, secret, principal, role, workspace, expires_at)
        self._database.write(lambda c: c.execute(_ADD, row))
        return id, secret

    def find(self, secret: str) -> Token | None:
        """The token of that secret, also an expired or revoked one: the caller checks that."""
        row = self._database.read(lambda c: c.execute(_FIND, {"digest": _digest(secret)}).one_or_none())
        return None if row is None else Token(*row)

    # Tokens of members

    def issue(
        self, workspace: str, name: str, role: str, by: str, expires_at: datetime | None = None, key: str | None = None
    ) -> tuple[Token, str]:
        """Issue a member's token; returns it with its secret. AlreadyExists if a member of that name has a valid one.

        A repeated request with the same idempotency key gets a new secret: the answer with the first one was lost.
        """
        id = _id_of(workspace, name, role, key) if key else secrets.token_hex(8)
        secret, at = _make_secret(), now()
        details = {"role": role, "expires_at": format_time(expires_at) if expires_at else None}

        def transaction(connection: Connection) -> Token:
            # First, for its lock: of two concurrent requests for a name, the second sees the token of the first.
            append(connection, AuditEntry(workspace, by, "token.create", name, details))
            if _is_repeated(connection, id, name):
                connection.execute(_RENEW, {"known": id, "made": _digest(secret), "until": expires_at})
            else:
                _free_name(connection, workspace, name, at)
                connection.execute(_ADD, _row(id, secret, name, role, workspace, expires_at))
            return Token(*connection.execute(_BY_ID, {"known": id}).one())

        return self._database.write(transaction), secret

    def revoke(self, workspace: str, name: str, by: str) -> list[str]:
        """Revoke a member's token; repeating it is no error. Returns the digests of the revoked tokens."""
        asked = {"of": workspace, "named": name}

        def transaction(connection: Connection) -> list[str]:
            gone = list(connection.execute(_REVOKE, {**asked, "at": now()}).scalars())
            if gone:
                append(connection, AuditEntry(workspace, by, "token.revoke", name))
            elif connection.execute(_KNOWN, asked).one_or_none() is None:
                raise _not_revocable(connection, workspace, name)
            return gone

        return self._database.write(transaction)

    def record_use(self, id: str, at: datetime) -> None:
        self._database.write(lambda c: c.execute(_RECORD_USE, {"known": id, "at": at}), durable=False)

    def list(self, workspace: str) -> list[Token]:
        """The tokens of members by name, also expired ones; not the server's own, and no revoked ones."""
        return self._database.read(lambda c: [Token(*row) for row in c.execute(_MEMBERS, {"of": workspace})])


def _is_repeated(connection: Connection, id: str, name: str) -> bool:
    row = connection.execute(_BY_ID, {"known": id}).one_or_none()
    if row is not None and Token(*row).revoked_at is not None:
        raise Conflict(f"The token that this key made for {name} was revoked.", "Ask with another key.")
    return row is not None


def _free_name(connection: Connection, workspace: str, name: str, at: datetime) -> None:
    """Refuse a name with a valid token. An expired token is revoked, so that it is not listed beside the new one."""
    for row in connection.execute(_HOLDERS, {"of": workspace, "named": name}).all():
        token = Token(*row)
        if token.workspace is None:
            raise AlreadyExists(f"{token.principal} is the name of the server's own token.", "Choose another name.")
        if token.expires_at is None or token.expires_at > at:
            raise AlreadyExists(
                f"{token.principal} has a token already, as {token.role}.",
                f"For a new one, take that back first: windlass token revoke {token.principal}",
            )
        connection.execute(_REVOKE_ONE, {"known": token.id, "at": at})


def _not_revocable(connection: Connection, workspace: str, name: str) -> NotFound | Conflict:
    if connection.execute(_SERVERS_OWN, {"named": name}).one_or_none() is None:
        return NotFound(
            f"There is no token of {name} in workspace {workspace}.", "`windlass token list` lists who has one."
        )
    return Conflict(
        f"{name} has the server's own token, in the file `token` of its home: it stays, so that somebody can get in.",
        "windlass token list shows those that can be revoked.",
    )


def _row(
    id: str, secret: str, principal: str, role: str, workspace: str | None, expires_at: datetime | None
) -> dict[str, str | datetime | None]:
    row = {"id": id, "digest": _digest(secret), "principal": principal, "role": role, "workspace": workspace}
    return {**row, "created_at": now(), "expires_at": expires_at}


def _id_of(*parts: str) -> str:
    """The id of a token by its request: a repeated request gets the same one, another request another one."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _make_secret() -> str:
    return f"wl_{secrets.token_urlsafe(32)}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
