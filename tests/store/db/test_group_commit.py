"""Group commit on SQLite: writes share a transaction and its fsync, and a failing one undoes only itself."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from windlass.core.errors import InternalError, InvalidRequest, ServerUnavailable, StorageFull
from windlass.store.db.group_commit import GroupCommit, QueuedWork, QueuedWrite
from windlass.store.db.sqlite import SqliteDatabase, translate_error


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "db.sqlite")
    opened.write(lambda c: c.execute(text("CREATE TABLE t (n INTEGER PRIMARY KEY, batch TEXT)")))
    yield opened
    opened.close()


def add(number: int) -> Callable[[Connection], int]:
    def act(connection: Connection) -> int:
        connection.execute(text("INSERT INTO t (n) VALUES (:n)"), {"n": number})
        return number * 2

    return act


def numbers(database: SqliteDatabase) -> list[int]:
    return database.read(lambda c: list(c.execute(text("SELECT n FROM t ORDER BY n")).scalars()))


class Occupied:
    """A thread leads, and other writes queue behind it."""

    def __init__(self, database: SqliteDatabase, pool: ThreadPoolExecutor) -> None:
        self.database = database
        self.pool = pool
        self._leading, self._go_on = threading.Event(), threading.Event()

    def __enter__(self) -> Occupied:
        self._held = self.pool.submit(self.database.write, self._stay)
        assert self._leading.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        self._held.result(60)

    def queue(self, act: Callable[[Connection], Any]) -> Future[Any]:
        waiting = self.database._commits.count_waiting()
        future = self.pool.submit(self.database.write, act)
        while self.database._commits.count_waiting() == waiting:
            time.sleep(0.001)
        return future

    def _stay(self, connection: Connection) -> None:
        self._leading.set()
        assert self._go_on.wait(60)


def test_each_thread_gets_its_own_result(database: SqliteDatabase) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: database.write(add(n)), range(200)))
    assert answers == [number * 2 for number in range(200)]
    assert numbers(database) == list(range(200))


def test_waiting_writes_share_a_transaction(database: SqliteDatabase) -> None:
    with ThreadPoolExecutor(12) as pool:
        with Occupied(database, pool) as occupied:
            before = database.transactions
            futures = [occupied.queue(add(number)) for number in range(10)]
        assert [future.result(60) for future in futures] == [number * 2 for number in range(10)]
    assert database.transactions == before + 2  # the one that was under way, and one for all ten


def test_a_failing_write_undoes_only_itself(database: SqliteDatabase) -> None:
    def refuse(connection: Connection) -> None:
        connection.execute(text("INSERT INTO t (n) VALUES (100)"))
        raise InvalidRequest("no")

    def clash(connection: Connection) -> None:
        connection.execute(text("INSERT INTO t (n) VALUES (200)"))
        connection.execute(text("INSERT INTO t (n) VALUES (200)"))

    def overflow(connection: Connection) -> None:
        connection.execute(text("INSERT INTO t (n) VALUES (:n)"), {"n": 2**70})

    with ThreadPoolExecutor(12) as pool:
        with Occupied(database, pool) as occupied:
            good = [occupied.queue(add(1)), occupied.queue(add(2))]
            bad = [occupied.queue(act) for act in (refuse, clash, overflow)]
            good.append(occupied.queue(add(3)))
        assert [future.result(60) for future in good] == [2, 4, 6]
        assert [type(future.exception(60)).__name__ for future in bad] == [
            "InvalidRequest", "IntegrityError", "InvalidRequest",
        ]  # fmt: skip
    assert numbers(database) == [1, 2, 3]


def test_a_failing_write_alone_leaves_nothing(database: SqliteDatabase) -> None:
    def refuse(connection: Connection) -> None:
        connection.execute(text("INSERT INTO t (n) VALUES (100)"))
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        database.write(refuse)
    assert numbers(database) == []
    assert database.write(add(1)) == 2


def test_what_was_acknowledged_is_seen_by_others(database: SqliteDatabase) -> None:
    with closing(sqlite3.connect(database.path)) as other:
        for number in range(5):
            database.write(add(number))
            assert other.execute("SELECT count(*) FROM t").fetchone() == (number + 1,)


def test_a_leader_that_is_stopped_hands_the_lead_over(database: SqliteDatabase) -> None:
    def stopped(connection: Connection) -> None:
        raise KeyboardInterrupt

    with ThreadPoolExecutor(4) as pool:
        with Occupied(database, pool) as occupied:
            futures = [occupied.queue(add(1)), occupied.queue(stopped)]
        outcomes = [future.exception(60) for future in futures]
    assert {type(outcome) for outcome in outcomes} <= {KeyboardInterrupt, ServerUnavailable}
    assert database.write(add(7)) == 14


def test_a_full_disk_is_reported_and_survived(database: SqliteDatabase) -> None:
    """SQLite itself reports that there is no room; earlier writes stay, and writing goes on once there is."""
    pages = database.write(lambda c: c.execute(text("PRAGMA page_count")).scalar_one())
    database.write(lambda c: c.execute(text(f"PRAGMA max_page_count={pages + 3}")))
    big = text("INSERT INTO t (n, batch) VALUES (:n, hex(zeroblob(100000)))")
    with pytest.raises(StorageFull, match="is full"):
        database.write(lambda c: c.execute(big, {"n": 1}))
    assert database.write(add(2)) == 4
    database.write(lambda c: c.execute(text("PRAGMA max_page_count=1000000")))
    database.write(lambda c: c.execute(big, {"n": 3}))
    assert numbers(database) == [2, 3]


def test_a_database_locked_by_another_program_is_reported(database: SqliteDatabase) -> None:
    database.write(lambda c: c.execute(text("PRAGMA busy_timeout=20")))
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ServerUnavailable, match="locked by another program"):
            database.write(add(1))
        other.execute("ROLLBACK")
    assert database.write(add(1)) == 2


def test_a_closed_database_takes_nothing(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "db.sqlite")
    database.close()
    with pytest.raises(InternalError, match="closed"):
        database.write(add(1))


def test_constraint_errors_are_left_to_callers(tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(sqlite3.IntegrityError) as caught:
            connection.execute("INSERT INTO t VALUES (1)")
    assert translate_error(tmp_path, caught.value) is None


def test_only_durable_writes_wait_for_the_disk(database: SqliteDatabase) -> None:
    assert database._wal is not None
    os.close(database._wal)  # a disk that fails from now on
    assert database.write(add(1), durable=False) == 2
    with pytest.raises(InternalError, match="The disk of the database .* failed"):
        database.write(add(2))
    with pytest.raises(InternalError, match="takes no more writes"):
        database.write(add(3), durable=False)
    database._wal = None  # which the fixture need not close


def test_a_waiting_fsync_does_not_block_other_writes(database: SqliteDatabase) -> None:
    with ThreadPoolExecutor(3) as pool:
        with database._syncing:  # a disk that takes its time
            waiting = [pool.submit(database.write, add(number)) for number in (1, 2)]
            while numbers(database) != [1, 2]:
                time.sleep(0.001)
            assert database.write(add(3), durable=False) == 6
            assert not any(write.done() for write in waiting)
        assert [write.result(60) for write in waiting] == [2, 4]


def test_a_waiting_thread_that_is_stopped_hands_the_lead_over() -> None:
    """The signal comes just when the thread is woken to lead: the next one must be woken in its place."""
    group: GroupCommit[QueuedWrite] = GroupCommit(AssertionError)
    first, stopped, last = (QueuedWrite(lambda connection: None) for _ in range(3))
    assert group.join(first) == [first]
    waiting = ThreadPoolExecutor(2)
    stopped.woken = Interrupted()  # type: ignore[assignment]
    result = waiting.submit(group.join, stopped)
    while group.count_waiting() < 1:
        time.sleep(0.001)
    next_one = waiting.submit(group.join, last)
    while group.count_waiting() < 2:
        time.sleep(0.001)
    group.leave(first, [first])
    assert isinstance(result.exception(60), KeyboardInterrupt)
    assert next_one.result(60) == [last]
    waiting.shutdown()


def test_an_interrupted_leader_fails_the_unsettled_work_of_its_batch() -> None:
    group: GroupCommit[QueuedWork] = GroupCommit(lambda: ServerUnavailable("interrupted"))
    first, leader, waiting, settled = QueuedWork(), QueuedWork(), QueuedWork(), Settled()

    def interrupt(batch: list[QueuedWork]) -> None:
        raise KeyboardInterrupt

    assert group.join(first) == [first]
    with ThreadPoolExecutor(3) as pool:
        results = []
        for count, work in enumerate((leader, waiting, settled), 1):
            results.append(pool.submit(group.execute, work, interrupt))
            while group.count_waiting() < count:
                time.sleep(0.001)
        group.leave(first, [first])
        errors = [type(result.exception(60)) for result in results]
    assert errors == [KeyboardInterrupt, ServerUnavailable, type(None)]


class Settled(QueuedWork):
    @property
    def is_settled(self) -> bool:
        return True


class Interrupted:
    """A lock whose acquire() is interrupted by a signal as soon as the lock is released."""

    def __init__(self) -> None:
        self._released = threading.Event()

    def acquire(self) -> None:
        self._released.wait(60)
        raise KeyboardInterrupt

    def release(self) -> None:
        self._released.set()
