"""Find the private server of this machine, or start it.

The server tells where it is in `server.json` of its home, and what opens it in `token`. Whoever finds none starts one,
under a lock: however many start at once, one server comes up and all use it. A server that is older than this code is
asked to go and replaced (its runs go on); a newer one is used as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass._version import __version__
from windlass.client.http import interpreter
from windlass.client.http.connection import Connection, Url
from windlass.client.http.home import home as home
from windlass.client.http.session import Address, Session
from windlass.core.errors import InvalidRequest, ServerUnavailable, WindlassError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

START_SECONDS = 60.0
# A training script can wait for a server that is being restarted.
SCRIPT_PATIENCE_SECONDS = 60.0
# And longer for one that is reached through a relay: it may be the network that is away.
RELAY_PATIENCE_SECONDS = 600.0
_POLL_SECONDS = 0.005
# How long a server that is about to end may take.
_END_SECONDS = 20.0
_HEALTH_SECONDS = 5.0
_OLDEST_PYTHON = (3, 11)
_LOG_LINES = 5

_started: set[int] = set()
_sessions: dict[tuple[str, ...], Session] = {}
_NAME_A_SESSION = ("WINDLASS_URL", "WINDLASS_RUN_ID", "WINDLASS_TOKEN", "WINDLASS_RUN_TOKEN")


class CannotStart(ServerUnavailable):
    """There is no private server, and none could be started. Waiting does not help."""


class Server(NamedTuple):
    """What `server.json` says."""

    pid: int
    url: str
    version: str


def session() -> Session:
    """The way to the server that this process uses: the run's own, the one that WINDLASS_URL names, or the private."""
    where = home()
    key = (where, *(os.environ.get(name, "") for name in _NAME_A_SESSION))
    if key not in _sessions:
        _sessions[key] = _new_session(where)
    return _sessions[key]


def _new_session(where: str) -> Session:
    url = os.environ.get("WINDLASS_URL", "")
    if os.environ.get("WINDLASS_RUN_TOKEN"):
        patience = RELAY_PATIENCE_SECONDS if os.environ.get("WINDLASS_RELAY") else SCRIPT_PATIENCE_SECONDS
        return Session(of_run, patience, patience)
    if url:
        first = os.environ.get("WINDLASS_TOKEN", "").strip()
        return Session(lambda: _shared(url, first))
    return Session(lambda: find_or_start(where))


def _shared(url: str, first: str) -> Address:
    """The server that WINDLASS_URL named, with the token of now; the first one if the variables name another server."""
    is_same = os.environ.get("WINDLASS_URL", "") == url
    return Address(url.rstrip("/"), os.environ.get("WINDLASS_TOKEN", "").strip() if is_same else first)


def of_run() -> Address:
    """For a script in a run: its own token; the server's address of now, where this machine knows it."""
    token = os.environ.get("WINDLASS_RUN_TOKEN", "")
    url = os.environ.get("WINDLASS_URL", "").rstrip("/")
    relay = os.environ.get("WINDLASS_RELAY", "")
    if relay:
        return Address(_told_beside(relay) or url, token, relay=relay)
    where = os.environ.get("WINDLASS_HOME", "")
    here = read(where) if where else None
    return Address(here.url if here else url, token)


def _told_beside(relay: str) -> str:
    """Where the server is that a relay leads to: it goes by that name."""
    try:
        with open(os.path.join(os.path.dirname(relay), "url"), encoding="ascii") as file:
            return Url(file.read()).text
    except (OSError, ValueError, InvalidRequest):
        return ""


def read(where: str) -> Server | None:
    """The server that says it lives in this home, or None. It need not be alive."""
    try:
        with open(os.path.join(where, "server.json"), encoding="utf-8") as file:
            said = json.load(file)
        server = Server(int(said["pid"]), Url(str(said["url"])).text, str(said["version"]))
    except (OSError, ValueError, KeyError, TypeError, InvalidRequest):
        return None
    # Zero and negative numbers mean other things than a process to the calls that take an id.
    return server if 0 < server.pid < 1 << 31 else None


def find_or_start(where: str, program: tuple[str, ...] = ()) -> Address:
    """The server of a home. If there is none, `program` starts it; by default windlass's own Python does."""
    server = read(where)
    if server is None or not _is_usable(server):
        server = _settle(where, program)
    return Address(server.url, _token(where), where)


def background_session(session: Session) -> Session:
    """A session to the same server for a thread in the background: it does not retry, and starts no private server."""
    where = session.address.home
    return Session((lambda: _running(where)) if where else session._locate, 0, 0)


def _running(where: str) -> Address:
    server = read(where)
    if server is None or not _is_mine(server.pid):
        raise ServerUnavailable(f"No server runs for {where}.", "windlass server start starts it.")
    return Address(server.url, _token(where), where)


