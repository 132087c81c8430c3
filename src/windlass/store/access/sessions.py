"""Sessions of browsers, and the one-time codes that begin them. Only digests are stored of codes and of a session's two
secrets. A session belongs to the token that began it, and is not found any more once that token is invalid.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, delete, insert, or_, select

from windlass.core.codec import format_time
from windlass.store.access.audit import AuditEntry, append
from windlass.store.access.tokens import Token
from windlass.store.db.base import Database
from windlass.store.db.column_types import now
from windlass.store.db.schema import session_codes, sessions, tokens, workspaces

LARGEST_COUNT = 100  # sessions of one token: a further one ends the oldest


@dataclass(frozen=True, slots=True)
class WebSession:
    """The session of one browser."""

    id: str
    csrf_digest: str
    token_digest: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that has just begun, with the two secrets that cannot be read again."""

    session: WebSession
    token: Token
    secret: str  # for the cookie
    csrf: str  # for a header of each request


_COLUMNS = tuple(sessions.c[name] for name in WebSession.__dataclass_fields__)
_TOKEN_COLUMNS = tuple(tokens.c[name] for name in Token.__dataclass_fields__)
_VALID = tokens.c.revoked_at.is_(None) & or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > bindparam("at"))
_FIND = (
    select(*_COLUMNS, *_TOKEN_COLUMNS)
    .join_from(sessions, tokens, sessions.c.token_digest == tokens.c.digest)
    .where(sessions.c.digest == bindparam("digest"), sessions.c.expires_at > bindparam("at"), _VALID)
)
_TOKEN = select(*_TOKEN_COLUMNS).where(tokens.c.digest == bindparam("digest"), _VALID)
_ADD_CODE = insert(session_codes)
# Of two requests with one code, on two servers too, one deletes the row.
_TAKE_CODE = (
    delete(session_codes)
    .where(session_codes.c.digest == bindparam("taken"), session_codes.c.expires_at > bindparam("at"))
    .returning(session_codes.c.token_digest)
)
_DROP_EXPIRED_CODES = delete(session_codes).where(session_codes.c.expires_at <= bindparam("at"))
_ADD = insert(sessions)
_DROP_EXPIRED = delete(sessions).where(sessions.c.expires_at <= bindparam("at"))
_DROP = delete(sessions).where(sessions.c.id == bindparam("known"))
_NEWEST = (
    select(sessions.c.id)
    .where(sessions.c.token_digest == bindparam("of"))
    .order_by(sessions.c.created_at.desc(), sessions.c.id)
    .limit(LARGEST_COUNT)
)
_DROP_OLDEST = delete(sessions).where(sessions.c.token_digest == bindparam("of"), sessions.c.id.not_in(_NEWEST))
_WORKSPACES = select(workspaces.c.name).order_by(workspaces.c.name)


class WebSessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create_code(self, token_secret: str, lifetime: timedelta) -> tuple[str, datetime]:
        """Create a one-time code that begins a session of that token; returns it with the time of its expiry."""
        code, at = secrets.token_urlsafe(24), now()
        row = {"digest": _digest(code), "token_digest": _digest(token_secret), "expires_at": at + lifetime}

        def transaction(connection: Connection) -> None:
            connection.execute(_DROP_EXPIRED_CODES, {"at": at})
            connection.execute(_ADD_CODE, row)

        self._database.write(transaction, durable=False)
        return code, at + lifetime

    def redeem_code(self, code: str, lifetime: timedelta) -> NewSession | None:
        """Begin a session by a code, which is consumed. None if it is unknown, expired or used, or its token is
        invalid.
        """
        secret, csrf, at = _make_secret(), _make_secret(), now()

        def transaction(connection: Connection) -> NewSession | None:
            taken = connection.execute(_TAKE_CODE, {"taken": _digest(code), "at": at}).scalar_one_or_none()
            return None if taken is None else _begin(connection, taken, secret, csrf, at, lifetime)

        return self._database.write(transaction)

    def begin(self, token_secret: str, lifetime: timedelta) -> NewSession | None:
        """Begin a session by a token's secret. None if the token is invalid."""
        secret, csrf, at = _make_secret(), _make_secret(), now()
        return self._database.write(lambda c: _begin(c, _digest(token_secret), secret, csrf, at, lifetime))

    def find(self, secret: str) -> tuple[WebSession, Token] | None:
        """The session of that secret with its token; None if it has ended, or its token is invalid."""
        asked = {"digest": _digest(secret), "at": now()}
        row = self._database.read(lambda c: c.execute(_FIND, asked).one_or_none())
        if row is None:
            return None
        return WebSession(*row[: len(_COLUMNS)]), Token(*row[len(_COLUMNS) :])

    def end(self, id: str, workspace: str | None, by: str) -> None:
        """End a session; repeating it is no error. `workspace` is that of its token."""

        def transaction(connection: Connection) -> None:
            if connection.execute(_DROP, {"known": id}).rowcount:
                append(connection, *_entries(connection, workspace, by, "session.end", id, {}))

        self._database.write(transaction)


def _begin(
    connection: Connection, token_digest: str, secret: str, csrf: str, at: datetime, lifetime: timedelta
) -> NewSession | None:
    row = connection.execute(_TOKEN, {"digest": token_digest, "at": at}).one_or_none()
    if row is None:
        return None
    token = Token(*row)
    expires_at = min(at + lifetime, token.expires_at or at + lifetime)
    session = WebSession(secrets.token_hex(8), _digest(csrf), token_digest, at, expires_at)
    connection.execute(_DROP_EXPIRED, {"at": at})
    connection.execute(_ADD, {"digest": _digest(secret), **{c.name: getattr(session, c.name) for c in _COLUMNS}})
    connection.execute(_DROP_OLDEST, {"of": token_digest})
    details = {"expires_at": format_time(expires_at)}
    append(connection, *_entries(connection, token.workspace, token.principal, "session.begin", session.id, details))
    return NewSession(session, token, secret, csrf)


def _entries(
    connection: Connection, workspace: str | None, by: str, act: str, id: str, details: dict[str, str]
) -> list[AuditEntry]:
    """Entries for the audit log of the token's workspace, or of each one if it is for all."""
    names: Sequence[str] = [workspace] if workspace else connection.execute(_WORKSPACES).scalars().all()
    return [AuditEntry(name, by, act, id, details) for name in names]


def _make_secret() -> str:
    return secrets.token_urlsafe(32)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
