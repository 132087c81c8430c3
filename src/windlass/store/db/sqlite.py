"""SQLite: many reading connections, and one writer with group commit."""

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
from windlass.store.db.base import Database, reject_unstorable_values
from windlass.store.db.group_commit import GroupCommit, QueuedWork, QueuedWrite
from windlass.store.files.ballast import Ballast
from windlass.store.files.durability import sync

log = logging.getLogger(__name__)
T = TypeVar("T")

_CHECKED_SIZE = 32 << 20
_IDLE_READERS = 8  # kept open; each may fill a cache of 2 MB


class SqliteDatabase(Database):
    """Concurrent writes share a transaction, and the durable ones among them an fsync; see GroupCommit.

    SQLite commits without an fsync (synchronous=NORMAL). A durable write syncs the write-ahead log itself, after its
    commit, while the next transaction is already under way.
    """

    is_shared = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = _engine(path)
        self._idle: list[Connection] = []
        self._commits: GroupCommit[QueuedWrite] = GroupCommit(_interrupted)
        self._syncs: GroupCommit[QueuedWork] = GroupCommit(_interrupted)
        self._wal: int | None = None  # descriptor of SQLite's write-ahead log
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._broken: str | None = None
        self.ballast: Ballast | None = None  # a file that is removed when the disk is full
        self._is_closed = False
        self.transactions = 0
        with self._translating_errors():
            self._writer = self._engine.connect()
        self._raw = cast(sqlite3.Connection, self._writer.connection.driver_connection)

    def check(self) -> None:
        """Raise InternalError if a small database file is damaged; a large one is not checked, since that takes
        long.
        """
        if self.path.stat().st_size <= _CHECKED_SIZE:
            with self._translating_errors():
                result = self._raw.execute("PRAGMA quick_check(1)").fetchone()[0]
            if result != "ok":
                raise InternalError(f"The database {self.path} is damaged: {result}.", hint=_RESTORE)

    def read(self, query: Callable[[Connection], T]) -> T:
        with self._translating_errors(), self._reader() as connection:
            raw = cast(sqlite3.Connection, connection.connection.driver_connection)
            raw.execute("BEGIN")
            try:
                return query(connection)
            finally:
                if raw.in_transaction:
                    raw.execute("ROLLBACK")

    @contextlib.contextmanager
    def _reader(self) -> Iterator[Connection]:
        """A pooled connection: to open one through SQLAlchemy's engine costs more than most queries."""
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

    def write(self, transaction: Callable[[Connection], T], durable: bool = True) -> T:
        mine = QueuedWrite(transaction)
        self._commits.execute(mine, self._commit_batch)
        if durable:
            self._syncs.execute(QueuedWork(), self._sync_batch)
        return cast(T, mine.result)

    def close(self) -> None:
        with self._writing, self._syncing:
            self._broken = "the store is closed"
            self._is_closed = True
            if self._wal is not None:
                _sync_data(self._wal)
                os.close(self._wal)
            self._writer.close()
        while self._idle:
            self._idle.pop().close()

    def _commit_batch(self, batch: list[QueuedWrite]) -> None:
        with self._writing:
            try:
                self._run_transaction(batch)
            except StorageFull:
                if self.ballast is None or not self.ballast.release():
                    raise
                self._run_transaction(batch)

    def _run_transaction(self, batch: list[QueuedWrite]) -> None:
        if self._broken is not None:
            raise InternalError(f"The database {self.path} takes no more writes: {self._broken}.", hint=_RESTART)
        with self._translating_errors():
            self._raw.execute("BEGIN IMMEDIATE")
        try:
            for write in batch:
                self._run(write, is_alone=len(batch) == 1)
            with self._translating_errors():
                self._commit()
        finally:
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
        self.transactions += 1

    def _sync_batch(self, batch: list[QueuedWork]) -> None:
        """Make every earlier commit durable."""
        try:
            with self._syncing:
                self._sync()
        except OSError as error:
            # What reached the disk is not known, and a second fsync could report success wrongly.
            self._broken = str(error)
            for work in batch:
                work.fail(InternalError(f"The disk of the database {self.path} failed: {error}.", hint=_RESTART))

    def _sync(self) -> None:
        if self._is_closed:
            return  # close() has synced it
        if self._wal is None:
            self._wal = os.open(f"{self.path}-wal", os.O_RDONLY)
            sync(self.path.parent)  # the entry of the log in its directory
        _sync_data(self._wal)

    def _run(self, write: QueuedWrite, is_alone: bool) -> None:
        """Run one function of a batch in a savepoint, so that an error undoes only its own changes. If SQLite rolled
        the whole transaction back, the batch fails.
        """
        if not is_alone:
            self._raw.execute("SAVEPOINT act")
        try:
            with self._translating_errors():
                write.result = write.function(self._writer)
        except Exception as error:
            if is_alone or not self._raw.in_transaction or self._can_make_room(error):
                raise
            self._raw.execute("ROLLBACK TO act")
            write.fail(error)
        if not is_alone:
            self._raw.execute("RELEASE act")

    def _can_make_room(self, error: Exception) -> bool:
        return isinstance(error, StorageFull) and self.ballast is not None and self.ballast.is_filled

    def _commit(self) -> None:
        try:
            self._raw.execute("COMMIT")
        except sqlite3.Error as error:
            if _primary_code(error) not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY):
                # As after a failed fsync: only a new start can find out what reached the disk.
                self._broken = str(error)
            raise

    @contextlib.contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            with reject_unstorable_values():
                yield
        except (DBAPIError, sqlite3.Error) as error:
            translated = translate_error(self.path, getattr(error, "orig", error))
            if translated is None:
                raise
            raise translated from error


_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync
_RESTORE = "Put back a backup of this file."
_RESTART = "Look at the disk and the server's log, then start the server again."


def _interrupted() -> ServerUnavailable:
    return ServerUnavailable("The write was interrupted.", hint="Try again.")


def translate_error(path: Path, error: BaseException) -> WindlassError | None:
    """The error of the store for an error of SQLite; None for those that callers handle (constraints)."""
    match _primary_code(error):
        case sqlite3.SQLITE_FULL:
            return StorageFull(f"The disk of the database {path} is full.", hint="Free some space; nothing was lost.")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return ServerUnavailable(
                f"The database {path} is locked by another program.", hint="Close it, then try again."
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return InternalError(f"The database {path} is damaged: {error}.", hint=_RESTORE)
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
        isolation_level="AUTOCOMMIT",  # BEGIN and COMMIT are executed above
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
    """The clock for leases of this one process: it never jumps, and goes on while the machine sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000
