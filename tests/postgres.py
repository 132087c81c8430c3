"""A real PostgreSQL server for tests: installed if need be, made in a folder of its own, stopped by its own pid."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

_USER = "windlass"
_MIGRATED = "migrated"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "1GB",
}


class PostgresServer:
    """A cluster in a temporary folder. `start` and `kill` may follow each other any number of times."""

    def __init__(self, folder: Path, password: str, port: int) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.password = password
        self.port = port

    @classmethod
    def make(cls) -> PostgresServer:
        """A new one. It goes away when this process does, however that happens."""
        made = cls(Path(tempfile.mkdtemp(prefix="windlass-postgres-")), secrets.token_hex(16), _free_port())
        made._initialize()
        (made.folder / "lifeline").touch(0o600)
        assert made.hold()
        os.posix_spawn(sys.executable, [sys.executable, __file__, str(made.folder)], os.environ, setsid=True)
        return made

    def hold(self) -> bool:
        """Keep it from going away while this process lives; False if it is too late for that.

        Whoever holds it has a shared lock, which the kernel takes back at the process's end; a process of its own
        waits for the exclusive one, then removes the server.
        """
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            self._lifeline = os.open(self.folder / "lifeline", os.O_RDWR | os.O_CLOEXEC)
            fcntl.flock(self._lifeline, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return self.data.exists()
        return False

    def let_go(self) -> None:
        os.close(self._lifeline)

    @property
    def pid(self) -> int:
        """The pid of the server that runs in this folder."""
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{_USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def start(self, fsync: str = "on") -> None:
        settings = "".join(f" -c {name}={value}" for name, value in {**_SETTINGS, "fsync": fsync}.items())
        self._control("start", "-w", "-l", self.folder / "log.txt", "-o", f"-p {self.port} -k {self.folder}{settings}")

    def kill(self) -> None:
        """As if the machine's power went: no goodbye, and its children gone with it."""
        deadline = time.monotonic() + 60
        while pids := _processes_in(self.data):  # one that was just forked may be missed at first
            assert time.monotonic() < deadline
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        # A dead one that nobody has buried yet still looks alive to the next one.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        (self.folder / f".s.PGSQL.{self.port}.lock").unlink(missing_ok=True)

    def stop(self) -> None:
        """Clients are cut off; the data is whole."""
        self._control("stop", "-w", "-m", "fast")

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The address of a fresh database."""
        with fresh_database(self.url()) as url:
            yield url

    def _initialize(self) -> None:
        password = self.folder / "password"
        password.write_text(self.password)
        if owner := _owner():
            for path in (self.folder, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        options = f"-U {_USER} -A scram-sha-256 -E UTF8 --no-locale --no-sync".split()
        _run([_program("initdb"), "-D", self.data, "--pwfile", password, *options], self.folder)

    def _control(self, *argv: str | Path) -> None:
        _run([_program("pg_ctl"), "-D", self.data, *argv], self.folder)


@contextlib.contextmanager
def fresh_database(server_url: str, template: str = "template1") -> Iterator[str]:
    name = f"t_{secrets.token_hex(8)}"
    make = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    _execute(server_url, make.format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield _in(server_url, name)
    finally:
        _execute(server_url, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def migrated_database(server_url: str) -> contextlib.AbstractContextManager[str]:
    """A fresh database of a shared server that has its tables already: a copy takes a fraction of making them."""
    return fresh_database(server_url, _MIGRATED)


def _make_template(server_url: str) -> None:
    from windlass.store import open_store  # not in the process that only waits to remove a server

    _execute(server_url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_MIGRATED)))
    with tempfile.TemporaryDirectory() as folder:
        open_store(_in(server_url, _MIGRATED), Path(folder)).close()


def _in(server_url: str, database: str) -> str:
    return server_url.rpartition("/")[0] + f"/{database}"


def _execute(server_url: str, statement: sql.Composed) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement)


@contextlib.contextmanager
def shared_server(folder: Path) -> Iterator[str]:
    """The address of one server for all processes that name the same folder. No test of it cuts the power: it does
    not wait for the disk.
    """
    with open(folder / "postgres.json", "a+") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        note.seek(0)
        known = note.read()
        server = PostgresServer(*_about(known)) if known else PostgresServer.make()
        if known and not server.hold():
            server = PostgresServer.make()
        if not _processes_in(server.data):
            server.start(fsync="off")
            _make_template(server.url())
            note.truncate(0)
            note.write(json.dumps([str(server.folder), server.password, server.port]))
    try:
        yield server.url()
    finally:
        server.let_go()


def _about(note: str) -> tuple[Path, str, int]:
    folder, password, port = json.loads(note)
    return Path(folder), password, port


def _program(name: str) -> str:
    found = _find(name)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for argv in (["apt-get", "-qq", "update"], ["apt-get", "-qq", "-y", "install", "postgresql"]):
            subprocess.run(argv, check=True, env=quiet, stdout=subprocess.DEVNULL, timeout=600)
        found = _find(name)
    if found is None:
        raise AssertionError("PostgreSQL is not installed; on Debian: sudo apt-get install postgresql")
    return found


def _find(name: str) -> str | None:
    """Debian keeps the server's programs out of the path."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    return shutil.which(name, path=os.pathsep.join([*map(str, versions), os.environ.get("PATH", "")]))


def _owner() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root."""
    return pwd.getpwnam("postgres") if os.geteuid() == 0 else None


def _run(argv: list[str | Path], folder: Path) -> None:
    """The output goes to a file: a server that is started would keep a pipe open for ever."""
    owner = _owner()
    uid, gid = (owner.pw_uid, owner.pw_gid) if owner else (None, None)
    with open(folder / "output.txt", "w+") as output:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=120, cwd=folder,
            user=uid, group=gid, extra_groups=[] if owner else None,
        )  # fmt: skip
        output.seek(0)
        assert done.returncode == 0, output.read()


def _processes_in(folder: Path) -> list[int]:
    """The processes that work in this folder, as PostgreSQL's do in their data."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder) and _is_alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _free_port() -> int:
    """One that nobody has, and that the kernel gives to nobody who does not name it: it is used later, and again."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = secrets.choice(range(10_000, first))
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def _bury(folder: Path) -> None:
    """Wait until nobody holds the server in this folder, then remove it."""
    with open(folder / "lifeline", "rb") as lifeline:
        fcntl.flock(lifeline, fcntl.LOCK_EX)
        PostgresServer(folder, "", 0).remove()


if __name__ == "__main__":
    _bury(Path(sys.argv[1]))
