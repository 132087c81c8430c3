"""Find the private server of this machine, or start it.

The server writes its address to `server.json` in its home, and the token that opens it to `token`. A client that finds
no server starts one under a file lock: however many clients start at once, one server comes up and all use it. A server
that is older than this code is shut down and replaced (its runs go on); a newer one is used as it is.
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
# How long a training script retries while the server is being restarted.
SCRIPT_RETRY_SECONDS = 60.0
# Longer through a relay, since the network may be interrupted.
RELAY_RETRY_SECONDS = 600.0
_POLL_SECONDS = 0.005
# How long the shutdown of a server may take.
_SHUTDOWN_SECONDS = 20.0
_HEALTH_SECONDS = 5.0
_OLDEST_PYTHON = (3, 11)
_LOG_LINES = 5

_started: set[int] = set()
_sessions: dict[tuple[str, ...], Session] = {}
_SESSION_VARIABLES = ("WINDLASS_URL", "WINDLASS_RUN_ID", "WINDLASS_TOKEN", "WINDLASS_RUN_TOKEN")


class CannotStart(ServerUnavailable):
    """There is no private server, and none could be started. A retry does not help."""


class Server(NamedTuple):
    """The content of `server.json`."""

    pid: int
    url: str
    version: str


def session() -> Session:
    """The session to the server of this process: the run's own, the one that WINDLASS_URL names, or the private one."""
    where = home()
    key = (where, *(os.environ.get(name, "") for name in _SESSION_VARIABLES))
    if key not in _sessions:
        _sessions[key] = _new_session(where)
    return _sessions[key]


def _new_session(where: str) -> Session:
    url = os.environ.get("WINDLASS_URL", "")
    if os.environ.get("WINDLASS_RUN_TOKEN"):
        retry_seconds = RELAY_RETRY_SECONDS if os.environ.get("WINDLASS_RELAY") else SCRIPT_RETRY_SECONDS
        return Session(address_for_script, retry_seconds, retry_seconds)
    if url:
        first = os.environ.get("WINDLASS_TOKEN", "").strip()
        return Session(lambda: _shared_server(url, first))
    return Session(lambda: find_or_start(where))


def _shared_server(url: str, first: str) -> Address:
    """The server that WINDLASS_URL named, with the current WINDLASS_TOKEN; with the token `first` if the variables name
    another server by now.
    """
    is_same = os.environ.get("WINDLASS_URL", "") == url
    return Address(url.rstrip("/"), os.environ.get("WINDLASS_TOKEN", "").strip() if is_same else first)


def address_for_script() -> Address:
    """For a script in a run: the run's token, and the server's current address where this machine knows it."""
    token = os.environ.get("WINDLASS_RUN_TOKEN", "")
    url = os.environ.get("WINDLASS_URL", "").rstrip("/")
    relay = os.environ.get("WINDLASS_RELAY", "")
    if relay:
        return Address(_url_beside_relay(relay) or url, token, relay=relay)
    where = os.environ.get("WINDLASS_HOME", "")
    here = read(where) if where else None
    return Address(here.url if here else url, token)


def _url_beside_relay(relay: str) -> str:
    """The URL of the server that a relay leads to, for the Host header; from the file beside the relay's socket."""
    try:
        with open(os.path.join(os.path.dirname(relay), "url"), encoding="ascii") as file:
            return Url(file.read()).text
    except (OSError, ValueError, InvalidRequest):
        return ""


def read(where: str) -> Server | None:
    """The server that this home's `server.json` names, or None. It need not be alive."""
    try:
        with open(os.path.join(where, "server.json"), encoding="utf-8") as file:
            content = json.load(file)
        server = Server(int(content["pid"]), Url(str(content["url"])).text, str(content["version"]))
    except (OSError, ValueError, KeyError, TypeError, InvalidRequest):
        return None
    # For kill(), zero and negative numbers mean process groups.
    return server if 0 < server.pid < 1 << 31 else None


def find_or_start(where: str, program: tuple[str, ...] = ()) -> Address:
    """The server of a home. If there is none, `program` starts it; by default windlass's own Python does."""
    server = read(where)
    if server is None or not _is_usable(server):
        server = _start_once(where, program)
    return Address(server.url, _token(where), where)


def background_session(session: Session) -> Session:
    """A session to the same server for a background thread: it does not retry, and starts no private server."""
    where = session.address.home
    return Session((lambda: _running_server(where)) if where else session._locate, 0, 0)


def _running_server(where: str) -> Address:
    server = read(where)
    if server is None or not _is_server_of_user(server.pid):
        raise ServerUnavailable(f"No server runs for {where}.", "windlass server start starts it.")
    return Address(server.url, _token(where), where)


