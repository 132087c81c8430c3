"""A place for rows: questions run on a connection of their own, acts in one transaction each."""

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
    """Both methods may call their function more than once, so it does nothing but speak to the connection."""

    is_shared: bool

    @abstractmethod
    def read(self, ask: Callable[[Connection], T]) -> T:
        """Answer from one consistent view."""

    @abstractmethod
    def write(self, act: Callable[[Connection], T], durable: bool = True) -> T:
        """Do it in one transaction, which is durable when this returns; when it raises, nothing was done. What the
        targets tell again need not be `durable`: a power cut may take it back, for a database that one server uses.
        """

    @abstractmethod
    def close(self) -> None: ...


class lease_clock(FunctionElement[int]):
    """Microseconds by the one clock that all owners of leases share: the database's."""

    type = BigInteger()
    inherit_cache = True


@compiles(lease_clock)
def _ask_the_function(element: lease_clock, compiler: SQLCompiler, **kw: Any) -> str:
    return "windlass_clock()"


@compiles(lease_clock, "postgresql")
def _ask_the_server(element: lease_clock, compiler: SQLCompiler, **kw: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


def insert_or(table: Table) -> Insert:
    """INSERT … ON CONFLICT: SQLite's construct, which PostgreSQL compiles too, since it spells that alike."""
    return Insert(table)


@contextlib.contextmanager
def refusing_what_cannot_be_kept() -> Iterator[None]:
    """Numbers beyond 64 bits and the like are the caller's mistake, whichever way the driver says so."""
    try:
        yield
    except (DataError, OverflowError) as error:
        raise InvalidRequest(
            f"A value cannot be stored: {str(getattr(error, 'orig', error)).splitlines()[0]}"
        ) from error
