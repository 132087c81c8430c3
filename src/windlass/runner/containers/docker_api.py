"""Client for the Docker Engine API on the Unix socket of this machine. Podman's compatible socket works too.

Requests are HTTP/1.0: a response ends with its connection, so that a stream is read like a file. The paths have no API
version, since no single one is supported by all engines in use; these requests have been the same for years.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import socket
import time
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Tuple, TypeVar

T = TypeVar("T")

DEFAULT = "/var/run/docker.sock"
SECONDS = 20.0
START_SECONDS = 120.0  # for creating and starting a container, on a slow disk
FEW_SECONDS = 2.0  # for the host, which must not block
RETRY_SECONDS = 0.5  # between two tries
_PATIENCE = 30.0
_LITTLE_PATIENCE = 5.0  # if there is not even a socket
_SOME_PATIENCE = 20.0  # if the programs are installed: an engine has no socket while it stops for a restart
_REMOVE_SECONDS = 60.0
_MOST_HEAD = 1 << 16

_PAUSE = 0.1
_ROOTLESS = ("docker.sock", "podman/podman.sock")
_UNSAFE = re.compile(r"[^A-Za-z0-9._~/:@-]")
_JSON = {"Content-Type": "application/json"}

_INSTALL = "Docker is not installed on this machine, or does not run: sudo apt-get install docker.io"
_START = "Docker does not run on this machine: sudo systemctl start docker"
_RESTART = "sudo systemctl restart docker"
_JOIN = "This account may not use Docker ({path}): sudo usermod -aG docker $USER, then log in again"


class EngineUnreachable(Exception):
    """The engine did not answer. This says nothing about the state of any container."""

    patience = _PATIENCE  # seconds to retry


class NoEngine(EngineUnreachable):
    """There is no engine that this account can use; the message has the command that fixes it."""

    patience = 0.0


class NoSocket(NoEngine):
    """The engine's socket does not exist."""

    def __init__(self, path: str) -> None:
        is_installed = _is_installed()
        super().__init__(f"{_START if is_installed else _INSTALL} (there is no {path})")
        self.patience = _SOME_PATIENCE if is_installed else _LITTLE_PATIENCE


class EngineRefused(Exception):
    """The engine answered with an HTTP error; the message is the engine's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def find_socket(address: Optional[str], env: Mapping[str, str]) -> str:
    """The socket of the named engine; else the machine's, else the account's (rootless)."""
    address = address or env.get("DOCKER_HOST")
    if address:
        kind, _, path = address.partition("://")
        if kind != "unix" or not path.startswith("/"):
            raise NoEngine(f"Engines are reached by a Unix socket (unix:///path), not by {ascii(address)[:80]}.")
        return path
    own = [f"{env['XDG_RUNTIME_DIR']}/{name}" for name in _ROOTLESS] if env.get("XDG_RUNTIME_DIR") else []
    return next((path for path in (DEFAULT, *own) if os.path.exists(path)), DEFAULT)


def retry(act: Callable[[], T], wait: Callable[[float], None]) -> T:
    """Call `act`, and retry while the engine is unreachable, for as long as the error's `patience` says."""
    away_since: Optional[float] = None
    patience = 0.0
    while True:
        began = time.monotonic()
        try:
            return act()
        except EngineUnreachable as e:
            now = time.monotonic()
            # The maximum: an engine that broke off exists, though its socket may be missing for a while.
            patience = max(patience, e.patience)
            was_there = now - began >= patience
            away_since = now if away_since is None or was_there else away_since
            if now - away_since >= patience:
                raise
        wait(RETRY_SECONDS)


def quoted(text: str) -> str:
    """Percent-encode a text for the path of a request."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8", "replace")), text)


class Answer:
    """A response that is being received. Its descriptor is readable when more has arrived, or it has ended."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()

    def detach(self) -> socket.socket:
        """The connection, which is the caller's from now on."""
        return self._connection

    def pieces(self, seconds: float, meanwhile: Optional[Callable[[], None]] = None) -> Iterator[bytes]:
        """The body as it arrives. `meanwhile` is called about every 0.1 s. EngineRefused if the status is an error."""
        body = self.read_head(seconds, meanwhile)
        if body:
            yield body
        yield from self._receive(seconds, meanwhile)

    def read_head(self, seconds: float, meanwhile: Optional[Callable[[], None]] = None) -> bytes:
        """Receive the head of the response. Returns what came of its body. EngineRefused if the status is an error."""
        received = self._receive(seconds, meanwhile)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = next(received, b"")
            if not piece or len(head) > _MOST_HEAD:
                raise EngineUnreachable("The engine broke off before it answered.")
            head += piece
        head, _, body = head.partition(b"\r\n\r\n")
        status = _status(head)
        if status >= 400:
            raise EngineRefused(status, _message(b"".join([body, *received])))
        return body

    def _receive(self, seconds: float, meanwhile: Optional[Callable[[], None]]) -> Iterator[bytes]:
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        while time.monotonic() < deadline:
            if poll.poll(1000 * (min(_PAUSE, seconds) if meanwhile else seconds)):
                data = self.take()
                if not data:
                    return
                yield data
                deadline = time.monotonic() + seconds
            if meanwhile:
                meanwhile()
        raise EngineUnreachable(f"The engine has said nothing for {seconds:g} s.")

    def take(self) -> bytes:
        """The bytes that have arrived; b"" at the end."""
        try:
            return self._connection.recv(1 << 16)
        except ConnectionResetError:  # after its response, the engine closed without reading all of the request
            return b""
        except OSError as e:
            raise EngineUnreachable(f"The engine broke off: {e}") from None


