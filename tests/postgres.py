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
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

_USER = "windlass"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "on",
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
        folder = Path(tempfile.mkdtemp(prefix="windlass-postgres-"))
        made = cls(folder, secrets.token_hex(16), _free_port())
        made._initialize()
        return made

    @property
    def pid(self) -> int:
        """The pid of the server that runs in this folder."""
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{_USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        settings = "".join(f" -c {name}={value}" for name, value in _SETTINGS.items())
        self._control("start", "-w", "-l", self.folder / "log.txt", "-o", f"-p {self.port} -k {self.folder}{settings}")

    def kill(self) -> None:
        """As if the machine's power went: no goodbye, and its children gone with it."""
        pids = [self.pid, *_children(self.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _wait_until_gone(pids)

    def stop(self) -> None:
        """Clients are cut off; the data is whole."""
        self._control("stop", "-w", "-m", "fast")

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it does not run
            os.kill(self.pid, 0)
            self.stop()
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
        argv: list[str | Path] = [
            _program("initdb"),
            "-D",
            self.data,
            "-U",
            _USER,
            "-A",
            "scram-sha-256",
            "--pwfile",
            password,
        ]
        _run([*argv, "-E", "UTF8", "--no-locale", "--no-sync"], self.folder)

    def _control(self, *argv: str | Path) -> None:
        _run([_program("pg_ctl"), "-D", self.data, *argv], self.folder)


@contextlib.contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    name = f"t_{secrets.token_hex(8)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield server_url.rpartition("/")[0] + f"/{name}"
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextlib.contextmanager
def shared_server(folder: Path) -> Iterator[str]:
    """The address of one server for all processes that name the same folder. The last one to leave stops it.

    Each user holds a shared lock while it lives; the kernel gives it back however the process ends.
    """
    note = folder / "postgres.json"
    with open(folder / "postgres.users", "a+b") as users, open(folder / "postgres.lock", "a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if note.exists():
            where, password, port = json.loads(note.read_text())
            server = PostgresServer(Path(where), password, port)
        else:
            server = PostgresServer.make()
            server.start()
            note.write_text(json.dumps([str(server.folder), server.password, server.port]))
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(lock, fcntl.LOCK_UN)
        try:
            yield server.url()
        finally:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                note.unlink()
                server.remove()


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


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(_is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
