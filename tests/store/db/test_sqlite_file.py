"""Opening a store: one process, an intact file, a local disk, a known version; otherwise an error that says why."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.store.makers import make_workspace, submit
from windlass.core.errors import Conflict, InternalError, InvalidRequest, ServerUnavailable
from windlass.store import open_store
from windlass.store.db import sqlite_file

HOLDER = """
import sys, threading
from pathlib import Path
from windlass.store import open_store
store = open_store(sys.argv[1], Path(sys.argv[2]))
print("open", flush=True)
threading.Event().wait()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "db.sqlite"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def holder(url: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", HOLDER, url, str(tmp_path / "files")]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def some_runs(url: str, files: Path) -> None:
    store = open_store(url, files)
    make_workspace(store)
    for number in range(50):
        submit(store, f"r{number}", tags={"t": "x" * 200})
    store.close()


def test_what_was_stored_is_there_the_next_time(store_url: str, tmp_path: Path) -> None:
    some_runs(store_url, tmp_path / "files")
    store = open_store(store_url, tmp_path / "files")
    assert store.runs.get("default", "r7").tags == {"t": "x" * 200}
    assert store.is_shared is store_url.startswith("postgresql")
    store.close()


def test_only_its_owner_reads_it(url: str, path: Path, tmp_path: Path) -> None:
    some_runs(url, tmp_path / "files")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "files" / "blobs").stat().st_mode) == 0o700


def test_a_second_process_is_refused_with_the_pid_of_the_first(
    holder: subprocess.Popen[str], url: str, path: Path, tmp_path: Path
) -> None:
    with pytest.raises(Conflict, match=f"{path} is in use by the process {holder.pid}") as refused:
        open_store(url, tmp_path / "files")
    assert refused.value.details == {"pid": str(holder.pid)}
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    open_store(url, tmp_path / "files").close()


def test_a_second_store_in_the_same_process_is_refused(url: str, tmp_path: Path) -> None:
    first = open_store(url, tmp_path / "files")
    with pytest.raises(Conflict, match=f"process {os.getpid()}"):
        open_store(url, tmp_path / "files")
    first.close()
    open_store(url, tmp_path / "files").close()


def test_many_servers_share_postgresql(empty_postgres: str, tmp_path: Path) -> None:
    first, second = open_store(empty_postgres, tmp_path / "files"), open_store(empty_postgres, tmp_path / "files")
    make_workspace(first)
    submit(first, "r1")
    assert second.runs.get("default", "r1").id == "r1"
    first.close()
    second.close()


def test_what_is_no_database_is_refused(url: str, path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is a diary, not a database. " * 100)
    with pytest.raises(InternalError, match="is damaged: file is not a database"):
        open_store(url, tmp_path / "files")
    assert path.read_bytes().startswith(b"this is a diary")


@pytest.mark.parametrize("damage", ["cut", "middle"])
def test_a_damaged_database_is_refused(url: str, path: Path, tmp_path: Path, damage: str) -> None:
    some_runs(url, tmp_path / "files")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    else:
        data[8192 : len(data) - 4096] = os.urandom(len(data) - 4096 - 8192)
    path.write_bytes(data)
    with pytest.raises(InternalError, match="is damaged") as refused:
        open_store(url, tmp_path / "files")
    assert "backup" in refused.value.hint


def test_an_empty_file_is_a_new_database(url: str, path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    some_runs(url, tmp_path / "files")


def test_a_database_of_another_program_is_refused(url: str, path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (id TEXT)")
    with pytest.raises(InternalError, match="tables of another program: runs"):
        open_store(url, tmp_path / "files")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("runs",)]


@pytest.mark.parametrize("kind", ["url", "postgres_url"])
def test_a_newer_database_is_refused(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    address = request.getfixturevalue(kind)
    open_store(address, tmp_path / "files").close()
    engine = create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_versions SET version = 1000000"))
    engine.dispose()
    with pytest.raises(Conflict, match="schema version 1000000; this Windlass knows up to") as refused:
        open_store(address, tmp_path / "files")
    assert "newer Windlass" in refused.value.hint


def test_a_folder_is_no_database(url: str, path: Path, tmp_path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(InternalError, match="cannot be opened: Is a directory"):
        open_store(url, tmp_path / "files")


def test_a_file_is_no_home(path: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(InternalError, match="cannot be opened"):
        open_store(f"sqlite:///{path}", tmp_path / "files")


@pytest.mark.parametrize("url", ["", "mysql://x/y", "/just/a/path", "sqlite:relative", "http://x"])
def test_other_addresses_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="address begins with"):
        open_store(url, tmp_path)


def test_an_unknown_database_is_reported_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailable) as caught:
        open_store("postgresql://windlass:hunter2@127.0.0.1:1/nothing", tmp_path)
    assert "hunter2" not in str(caught.value) and "127.0.0.1" in str(caught.value)


MOUNTS = """\
21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
30 21 0:40 / /home rw - nfs4 server:/home rw
31 30 0:41 / /home/ann/local rw - xfs /dev/sdb1 rw
32 21 0:42 / /mnt/my\\040disk rw master:1 - cifs //box/share rw
33 21 0:43 / /data rw - ext4 /dev/sdc1 rw
34 33 0:44 / /data rw - fuse.sshfs box:/data rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/db.sqlite", "ext4"),
        ("/home/ann/db.sqlite", "nfs4"),
        ("/home/ann/local/db.sqlite", "xfs"),
        ("/homes/db.sqlite", "ext4"),
        ("/mnt/my disk/db.sqlite", "cifs"),
        ("/data/db.sqlite", "fuse.sshfs"),
    ],
)
def test_the_kind_of_disk_is_known(path: str, kind: str) -> None:
    assert sqlite_file.file_system(Path(path), MOUNTS) == kind
    if kind in ("ext4", "xfs"):
        sqlite_file.refuse_network_disk(Path(path), MOUNTS)
    else:
        with pytest.raises(InvalidRequest, match=f"network disk \\({kind}\\)"):
            sqlite_file.refuse_network_disk(Path(path), MOUNTS)


def test_this_disk_is_known(tmp_path: Path) -> None:
    assert sqlite_file.file_system(tmp_path, sqlite_file.read_mounts())


def test_temporary_files_of_a_dead_server_are_removed(url: str, tmp_path: Path) -> None:
    store = open_store(url, tmp_path / "files")
    (store.blobs.aside / "half").write_bytes(b"x")
    store.close()
    open_store(url, tmp_path / "files").close()
    assert list((tmp_path / "files" / "blobs" / "aside").iterdir()) == []
