"""Crashes: acknowledged writes survive them, and a broken database is reported."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.store.makers import make_workspace, replayed, submit
from windlass.core.entities import Run
from windlass.core.errors import ServerUnavailable
from windlass.store import RunQuery, Store, open_store

SUBMITTER = """
import os, sys, threading
from pathlib import Path
from windlass.core.entities import RunSpec
from windlass.store import Capacity, NewRun, open_store

with_slots = lambda slots: lambda workspace, target: Capacity(slots)
store = open_store(sys.argv[1], Path(sys.argv[2]))
store.workspaces.create("default", exist_ok=True)
store.targets.ensure("default", "local", "local", {}, None, True)
name = sys.argv[3]

def submit(thread):
    for number in range(100000):
        new = NewRun(f"{name}-{thread}-{number}", "default", "demo", "t", key=f"{name}-{thread}-{number}",
                     spec=RunSpec(), tags={"thread": str(thread)}, nonce="n")
        run, _, _ = store.runs.submit(new, "me", with_slots(5), 30)
        os.write(1, f"{run.id}\\n".encode())  # in one piece

for thread in range(4):
    threading.Thread(target=submit, args=(thread,), daemon=True).start()
threading.Event().wait()
"""


@contextmanager
def submitter(url: str, files: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", SUBMITTER, url, files, name], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def acknowledged(process: subprocess.Popen[str], count: int) -> list[str]:
    """Let the server run for a while, kill it, and read its last answers."""
    assert process.stdout is not None
    ids = [process.stdout.readline().strip() for _ in range(count)]
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()
    return ids + rest.splitlines()[: rest.count("\n")]


def test_every_acknowledged_run_is_there_after_kill_9(store_url: str, tmp_path: Path) -> None:
    known: list[str] = []
    for name, count in (("first", 1), ("second", 40), ("third", 90)):
        with submitter(store_url, tmp_path / "files", name) as process:
            known += acknowledged(process, count)
    assert len(known) >= 131
    store = open_store(store_url, tmp_path / "files")
    kept = [run for page in _pages(store) for run in page]
    assert set(known) <= {run.id for run in kept}
    assert sorted(run.number for run in kept) == list(range(1, len(kept) + 1))
    assert all(replayed(store, run.id)[0] is run.state for run in kept[-20:])
    active, waiting = store.targets.counts("default")["local"]
    assert (active, active + waiting) == (5, len(kept))
    store.close()
    if store_url.startswith("sqlite"):
        with closing(sqlite3.connect(tmp_path / "db.sqlite")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def _pages(store: Store) -> Iterator[list[Run]]:
    cursor = None
    while True:
        page = store.runs.find(RunQuery("default", limit=1000, cursor=cursor))
        yield page.runs
        cursor = page.next
        if cursor is None:
            return


BROKEN_DISK = """
import resource, sys
from pathlib import Path
from windlass.core.entities import RunSpec
from windlass.core.errors import InternalError
from windlass.store import Capacity, NewRun, open_store

with_slots = lambda slots: lambda workspace, target: Capacity(slots)
store = open_store(sys.argv[1], Path(sys.argv[2]))
store.workspaces.create("default")
store.targets.ensure("default", "local", "local", {}, None, True)
new = lambda id: NewRun(id, "default", "demo", "t", spec=RunSpec())
store.runs.submit(new("before"), "me", with_slots(None), 30)
grown = Path(sys.argv[3]).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (grown + 100, resource.RLIM_INFINITY))
for id in ("broken", "after"):
    try:
        store.runs.submit(new(id), "me", with_slots(None), 30)
    except InternalError as error:
        print(error.message)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(store.runs.get("default", "before").id)
"""


def test_a_commit_that_fails_is_never_tried_again(tmp_path: Path) -> None:
    """The disk fails at the commit, then works again: what reached it is not known, so a new start is needed."""
    url = f"sqlite:///{tmp_path}/db.sqlite"
    argv = [sys.executable, "-c", BROKEN_DISK, url, str(tmp_path / "files"), str(tmp_path / "db.sqlite-wal")]
    lines = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert "failed: disk I/O error" in lines[0]
    assert "takes no more writes: disk I/O error" in lines[1]
    assert lines[2] == "before"
    store = open_store(url, tmp_path / "files")
    assert submit(store, "after")[1]
    assert "before" in {run.id for run in store.runs.find(RunQuery("default")).runs}
    store.close()


def test_postgresql_may_die_and_come_back(own_postgres: PostgresServer, tmp_path: Path) -> None:
    with own_postgres.database() as url:
        store = open_store(url, tmp_path / "files")
        make_workspace(store)
        known: list[str] = []
        stop = threading.Event()

        def go_on(thread: int) -> None:
            for number in range(100_000):
                if stop.is_set():
                    return
                try:
                    known.append(submit(store, f"r-{thread}-{number}", key=f"{thread}-{number}", slots=3)[0].id)
                except ServerUnavailable as error:
                    assert own_postgres.password not in str(error)

        threads = [threading.Thread(target=go_on, args=(thread,)) for thread in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            _wait_for(known, 20)
            own_postgres.kill()
            own_postgres.start()
        _wait_for(known, 20)
        stop.set()
        for thread in threads:
            thread.join()
        kept = [run for page in _pages(store) for run in page]
        assert set(known) <= {run.id for run in kept}
        assert sorted(run.number for run in kept) == list(range(1, len(kept) + 1))
        store.close()


def _wait_for(known: list[str], more: int) -> None:
    wanted = len(known) + more
    moment = threading.Event()
    while len(known) < wanted:
        moment.wait(0.01)


def test_an_unreachable_database_is_reported(own_postgres: PostgresServer, tmp_path: Path) -> None:
    store = open_store(own_postgres.url(), tmp_path / "files")
    make_workspace(store)
    own_postgres.kill()
    for attempt in (lambda: store.runs.find(RunQuery("default")), lambda: submit(store, "r1")):
        with pytest.raises(ServerUnavailable) as caught:
            attempt()
        assert caught.value.transient and own_postgres.password not in str(caught.value)
    own_postgres.start()
    assert submit(store, "r1")[1]
    store.close()


def test_dead_connections_of_the_pool_are_replaced_unnoticed(own_postgres: PostgresServer, tmp_path: Path) -> None:
    store = open_store(own_postgres.url(), tmp_path / "files")
    make_workspace(store)
    submit(store, "r1")
    own_postgres.kill()
    own_postgres.start()
    assert store.runs.get("default", "r1").id == "r1"
    own_postgres.kill()
    own_postgres.start()
    assert submit(store, "r2")[1]
    store.close()
