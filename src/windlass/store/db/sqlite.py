"""SQLite: many readers, one writer that commits for everybody who waits (group commit)."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar, cast

from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError

from windlass.core.errors import InternalError, ServerUnavailable, StorageFull, WindlassError
from windlass.store.db.base import Database, refusing_what_cannot_be_kept
from windlass.store.db.group_commit import Act, Turns, Wish
from windlass.store.files.ballast import Ballast
from windlass.store.files.durability import sync

log = logging.getLogger(__name__)
T = TypeVar("T")

_CHECKED_SIZE = 32 << 20
_IDLE_READERS = 8  # kept open; each may fill a cache of 2 MB


class SqliteDatabase(Database):
    """Acts that wait share one transaction, and those that are to last one fsync; see Turns.

    SQLite itself commits without waiting for the disk. Who needs that waits for it after his commit, when the next act
    can go on already; so it is us who sync the file to which SQLite appends.
    """

    is_shared = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = _engine(path)
        self._idle: list[Connection] = []
        self._turns: Turns[Act] = Turns()
        self._syncs: Turns[Wish] = Turns()
        self._log: int | None = None  # SQLite's write-ahead log
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._broken: str | None = None
        self.ballast: Ballast | None = None  # space to be given back when the disk is full
        self._is_closed = False
        self.transactions = 0
        with self._explaining():
            self._writer = self._engine.connect()
        self._raw = cast(sqlite3.Connection, self._writer.connection.driver_connection)

    def check(self) -> None:
        """Look for damage, where that takes no more than a moment."""
        if self.path.stat().st_size <= _CHECKED_SIZE:
            with self._explaining():
                word = self._raw.execute("PRAGMA quick_check(1)").fetchone()[0]
            if word != "ok":
                raise InternalError(f"The database {self.path} is damaged: {word}.", hint=_PUT_BACK)

    def read(self, ask: Callable[[Connection], T]) -> T:
        with self._explaining(), self._reader() as connection:
            raw = cast(sqlite3.Connection, connection.connection.driver_connection)
            raw.execute("BEGIN")
            try:
                return ask(connection)
            finally:
                if raw.in_transaction:
                    raw.execute("ROLLBACK")

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Connection]:
        """A connection from the last one who read: to take one through the engine costs more than most questions."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._engine.connect()
        try:
            yield connection
        finally:
            if self._is_closed or len(self._idle) >= _IDLE_READERS:
                connection.close()
            else:
                self._idle.append(connection)

    def write(self, act: Callable[[Connection], T], durable: bool = True) -> T:
        mine = Act(act)
        self._turns.take(mine, self._perform_all)
        if durable:
            self._syncs.take(Wish(), self._sync_for)
        return cast(T, mine.result)

    def close(self) -> None:
        with self._writing, self._syncing:
            self._broken = "the store is closed"
            self._is_closed = True
            if self._log is not None:
                _sync_data(self._log)
                os.close(self._log)
            self._writer.close()
        while self._idle:
            self._idle.pop().close()

    def _perform_all(self, batch: list[Act]) -> None:
        try:
            with self._writing:
                try:
                    self._transact(batch)
                except StorageFull:
                    if self.ballast is None or not self.ballast.release():
                        raise
                    self._transact(batch)
        except Exception as error:
            for act in batch:
                act.fail(error)
        except BaseException:  # this thread is being stopped; those for whom it performs are not
            for act in batch:
                act.fail(ServerUnavailable("The write was interrupted.", hint="Try again."))
            raise

    def _transact(self, batch: list[Act]) -> None:
        if self._broken is not None:
            raise InternalError(f"The database {self.path} takes no more writes: {self._broken}.", hint=_RESTART)
        with self._explaining():
            self._raw.execute("BEGIN IMMEDIATE")
        try:
            for act in batch:
                self._perform(act, is_alone=len(batch) == 1)
            with self._explaining():
                self._commit()
        finally:
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
        self.transactions += 1

    def _sync_for(self, batch: list[Wish]) -> None:
        """Make all durable that was committed before."""
        try:
            with self._syncing:
                self._sync()
        except OSError as error:
            self._broken = str(error)  # what reached the disk is not known, and a second fsync could lie
            for wish in batch:
                wish.fail(InternalError(f"The disk of the database {self.path} failed: {error}.", hint=_RESTART))

    def _sync(self) -> None:
        if self._is_closed:
            return  # which synced it
        if self._log is None:
            self._log = os.open(f"{self.path}-wal", os.O_RDONLY)
            sync(self.path.parent)  # its name
        _sync_data(self._log)

    def _perform(self, act: Act, is_alone: bool) -> None:
        """A failing act undoes only itself, unless SQLite undid the whole transaction: then all have failed."""
        if not is_alone:
            self._raw.execute("SAVEPOINT act")
        try:
            with self._explaining():
                act.result = act.function(self._writer)
        except Exception as error:
            if is_alone or not self._raw.in_transaction or self._can_make_room(error):
                raise
            self._raw.execute("ROLLBACK TO act")
            act.fail(error)
        if not is_alone:
            self._raw.execute("RELEASE act")

    def _can_make_room(self, error: Exception) -> bool:
        return isinstance(error, StorageFull) and self.ballast is not None and self.ballast.is_filled

    def _commit(self) -> None:
        try:
            self._raw.execute("COMMIT")
        except sqlite3.Error as error:
            if _primary_code(error) not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY):
                # What reached the disk is not known, and a second fsync could lie. Only a new start can find out.
                self._broken = str(error)
            raise

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            with refusing_what_cannot_be_kept():
                yield
        except (DBAPIError, sqlite3.Error) as error:
            explained = explain(self.path, getattr(error, "orig", error))
            if explained is None:
                raise
            raise explained from error


_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has only the one
_PUT_BACK = "Put back a backup of this file."
_RESTART = "Look at the disk and the server's log, then start the server again."


def explain(path: Path, error: BaseException) -> WindlassError | None:
    """SQLite's complaint as a sentence, unless it is one that the store itself must understand (constraints)."""
    match _primary_code(error):
        case sqlite3.SQLITE_FULL:
            return StorageFull(f"The disk of the database {path} is full.", hint="Free some space; nothing was lost.")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return ServerUnavailable(
                f"The database {path} is locked by another program.", hint="Close it, then try again."
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return InternalError(f"The database {path} is damaged: {error}.", hint=_PUT_BACK)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return InternalError(
                f"The database {path} cannot be written: {error}.", hint="Check who owns it and its folder."
            )
        case sqlite3.SQLITE_IOERR:
            return InternalError(f"The disk of the database {path} failed: {error}.", hint=_RESTART)
    return None


def _primary_code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _engine(path: Path) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        isolation_level="AUTOCOMMIT",  # transactions are begun and ended by us
        poolclass=NullPool,
        connect_args={"check_same_thread": False, "isolation_level": None, "timeout": 10.0, "cached_statements": 256},
    )
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: sqlite3.Connection, record: object) -> None:
    connection.create_function("windlass_clock", 0, _microseconds_since_boot)
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "foreign_keys=ON",
        "journal_size_limit=67108864",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _microseconds_since_boot() -> int:
    """Leases of this one process: a clock that neither jumps nor stops while the machine sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000