def _status(head: bytes) -> int:
    parts = head.split(None, 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
        raise EngineUnreachable(f"This is no Docker engine; it says {ascii(head[:60])}.")
    return int(parts[1])


def _message(body: bytes) -> str:
    """The engine's message in an error response."""
    text = body.decode("utf-8", "replace").strip()
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:2000] or "an error without a message"


class Engine:
    """An engine at a socket; each request has its own connection."""

    def __init__(self, address: Optional[str] = None) -> None:
        self.path = find_socket(address, os.environ)

    def call(self, method: str, path: str, body: Any = None, seconds: float = SECONDS) -> Any:
        """Send a request; the response parsed from JSON, None if it is empty."""
        data = b"" if body is None else json.dumps(body).encode("ascii")
        answer = self.open(method, path, [data], len(data), seconds=seconds)
        try:
            text = b"".join(answer.pieces(seconds))
        finally:
            answer.close()
        try:
            return json.loads(text) if text.strip() else None
        except ValueError:
            raise EngineUnreachable(f"The engine's answer is not understood: {ascii(text[:100])}") from None

    def ping(self) -> None:
        """EngineUnreachable if it does not answer. Called after a failed step: an engine that stops ends it too."""
        self.call("GET", "/version", seconds=FEW_SECONDS)

    def remove_container(self, name: str, force: bool = True) -> None:
        """Remove a container with its volumes. One that is missing, or already being removed, is fine."""
        try:
            self.call("DELETE", f"/containers/{name}?v=1&force={int(force)}", seconds=_REMOVE_SECONDS)
        except EngineRefused as e:
            is_going = e.status == 409 and "already in progress" in str(e)
            if e.status != 404 and not is_going:
                raise

    def open(
        self,
        method: str,
        path: str,
        body: Iterable[bytes] = (),
        size: int = 0,
        headers: Mapping[str, str] = _JSON,
        seconds: float = SECONDS,
    ) -> Answer:
        """Send a request; the caller reads and closes the response."""
        connection = self._connect(seconds)
        lines = [f"{method} {path} HTTP/1.0", *(f"{name}: {value}" for name, value in headers.items())]
        try:
            connection.sendall("\r\n".join([*lines, f"Content-Length: {size}", "", ""]).encode("ascii"))
            for piece in body:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the engine closed early; its response says why
        except OSError as e:
            connection.close()
            raise EngineUnreachable(f"The engine does not listen: {e}") from None
        except BaseException:  # raised by the body's iterator: the run is to stop
            connection.close()
            raise
        return Answer(connection)

    def attach(self, path: str, body: Any) -> Tuple[socket.socket, bytes]:
        """POST a request whose connection becomes a stream in both directions. Returns it, with its first bytes."""
        data = json.dumps(body).encode("ascii")
        headers = {**_JSON, "Connection": "Upgrade", "Upgrade": "tcp"}
        answer = self.open("POST", path, [data], len(data), headers)
        try:
            first = answer.read_head(SECONDS)
        except BaseException:
            answer.close()
            raise
        return answer.detach(), first

    def _connect(self, seconds: float) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        try:
            connection.connect(self.path)
        except OSError as e:
            connection.close()
            if e.errno == errno.ENOENT:
                raise NoSocket(self.path) from None
            if e.errno in (errno.EACCES, errno.EPERM):
                raise NoEngine(_JOIN.format(path=self.path)) from None
            why = e.strerror or e
            raise EngineUnreachable(f"The Docker engine does not answer at {self.path} ({why}): {_RESTART}") from None
        return connection


def _is_installed() -> bool:
    """Whether an engine's programs are on the PATH."""
    import shutil

    return any(map(shutil.which, ("docker", "dockerd")))


# Cache by address, with the time of the query: inventories are frequent, and an engine seldom changes.
_descriptions: Dict[Optional[str], Tuple[float, Dict[str, str]]] = {}
_FRESH_SECONDS = 20.0
_SAFE_RUNC = (1, 1, 12)  # before it, a container could reach out of itself (CVE-2024-21626)


def describe_engine(address: Optional[str]) -> Dict[str, str]:
    """Versions of this machine's engine and runc, for the inventory; or the error, with the command that fixes it."""
    at, known = _descriptions.get(address, (0.0, {}))
    if not known or time.monotonic() - at > _FRESH_SECONDS:
        known = _query_engine(address)
        _descriptions[address] = time.monotonic(), known
    return known


def _query_engine(address: Optional[str]) -> Dict[str, str]:
    try:
        answer = Engine(address).call("GET", "/version", seconds=FEW_SECONDS)
        parts = {str(part["Name"]): str(part["Version"]) for part in answer.get("Components") or ()}
        found = {"version": str(answer["Version"]), "runc": parts.get("runc", "")}
    except (EngineUnreachable, EngineRefused, KeyError, TypeError, AttributeError) as e:
        return {"missing": str(e)}
    numbers = tuple(map(int, re.findall(r"\d+", found["runc"])[:3]))
    if len(numbers) == 3 and numbers < _SAFE_RUNC:
        found["warning"] = f"runc {found['runc']} may let containers reach the machine (CVE-2024-21626): update it."
    return {name: value for name, value in found.items() if value}
