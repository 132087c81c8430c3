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
from windlass.store.db.base import Database, reject_unstorable_values
from windlass.store.db.schema import metadata

T = TypeVar("T")

_TRIES = 8
_ROLLED_BACK = frozenset({"40001", "40P01"})  # serialization failure, deadlock: to be retried
_OVERLOADED = frozenset({"57014", "55P03", "53300", "53200", "57P01", "57P02", "57P03"})
_DISK_FULL = "53100"
_SESSION = {
    "synchronous_commit": "on",
    "statement_timeout": "60s",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    # Statements are short: JIT compilation and parallel workers take longer than running them.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "random_page_cost": "1.1",  # rows are in memory or on an SSD: index scans are cheap
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
        _configure_dialect()
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

    def read(self, query: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            with self._readers.connect() as connection:
                return query(connection)

        return _with_retries(attempt)

    def write(self, transaction: Callable[[Connection], T], durable: bool = True) -> T:
        """Always durable: other servers act upon what they read."""

        def attempt() -> T:
            with self._engine.connect() as connection:
                result = transaction(connection)
                _commit(connection)
                return result

        return _with_retries(attempt)

    def close(self) -> None:
        self._engine.dispose()


def _configure_dialect() -> None:
    """Let tables and statements that are written with SQLite's constructs compile for PostgreSQL.

    Done here and not in schema.py, since SQLAlchemy imports a dialect as soon as it is mentioned: a twentieth of the
    start of a server that does not use it.
    """
    # PostgreSQL's compiler asks for the name of a constraint; the statements here name columns.
    setattr(OnConflictClause, "constraint_target", None)  # noqa: B010
    for table in metadata.tables.values():
        for index in table.indexes:
            index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except OperationalError as error:
        if _state(error) in _ROLLED_BACK:
            raise
        # The connection was lost during the commit: whether it succeeded is not known, so it must not be retried here.
        raise ServerUnavailable("The database went away at the commit.", hint="Try again with the same key.") from error


def _with_retries(attempt: Callable[[], T]) -> T:
    """Retry when the database rolled the transaction back (deadlock, serialization), or a pooled connection is dead."""
    for left in reversed(range(_TRIES)):
        try:
            with reject_unstorable_values():
                return attempt()
        except DBAPIError as error:
            if not left or not (error.connection_invalidated or _state(error) in _ROLLED_BACK):
                raise translate_error(error) or error from None
            time.sleep(random.uniform(0, 0.05 * (_TRIES - left)))
        except PoolTimeout as error:
            raise ServerUnavailable("Too many requests wait for the database.", hint="Try again later.") from error
    raise AssertionError("the last try returns or raises")


def translate_error(error: DBAPIError) -> WindlassError | None:
    """The error of the store for an error of PostgreSQL; None for those that callers handle (constraints)."""
    first_line = str(error.orig).strip().splitlines()[:1]
    state = _state(error)
    if state == _DISK_FULL:
        return StorageFull(
            f"The disk of the database is full: {first_line[0]}.", hint="Free some space; nothing was lost."
        )
    if state in _OVERLOADED or state in _ROLLED_BACK or (isinstance(error, OperationalError) and state is None):
        return ServerUnavailable(f"The database does not answer: {' '.join(first_line)}", hint="Try again later.")
    return None


def _state(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None)