def health(server: Server) -> dict[str, Any] | None:
    """What the server says of itself; None if nobody is there."""
    if not _is_mine(server.pid):
        return None
    try:
        connection = Connection(Url(server.url), _HEALTH_SECONDS)
        with contextlib.closing(connection):
            response = connection.request("GET", "/api/v1/health", {"Connection": "close"}, b"", 0, _HEALTH_SECONDS)
            said = json.loads(response.read())
    except (OSError, ValueError):
        return None
    return said if response.status == 200 and isinstance(said, dict) else None


def _is_usable(server: Server) -> bool:
    said = health(server)
    return said is not None and not is_older(str(said.get("version", "")))


def is_older(version: str) -> bool:
    """Whether that server must make room for one of our version."""
    return _numbers(version) < _numbers(__version__)


def _numbers(version: str) -> list[int]:
    parts = version.split("+")[0].split(".")
    return [int("".join(c for c in part if c.isdigit()) or 0) for part in parts]


def _is_mine(pid: int) -> bool:
    """Whether a living server of this user has that id: id and port of a dead one may belong to anybody by now."""
    if pid in _started:
        with contextlib.suppress(OSError):
            os.waitpid(pid, os.WNOHANG)  # if it has ended, it goes now
    try:
        os.kill(pid, 0)
        if not os.path.isdir("/proc/self"):
            return True
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"windlass" in file.read() and os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        return False


def _settle(where: str, program: tuple[str, ...]) -> Server:
    """Under the lock: take the server that is there by now, or make room and start one."""
    try:
        os.makedirs(where, mode=0o700, exist_ok=True)
        with locked(os.path.join(where, "start.lock")):
            server = read(where)
            if server is not None and (_is_usable(server) or _recovers(where, server)):
                return server
            return _start(where, program or (*_python(), "-m", "windlass.server"))
    except OSError as e:
        raise CannotStart(
            f"The server cannot be started in {where}: {e.strerror or e}", "WINDLASS_HOME names another folder."
        ) from e


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of this file; the system releases it when the process ends, however it ends."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _recovers(where: str, server: Server) -> bool:
    """Whether that server turns out to be usable. An older one is asked to go, one that is going is waited for."""
    said = health(server)
    if said is not None:
        with contextlib.suppress(WindlassError):  # it may be gone before it has answered
            Session(lambda: Address(server.url, _token(where), where)).call("POST", "/shutdown")
    deadline = time.monotonic() + _END_SECONDS
    while _is_mine(server.pid) and read(where) == server:
        if said is None and _is_usable(server):
            return True
        if time.monotonic() > deadline:
            break  # starting another one will tell: the store lets only one in
        time.sleep(_POLL_SECONDS)
    return False


def _python() -> list[str]:
    """The command that runs Python for the server."""
    words = interpreter.command()
    if words == [sys.executable] and sys.version_info < _OLDEST_PYTHON:
        raise CannotStart(
            f"There is no server, and Python {sys.version.split()[0]} cannot run one: it needs 3.11 or newer.",
            "Start it with a newer Python (windlass server start), or name one by WINDLASS_URL.",
        )
    if not os.access(words[0], os.X_OK):
        raise CannotStart(
            f"There is no server, and the Python that windlass was installed in is gone: {words[0]}",
            "Install windlass again; then `windlass azureml enable`, or `windlass python`, finds its new place.",
        )
    return words


def _start(where: str, program: tuple[str, ...]) -> Server:
    log = os.path.join(where, "server.log")
    with open(log, "ab", opener=_private) as output:
        begin = output.tell()
        process = _spawn([*program, "--home", where], where, output.fileno())
    deadline = time.monotonic() + START_SECONDS
    while True:
        server = read(where)
        if server is not None and server.pid == process.pid and health(server) is not None:
            _started.add(process.pid)
            process.returncode = 0  # it lives on; nobody here waits for it, and nobody is warned of that
            return server
        if process.poll() is not None:
            raise CannotStart(f"The server could not start: {_said(log, begin)}", f"Its log is {log}")
        if time.monotonic() > deadline:
            raise CannotStart(
                f"The server did not come up within {START_SECONDS:.0f} s: {_said(log, begin)}", f"Its log is {log}"
            )
        time.sleep(_POLL_SECONDS)


def _spawn(command: list[str], where: str, output: int) -> subprocess.Popen[bytes]:
    import subprocess

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=where,
        start_new_session=True,
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _said(log: str, begin: int) -> str:
    """The last lines that the server wrote."""
    with open(log, "rb") as file:
        # When the server has renamed a log that was too large, the new one is all its own.
        file.seek(begin if begin <= os.path.getsize(log) else 0)
        lines = file.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-_LOG_LINES:]) or ("it said nothing" if os.statvfs(log).f_bavail else "the disk is full")


def _token(where: str) -> str:
    try:
        with open(os.path.join(where, "token"), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError) as e:
        raise CannotStart(
            f"The server's token cannot be read: {os.path.join(where, 'token')}", "windlass doctor says more."
        ) from e
