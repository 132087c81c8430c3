"""HTTP connections with bounds: a request's head has a time limit and a size limit, and a connection whose client does
not read the response is closed.
"""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass.core.errors import InvalidRequest, WindlassError
from windlass.server.http.connection_table import ConnectionSlot

HEAD_SECONDS = 15.0
READER_SECONDS = 120.0  # clients of streams reconnect and resume
LARGEST_HEAD = 256 * 1024
MOST_AFTER_REFUSAL = 4 << 20


class HeadTooLarge(Exception):
    """Raised into the parser, which then sends 400 and closes the connection."""


class BoundedProtocol(HttpToolsProtocol):
    """Limits of bodies are in bodies.py."""

    slot: ConnectionSlot | None = None
    _waiting: asyncio.TimerHandle | None = None
    _head = 0
    _after_refusal = 0

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered: none came yet, its head is not complete, or it was answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: the kernel closes a connection after that long without an ACK
            line = transport.get_extra_info("socket")
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(READER_SECONDS * 1000))
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self.slot is not None:
            self.slot.release()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["slot"] = self.slot
        self._head = 0
        self._wait_for_head()

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name + value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Let a client finish its body after an error response, so that it reads that; up to a limit."""
        if self.cycle.response_complete:
            self._after_refusal += len(body)
            if self._after_refusal > MOST_AFTER_REFUSAL:
                self.transport.close()
        super().on_body(body)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._after_refusal = 0
        if self.cycle.more_body:
            self._wait_for_head()

    def send_400_response(self, msg: str) -> None:
        """Respond to what is not HTTP with an error in the usual form."""
        error = InvalidRequest("This is not a request in HTTP/1.1, or its head is too large.")
        self.transport.write(closing_response("400 Bad Request", error))
        self.transport.close()

    def _count(self, more: bytes) -> None:
        self._head += len(more) + 4  # separators
        if self._head > LARGEST_HEAD:
            raise HeadTooLarge

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def closing_response(status: str, error: WindlassError, headers: str = "") -> bytes:
    """An error response after which the connection is closed."""
    content = json.dumps({"error": error.to_wire()}).encode()
    head = f"content-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n{headers}\r\n"
    return f"HTTP/1.1 {status}\r\n{head}".encode() + content