def health(server: Server) -> dict[str, Any] | None:
    """The server's answer to a health check; None if it does not run or does not answer."""
    if not _is_server_of_user(server.pid):
        return None
    try:
        connection = Connection(Url(server.url), _HEALTH_SECONDS)
        with contextlib.closing(connection):
            response = connection.request("GET", "/api/v1/health", {"Connection": "close"}, b"", 0, _HEALTH_SECONDS)
            answer = json.loads(response.read())
    except (OSError, ValueError):
        return None
    return answer if response.status == 200 and isinstance(answer, dict) else None


def _is_usable(server: Server) -> bool:
    answer = health(server)
    return answer is not None and not is_older(str(answer.get("version", "")))


def is_older(version: str) -> bool:
    """Whether a server of that version is replaced by one of this version."""
    return _numbers(version) < _numbers(__version__)


def _numbers(version: str) -> list[int]:
    parts = version.split("+")[0].split(".")
    return [int("".join(c for c in part if c.isdigit()) or 0) for part in parts]


def _is_server_of_user(pid: int) -> bool:
    """Whether a running server of this user has that process id. Id and port of an ended one may have been reused."""
    if pid in _started:
        with contextlib.suppress(OSError):
            os.waitpid(pid, os.WNOHANG)  # reap it if it has ended
    try:
        os.kill(pid, 0)
        if not os.path.isdir("/proc/self"):
            return True
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"windlass" in file.read() and os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        return False


def _start_once(where: str, program: tuple[str, ...]) -> Server:
    """Under the file lock: use the server that another process started meanwhile, or replace it or start one."""
    try:
        os.makedirs(where, mode=0o700, exist_ok=True)
        with locked(os.path.join(where, "start.lock")):
            server = read(where)
            if server is not None and (_is_usable(server) or _becomes_usable(where, server)):
                return server
            return _start(where, program or (*_python(), "-m", "windlass.server"))
    except OSError as e:
        raise CannotStart(
            f"The server cannot be started in {where}: {e.strerror or e}", "WINDLASS_HOME names another folder."
        ) from e


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold an exclusive lock of this file. The operating system releases it when the process ends, however it ends."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _becomes_usable(where: str, server: Server) -> bool:
    """Wait until the server is usable (True) or has ended (False). An older one is asked to shut down first."""
    answer = health(server)
    if answer is not None:
        with contextlib.suppress(WindlassError):  # it may end before it has responded
            Session(lambda: Address(server.url, _token(where), where)).call("POST", "/shutdown")
    deadline = time.monotonic() + _SHUTDOWN_SECONDS
    while _is_server_of_user(server.pid) and read(where) == server:
        if answer is None and _is_usable(server):
            return True
        if time.monotonic() > deadline:
            break  # start another one all the same: the store's lock admits only one server
        time.sleep(_POLL_SECONDS)
    return False


def _python() -> list[str]:
    """The command line of the server's Python."""
    command = interpreter.command()
    if command == [sys.executable] and sys.version_info < _OLDEST_PYTHON:
        raise CannotStart(
            f"There is no server, and Python {sys.version.split()[0]} cannot run one: it needs 3.11 or newer.",
            "Start it with a newer Python (windlass server start), or name one by WINDLASS_URL.",
        )
    if not os.access(command[0], os.X_OK):
        raise CannotStart(
            f"There is no server, and the Python that windlass was installed in is gone: {command[0]}",
            "Install windlass again; then `windlass azureml enable`, or `windlass python`, finds its new place.",
        )
    return command


def _start(where: str, program: tuple[str, ...]) -> Server:
    log = os.path.join(where, "server.log")
    with open(log, "ab", opener=_open_private) as output:
        begin = output.tell()
        process = _spawn([*program, "--home", where], where, output.fileno())
    deadline = time.monotonic() + START_SECONDS
    while True:
        server = read(where)
        if server is not None and server.pid == process.pid and health(server) is not None:
            _started.add(process.pid)
            process.returncode = 0  # the server outlives this process; Popen must not warn that it still runs
            return server
        if process.poll() is not None:
            raise CannotStart(f"The server could not start: {_log_tail(log, begin)}", f"Its log is {log}")
        if time.monotonic() > deadline:
            raise CannotStart(
                f"The server did not come up within {START_SECONDS:.0f} s: {_log_tail(log, begin)}", f"Its log is {log}"
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


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _log_tail(log: str, begin: int) -> str:
    """The last lines of the log from offset `begin`."""
    with open(log, "rb") as file:
        # A log smaller than `begin` is a new file: the server has rotated the old one.
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
