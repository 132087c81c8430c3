"""The Docker Engine of this machine, by its API on its Unix socket. Podman's compatible socket serves as well.

Requests are HTTP/1.0: an answer ends where its connection does, so that a stream is read like a file. No version stands
in the path, since no single one is understood by all engines in use; what is asked here has been the same for years.
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
START_SECONDS = 120.0  # for making a container and starting it, on a slow disk
FEW_SECONDS = 2.0  # for the host, whom everybody waits for
PULSE = 0.5  # seconds between two tries
_PATIENCE = 30.0
_LITTLE_PATIENCE = 5.0  # where there is not even a socket
_SOME_PATIENCE = 20.0  # but the programs: one that is being restarted has none while it ends its containers
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


class EngineAway(Exception):
    """Nobody answered. Nothing follows for any container."""

    patience = _PATIENCE  # seconds


class NoEngine(EngineAway):
    """There is no engine for us here; the message has the line that fixes it."""

    patience = 0.0


class NoSocket(NoEngine):
    """As if there never was one."""

    def __init__(self, path: str) -> None:
        is_installed = _is_installed()
        super().__init__(f"{_START if is_installed else _INSTALL} (there is no {path})")
        self.patience = _SOME_PATIENCE if is_installed else _LITTLE_PATIENCE


class EngineRefused(Exception):
    """The engine said no; the message is its own words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def find_socket(address: Optional[str], env: Mapping[str, str]) -> str:
    """The engine that is named; else the machine's own, else the account's (rootless)."""
    address = address or env.get("DOCKER_HOST")
    if address:
        kind, _, path = address.partition("://")
        if kind != "unix" or not path.startswith("/"):
            raise NoEngine(f"Engines are reached by a Unix socket (unix:///path), not by {ascii(address)[:80]}.")
        return path
    own = [f"{env['XDG_RUNTIME_DIR']}/{name}" for name in _ROOTLESS] if env.get("XDG_RUNTIME_DIR") else []
    return next((path for path in (DEFAULT, *own) if os.path.exists(path)), DEFAULT)


def insist(act: Callable[[], T], wait: Callable[[float], None]) -> T:
    """Do it as soon as the engine answers, within reason: one that is being restarted comes back."""
    away_since: Optional[float] = None
    patience = 0.0
    while True:
        began = time.monotonic()
        try:
            return act()
        except EngineAway as e:
            now = time.monotonic()
            patience = max(patience, e.patience)  # who breaks off is there, though his socket may be gone for a while
            was_there = now - began >= patience
            away_since = now if away_since is None or was_there else away_since
            if now - away_since >= patience:
                raise
        wait(PULSE)


def quoted(text: str) -> str:
    """As it may stand in the path of a request."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8", "replace")), text)


class Answer:
    """An answer on its way. When its descriptor can be read, more has come, or it has ended."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()

    def pieces(self, seconds: float, meanwhile: Optional[Callable[[], None]] = None) -> Iterator[bytes]:
        """Its body as it comes; with `meanwhile`, that is done every now and then. A refusal is raised."""
        received = self._receive(seconds, meanwhile)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = next(received, b"")
            if not piece or len(head) > _MOST_HEAD:
                raise EngineAway("The engine broke off before it answered.")
            head += piece
        head, _, body = head.partition(b"\r\n\r\n")
        status = _status(head)
        if status >= 400:
            raise EngineRefused(status, _words(b"".join([body, *received])))
        if body:
            yield body
        yield from received

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
        raise EngineAway(f"The engine has said nothing for {seconds:g} s.")

    def take(self) -> bytes:
        """What has come; b"" at the end."""
        try:
            return self._connection.recv(1 << 16)
        except ConnectionResetError:  # it said what it had to say, and did not want to hear the rest
            return b""
        except OSError as e:
            raise EngineAway(f"The engine broke off: {e}") from None


def _status(head: bytes) -> int:
    words = head.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise EngineAway(f"This is no Docker engine; it says {ascii(head[:60])}.")
    return int(words[1])


def _words(body: bytes) -> str:
    """The engine's own words in a refusal."""
    text = body.decode("utf-8", "replace").strip()
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:2000] or "an error without words"


class Engine:
    def __init__(self, address: Optional[str] = None) -> None:
        self.path = find_socket(address, os.environ)

    def call(self, method: str, path: str, body: Any = None, seconds: float = SECONDS) -> Any:
        """What it answers, out of JSON; None for nothing."""
        data = b"" if body is None else json.dumps(body).encode("ascii")
        answer = self.open(method, path, [data], len(data), seconds=seconds)
        try:
            text = b"".join(answer.pieces(seconds))
        finally:
            answer.close()
        try:
            return json.loads(text) if text.strip() else None
        except ValueError:
            raise EngineAway(f"The engine's answer is not understood: {ascii(text[:100])}") from None

    def need(self) -> None:
        """EngineAway unless it is there. What an engine that goes has ended did not fail by itself."""
        self.call("GET", "/version", seconds=FEW_SECONDS)

    def remove_container(self, name: str, force: bool = True) -> None:
        """With its volumes. One that is not there, or that somebody else is removing, needs nothing more."""
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
        """Ask, and leave the answer to be read."""
        connection = self._connect(seconds)
        lines = [f"{method} {path} HTTP/1.0", *(f"{name}: {value}" for name, value in headers.items())]
        try:
            connection.sendall("\r\n".join([*lines, f"Content-Length: {size}", "", ""]).encode("ascii"))
            for piece in body:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has heard enough, and says why
        except OSError as e:
            connection.close()
            raise EngineAway(f"The engine does not listen: {e}") from None
        except BaseException:  # of who has the body: the run is to stop
            connection.close()
            raise
        return Answer(connection)

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
            raise EngineAway(f"The Docker engine does not answer at {self.path} ({why}): {_RESTART}") from None
        return connection


def _is_installed() -> bool:
    """Whether the programs of an engine are here."""
    import shutil

    return any(map(shutil.which, ("docker", "dockerd")))


# An answer by address, and when it was given: a machine is asked often, and an engine seldom changes.
_offers: Dict[Optional[str], Tuple[float, Dict[str, str]]] = {}
_FRESH_SECONDS = 20.0
_SAFE_RUNC = (1, 1, 12)  # before it, a container could reach out of itself (CVE-2024-21626)


def offer(address: Optional[str]) -> Dict[str, str]:
    """What the engine of this machine says of itself; or what is missing, with the line that fixes it."""
    at, known = _offers.get(address, (0.0, {}))
    if not known or time.monotonic() - at > _FRESH_SECONDS:
        known = _ask(address)
        _offers[address] = time.monotonic(), known
    return known


def _ask(address: Optional[str]) -> Dict[str, str]:
    try:
        told = Engine(address).call("GET", "/version", seconds=FEW_SECONDS)
        parts = {str(part["Name"]): str(part["Version"]) for part in told.get("Components") or ()}
        found = {"version": str(told["Version"]), "runc": parts.get("runc", "")}
    except (EngineAway, EngineRefused, KeyError, TypeError, AttributeError) as e:
        return {"missing": str(e)}
    numbers = tuple(map(int, re.findall(r"\d+", found["runc"])[:3]))
    if len(numbers) == 3 and numbers < _SAFE_RUNC:
        found["warning"] = f"runc {found['runc']} may let containers reach the machine (CVE-2024-21626): update it."
    return {name: value for name, value in found.items() if value}
