"""HTTP/1.1 connection over TCP, TLS or a relay's Unix socket. Importing http.client would take longer than a submit."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Callable, Union

from windlass.core.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_URL = re.compile(r"(https?)://(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.\-_]+))(?::(\d{1,5}))?(/[^?#]*)?\Z")
# Characters allowed in a request line and in a header's value: neither line breaks nor, in the target, blanks.
_TARGET = re.compile(r"[!-~]+\Z")
_VALUE = re.compile(r"[ -~]*\Z")
_PIECE = 1 << 16
_MAX_LINE = 1 << 16
_LONGEST_PATH = 100  # of a Unix socket: the limit is 103 or 107 bytes, by the operating system

Body = Union[bytes, "Callable[[], Iterable[bytes]]"]


class BadResponse(ConnectionError):
    """The response is not HTTP, or ended too early."""


class Url:
    """http[s]://host[:port][/prefix]"""

    def __init__(self, text: str) -> None:
        found = _URL.match(text.rstrip("/"))
        if found is None:
            raise InvalidRequest(f"Not the address of a server: {text[:200]!r}", "It looks like http://127.0.0.1:8080")
        scheme, six, name, port, prefix = found.groups()
        self.text = text.rstrip("/")
        self.is_secure = scheme == "https"
        self.host: str = six or name
        self.port = int(port) if port else (443 if self.is_secure else 80)
        self.prefix: str = prefix or ""
        shown = f"[{six}]" if six else self.host
        self.authority = f"{shown}:{port}" if port else shown


class Connection:
    """A keep-alive connection. It is reusable after a response whose body was read to its end."""

    def __init__(self, url: Url, timeout: float, relay: str = "") -> None:
        """Connect to `url`, or to `relay`: a local Unix socket that leads to a server without a direct route to it."""
        self.url = url
        self.is_fresh = True
        self.is_reusable = False
        self._buffer = b""
        self._socket: socket.socket = _connect_relay(relay, timeout) if relay else _connect_tcp(url, timeout)

    def request(
        self, method: str, target: str, headers: Mapping[str, str], body: Body, length: int, timeout: float
    ) -> Response:
        self._socket.settimeout(timeout)
        self.is_reusable = False
        try:
            self._send(self._head(method, target, headers, length), body)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body responds before it has read all of it, then closes. Read its response.
            if length <= _PIECE:
                raise
        return self._response()

    def _head(self, method: str, target: str, headers: Mapping[str, str], length: int) -> bytes:
        if not _TARGET.match(target):
            raise InvalidRequest(f"Not a path that a server can be asked for: {ascii(target[:200])}")
        lines = [f"{method} {self.url.prefix}{target} HTTP/1.1", f"Host: {self.url.authority}"]
        for name, value in headers.items():
            if not _VALUE.match(value):
                raise InvalidRequest(f"The {name} header cannot have this value: is there a line break in a token?")
            lines.append(f"{name}: {value}")
        if length or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")

    def _send(self, head: bytes, body: Body) -> None:
        if isinstance(body, bytes):
            self._socket.sendall(head + body if len(body) < _PIECE else head)
            if len(body) >= _PIECE:
                self._socket.sendall(body)
            return
        self._socket.sendall(head)
        for piece in body():
            self._socket.sendall(piece)

    def _response(self) -> Response:
        status = 100
        while 100 <= status < 200:
            first = self.read_line().split(None, 2)
            if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not first[1].isdigit():
                raise BadResponse("the answer is not HTTP")
            status = int(first[1])
            headers = self._headers()
        self.is_fresh = False
        return Response(self, status, headers)

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        while True:
            line = self.read_line()
            if not line:
                return headers
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()

    def read_line(self) -> bytes:
        while True:
            end = self._buffer.find(b"\r\n")
            if end >= 0:
                line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
                return line
            if len(self._buffer) > _MAX_LINE:
                raise BadResponse("a line of the answer's head is too long")
            self._buffer += self._receive()

    def read_some(self, limit: int) -> bytes:
        """Return at least one byte and at most `limit`, as soon as some are there."""
        if not self._buffer:
            piece = self._receive()
            if len(piece) <= limit:
                return piece
            self._buffer = piece
        piece, self._buffer = self._buffer[:limit], self._buffer[limit:]
        return piece

    def _receive(self) -> bytes:
        piece = self._socket.recv(_PIECE)
        if not piece:
            raise BadResponse("the server closed the connection")
        return piece

    def close(self) -> None:
        self.is_reusable = False
        self._socket.close()

    def __del__(self) -> None:
        # Sessions are shared and never closed explicitly, so a connection is closed with its last reference.
        if "_socket" in self.__dict__:
            self._socket.close()


def _connect_tcp(url: Url, timeout: float) -> socket.socket:
    made = socket.create_connection((url.host, url.port), timeout)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if url.is_secure:
        import ssl

        made = ssl.create_default_context().wrap_socket(made, server_hostname=url.host)
    return made


def _connect_relay(relay: str, timeout: float) -> socket.socket:
    """Connect to a relay's socket. No TLS: the bytes stay on this machine and in the server's own connection to it."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout)
        if len(os.fsencode(relay)) <= _LONGEST_PATH:
            made.connect(relay)
        else:
            _connect_by_symlink(made, relay)
    except BaseException:
        made.close()
        raise
    return made


def _connect_by_symlink(made: socket.socket, path: str) -> None:
    """Connect by a short symbolic link, since the path is longer than a socket's address may be."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.dirname(path), f"{folder}/way")
        made.connect(f"{folder}/way/{os.path.basename(path)}")


class Response:
    def __init__(self, connection: Connection, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.connection = connection

    def read(self) -> bytes:
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives. A caller that stops early must close the connection."""
        yield from self._chunked() if self.headers.get("transfer-encoding", "").lower() == "chunked" else self._plain()
        self.connection.is_reusable = self._keeps_alive()

    def _keeps_alive(self) -> bool:
        return self.headers.get("connection", "").lower() != "close" and (
            "content-length" in self.headers or "transfer-encoding" in self.headers or self.status in (204, 304)
        )

    def _plain(self) -> Iterator[bytes]:
        text = self.headers.get("content-length", "0" if self.status in (204, 304) else "")
        if not text:
            yield from self._until_closed()
            return
        if not text.isdigit():
            raise BadResponse("the answer's length is not a number")
        left = int(text)
        while left:
            piece = self.connection.read_some(left)
            left -= len(piece)
            yield piece

    def _until_closed(self) -> Iterator[bytes]:
        while True:
            try:
                piece = self.connection.read_some(_PIECE)
            except BadResponse:
                return
            yield piece

    def _chunked(self) -> Iterator[bytes]:
        while True:
            size = self.connection.read_line().partition(b";")[0].strip()
            try:
                left = int(size, 16)
            except ValueError:
                raise BadResponse("a chunk of the answer has no length") from None
            if left == 0:
                while self.connection.read_line():
                    pass
                return
            while left:
                piece = self.connection.read_some(left)
                left -= len(piece)
                yield piece
            self.connection.read_line()
