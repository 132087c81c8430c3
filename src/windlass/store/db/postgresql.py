"""PostgreSQL: a pool of connections; several servers may use the same database."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.dialects.sqlite.dml import OnConflictClause
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from windlass.core.errors import InternalError, ServerUnavailable, StorageFull, WindlassError
from windlass.store.db.base import Database, refusing_what_cannot_be_kept
from windlass.store.db.schema import metadata

T = TypeVar("T")

_TRIES = 8
_TAKEN_BACK = frozenset({"40001", "40P01"})  # serialization failure, deadlock: the database asks to try again
_OVERLOADED = frozenset({"57014", "55P03", "53300", "53200", "57P01", "57P02", "57P03"})
_DISK_FULL = "53100"
_SESSION = {
    "synchronous_commit": "on",
    "statement_timeout": "60s",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    # Our statements are short: compiling them, or giving them to workers, takes longer than running them.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "random_page_cost": "1.1",  # rows are in memory or on a disk without a head: an index is worth its while
}


class PostgresDatabase(Database):
    is_shared = True

    def __init__(self, url: str) -> None:
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise InternalError(
                "PostgreSQL's driver is missing.", hint="Install it: pip install 'windlass[postgres]'"
            ) from None
        _speak_postgresql()
        self._engine = create_engine(
            make_url(url).set(drivername="postgresql+psycopg"),
            pool_size=8,
            max_overflow=24,
            connect_args={
                "connect_timeout": 5,
                "tcp_user_timeout": 30_000,
                "application_name": "windlass",
                "options": " ".join(f"-c {name}={value}" for name, value in _SESSION.items()),
            },
        )
        self._readers = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def read(self, ask: Callable[[Connection], T]) -> T:
        def answer() -> T:
            with self._readers.connect() as connection:
                return ask(connection)

        return _persist(answer)

    def write(self, act: Callable[[Connection], T], durable: bool = True) -> T:
        """Always durable: other servers act upon what they read."""

        def perform() -> T:
            with self._engine.connect() as connection:
                result = act(connection)
                _commit(connection)
                return result

        return _persist(perform)

    def close(self) -> None:
        self._engine.dispose()


def _speak_postgresql() -> None:
    """What our tables and statements say for SQLite holds for PostgreSQL too. It is said here, since SQLAlchemy loads a
    dialect as soon as it is mentioned, which takes servers that do not need it a twentieth of their start.
    """
    # PostgreSQL could name a constraint there; we name columns.
    setattr(OnConflictClause, "constraint_target", None)  # noqa: B010
    for table in metadata.tables.values():
        for index in table.indexes:
            index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except OperationalError as error:
        if _state(error) in _TAKEN_BACK:
            raise
        # The answer was lost, not the act: whether it was done is not known, so nobody here may do it again.
        raise ServerUnavailable("The database went away at the commit.", hint="Try again with the same key.") from error


def _persist(attempt: Callable[[], T]) -> T:
    """Try again when the database took the transaction back, or when a pooled connection turned out to be dead."""
    for left in reversed(range(_TRIES)):
        try:
            with refusing_what_cannot_be_kept():
                return attempt()
        except DBAPIError as error:
            if not left or not (error.connection_invalidated or _state(error) in _TAKEN_BACK):
                raise explain(error) or error from None
            time.sleep(random.uniform(0, 0.05 * (_TRIES - left)))
        except PoolTimeout as error:
            raise ServerUnavailable("Too many requests wait for the database.", hint="Try again later.") from error
    raise AssertionError("the last try returns or raises")


def explain(error: DBAPIError) -> WindlassError | None:
    """PostgreSQL's complaint as a sentence, unless it is one that the store itself must understand (constraints)."""
    words = str(error.orig).strip().splitlines()[:1]
    state = _state(error)
    if state == _DISK_FULL:
        return StorageFull(f"The disk of the database is full: {words[0]}.", hint="Free some space; nothing was lost.")
    if state in _OVERLOADED or state in _TAKEN_BACK or (isinstance(error, OperationalError) and state is None):
        return ServerUnavailable(f"The database does not answer: {' '.join(words)}", hint="Try again later.")
    return None


def _state(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None)
