"""The interface of both databases: read(query) and write(transaction)."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Connection
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.exc import DataError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.schema import Table

from windlass.core.errors import InvalidRequest

T = TypeVar("T")


class Database(ABC):
    """Both methods may call their function more than once, so it must have no effect except on the connection."""

    is_shared: bool  # whether several servers may use it at once

    @abstractmethod
    def read(self, query: Callable[[Connection], T]) -> T:
        """Run the query on one consistent snapshot of the database."""

    @abstractmethod
    def write(self, transaction: Callable[[Connection], T], durable: bool = True) -> T:
        """Run the function in one transaction, which is durable when this returns; when it raises, nothing was done.
        With durable=False, a power cut may lose the transaction if only one server uses the database: for changes that
        the targets report again.
        """

    @abstractmethod
    def close(self) -> None: ...


class lease_clock(FunctionElement[int]):
    """The clock for leases, in microseconds: the database's, since all owners of leases share it."""

    type = BigInteger()
    inherit_cache = True


@compiles(lease_clock)
def _compile_clock(element: lease_clock, compiler: SQLCompiler, **kw: Any) -> str:
    return "windlass_clock()"


@compiles(lease_clock, "postgresql")
def _compile_clock_for_postgresql(element: lease_clock, compiler: SQLCompiler, **kw: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


class change_clock(FunctionElement[int]):
    """The clock of changes that other servers look for: the database's, in microseconds. NULL on SQLite, where one
    server makes all changes and announces them itself: then an index of it costs nothing.
    """

    type = BigInteger()
    inherit_cache = True


@compiles(change_clock)
def _compile_change_clock(element: change_clock, compiler: SQLCompiler, **kw: Any) -> str:
    return "NULL"


compiles(change_clock, "postgresql")(_compile_clock_for_postgresql)


def insert_or(table: Table) -> Insert:
    """INSERT … ON CONFLICT. SQLAlchemy's construct for SQLite compiles for PostgreSQL too: the syntax is the same."""
    return Insert(table)


@contextlib.contextmanager
def reject_unstorable_values() -> Iterator[None]:
    """Raise InvalidRequest for values that no column takes, such as numbers beyond 64 bits: drivers raise different
    errors for them.
    """
    try:
        yield
    except (DataError, OverflowError) as error:
        raise InvalidRequest(
            f"A value cannot be stored: {str(getattr(error, 'orig', error)).splitlines()[0]}"
        ) from error
