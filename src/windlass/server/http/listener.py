"""The HTTP server: uvicorn with our own accept loop, which bounds the connections and survives a lack of descriptors.

asyncio's own accept loop has no bound, and when file descriptors run out it writes one traceback for each of up to
`backlog` attempts (16 MB of log in 10 s at 1,024 descriptors).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import uvicorn

from windlass.core.errors import ServerUnavailable
from windlass.server.http.connection_limits import HEAD_SECONDS, BoundedProtocol, closing_response
from windlass.server.http.connection_table import ConnectionSlot, ConnectionTable

log = logging.getLogger(__name__)

ACCEPTED_AT_ONCE = 64
PAUSE_SECONDS = 0.2
_WARN_SECONDS = 60.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_PLACE = ServerUnavailable("The server has no connection to spare.", "Try again in a moment.")


class HttpServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, connections: ConnectionTable) -> None:
        super().__init__(config)
        self._connections = connections
        self._listeners: list[Listener] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # it accepts nothing itself
        for listening in sockets or []:
            listener = Listener(listening, self.config.ssl, self._make_protocol, self._connections)
            listener.start()
            self._listeners.append(listener)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in self._listeners:
            listener.stop()
        await super().shutdown(sockets=sockets)

    def _make_protocol(self) -> BoundedProtocol:
        protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return cast(BoundedProtocol, protocol)


class Listener:
    """Accepts the connections of one listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        tls: ssl.SSLContext | None,
        make_protocol: Callable[[], BoundedProtocol],
        connections: ConnectionTable,
    ) -> None:
        self._listening = listening
        self._tls = tls
        self._make_protocol = make_protocol
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._resuming: asyncio.TimerHandle | None = None
        self._warned_at = -_WARN_SECONDS

    def start(self) -> None:
        self._listening.setblocking(False)
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def stop(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._listening.fileno())

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as e:
                self._pause(e)
                return
            accepted.setblocking(False)
            connection = Connection(accepted)
            slot = self._connections.enter(str(peer[0]), connection)
            if slot is None:
                self._reject(accepted)
            else:
                connection.serve(self._loop, self._tls, self._make_protocol(), slot)

    def _reject(self, accepted: socket.socket) -> None:
        with accepted, contextlib.suppress(OSError):
            if self._tls is None:
                accepted.send(closing_response("503 Service Unavailable", _NO_PLACE, "retry-after: 1\r\n"))

    def _pause(self, error: OSError) -> None:
        """Close an idle connection to get a descriptor back, and accept no others for a moment."""
        if error.errno in _EXHAUSTED:
            self._connections.evict_idle()
        now = time.monotonic()
        if now - self._warned_at >= _WARN_SECONDS:
            self._warned_at = now
            log.warning("cannot accept connections, retrying every %g s: %s", PAUSE_SECONDS, error)
        self._loop.remove_reader(self._listening.fileno())
        self._resuming = self._loop.call_later(PAUSE_SECONDS, self.start)


class Connection:
    """An accepted socket, from before its TLS handshake to its end."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted
        self._opening: asyncio.Task[Any] | None = None
        self._protocol: BoundedProtocol | None = None

    @property
    def is_idle(self) -> bool:
        return self._protocol is None or self._protocol.is_idle

    def abort(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._protocol is not None and self._protocol.transport is not None:
            self._protocol.transport.abort()

    def serve(
        self,
        loop: asyncio.AbstractEventLoop,
        tls: ssl.SSLContext | None,
        protocol: BoundedProtocol,
        slot: ConnectionSlot,
    ) -> None:
        self._protocol = protocol
        protocol.slot = slot
        patience = None if tls is None else HEAD_SECONDS
        opening = loop.connect_accepted_socket(lambda: protocol, self._socket, ssl=tls, ssl_handshake_timeout=patience)
        self._opening = loop.create_task(opening)
        self._opening.add_done_callback(partial(self._opened, slot))

    def _opened(self, slot: ConnectionSlot, opening: asyncio.Task[Any]) -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:  # evicted during the handshake, or it failed
            slot.release()
            self._socket.close()
