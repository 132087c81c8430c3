"""Fake server: scripted responses, byte for byte, and a record of the requests."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Request(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


def answer(body: Any, status: int = 200, headers: str = "") -> bytes:
    content = json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n{headers}\r\n".encode() + content


def refusal(code: str, status: int, headers: str = "", **error: Any) -> bytes:
    return answer({"error": {"code": code, "message": "m", "hint": "h", **error}}, status, headers)


class FakeServer:
    """Each answer is used once, in order. An empty one closes the connection instead of answering.

    With `reply`, that function has the answer to each target of a request instead.
    """

    def __init__(self, *answers: bytes, reply: Callable[[str], bytes] | None = None) -> None:
        self.answers = list(answers)
        self._reply = reply
        self.requests: list[Request] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection, len(self._connections)), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as stream:
            while True:
                request = _read(stream, number)
                if request is None:
                    return
                self.requests.append(request)
                reply = self._next(request)
                if not reply:
                    return
                connection.sendall(reply)
                if b"Connection: close" in reply or not _is_framed(reply):
                    return

    def _next(self, request: Request) -> bytes:
        if self._reply is not None:
            return self._reply(request.target)
        return self.answers.pop(0) if self.answers else b""

    def close(self) -> None:
        # A thread that waits in accept() is woken by shutdown, not by close.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.drop_connections()

    def drop_connections(self) -> None:
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


@contextmanager
def serving(*answers: bytes, reply: Callable[[str], bytes] | None = None) -> Iterator[FakeServer]:
    server = FakeServer(*answers, reply=reply)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def unreachable_address() -> Iterator[str]:
    """The URL of a port that is reserved and not listening."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def _read(stream: Any, number: int) -> Request | None:
    try:
        first = stream.readline()
        if not first:
            return None
        method, target, _ = first.decode().split()
        headers = {}
        while line := stream.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
    except OSError:
        return None
    return Request(method, target, headers, body, number)


def _is_framed(reply: bytes) -> bool:
    """Whether the reply ends as its head promised, so that the connection can go on."""
    head, _, body = reply.rpartition(b"HTTP/1.1")[2].partition(b"\r\n\r\n")
    if b"chunked" in head:
        return body.endswith(b"0\r\n\r\n") or body.endswith(b"Trailer: x\r\n\r\n")
    found = re.search(rb"Content-Length: (\d+)", head)
    return b" 204 " in head or (found is not None and len(body) >= int(found.group(1)))
