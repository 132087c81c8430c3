"""Server side of a machine's relay: forwards connections of scripts there to the server's own HTTP port.

They are multiplexed over the connection to the runner's host, with credit-based flow control (docs/dev/runner.md, "The
relay"). Each machine has a thread, from its first connection on, so that slow machines do not delay others.
"""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import selectors
import socket
import ssl
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from windlass.core.errors import TargetUnreachable
from windlass.drivers.base import ServerAddress
from windlass.drivers.machine.framing import Body, ProtocolError

if TYPE_CHECKING:
    from windlass.drivers.machine.host_client import HostClient, PendingAnswer

log = logging.getLogger(__name__)

WINDOW = 1 << 18  # bytes, of each direction of a connection; the host has the same
PIECE = 1 << 16
MAX_CONNECTIONS = 128
_LEAST_CREDIT = WINDOW // 4  # bytes that are granted to the host at once
_MAX_IN_FLIGHT = 1 << 20
_MAX_REQUESTS = 256  # frames, which may be empty
_CONNECT_SECONDS = 5.0
_FRAME_COST = 64  # bytes that an empty frame counts for
_MAX_UNHANDLED = MAX_CONNECTIONS * (WINDOW + 1024 * _FRAME_COST)
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class RelayedConnection:
    """TCP connection to the server on behalf of a script."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        self.number = number
        self.connection = connection
        self.credit = WINDOW  # bytes that the host can still take
        self.unsent = bytearray()  # bytes from the script, for the server
        self.unacknowledged = 0  # bytes that the server took, for which the host got no credit yet
        self.is_ended = False  # by the script; unsent bytes still go to the server
        self.events = 0  # registered with the selector

    @property
    def wanted_events(self) -> int:
        reads = self.credit > 0 and not self.is_ended
        return (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if self.unsent else 0)

    @property
    def has_more(self) -> bool:
        """Whether TLS has decrypted bytes that the selector does not report."""
        return isinstance(self.connection, ssl.SSLSocket) and self.connection.pending() > 0


class Relay:
    """Relay of one machine. `take` and `close` are called by the reader of the connection to the host; all else runs in
    the relay's own thread.
    """

    def __init__(self, client: HostClient, server: ServerAddress, machine: str) -> None:
        """`machine` is unique among the machines of all workspaces."""
        self._client = client
        self._machine = machine
        self._has_warned = False
        self._server = server
        self._tls = _tls_context(server.certificate) if server.certificate else None
        self._inbox: queue.SimpleQueue[tuple[Body, bytes]] = queue.SimpleQueue()
        self._received = self._handled = 0
        self._thread: threading.Thread | None = None
        self._connections: dict[int, RelayedConnection] = {}
        self._in_flight: deque[PendingAnswer] = deque()

    def take(self, body: Body, data: bytes) -> None:
        """Queue a frame of the host. Does not block."""
        self._received += len(data) + _FRAME_COST
        if self._received - self._handled > _MAX_UNHANDLED:
            raise ProtocolError("it relays more than it may")
        self._inbox.put((body, data))
        if self._thread is None:
            self._start()
        else:
            self._wake_up()

    def close(self) -> None:
        """Close all relayed connections. The connection to the host is closed already."""
        if self._thread is not None:
            self._wake_up()
            self._thread.join()
            self._selector.close()
            os.close(self._wake)
            os.close(self._waker)

    def _start(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe()
        for fd in (self._wake, self._waker):
            os.set_blocking(fd, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._wake_up()
        self._thread = threading.Thread(target=self._run, name=f"relay of {self._client.what}", daemon=True)
        self._thread.start()

    def _wake_up(self) -> None:
        try:
            os.write(self._waker, b"!")
        except BlockingIOError:
            pass  # a wake-up is pending already

    # ---- in the thread ----

    def _run(self) -> None:
        try:
            while self._client.is_open:
                try:
                    self._step()
                except TargetUnreachable:
                    raise
                except Exception:
                    log.exception("target=%s relay failed, its connections are closed", self._client.what)
                    for relayed in list(self._connections.values()):
                        self._end(relayed)
        except TargetUnreachable:
            pass  # the connection broke
        finally:
            for relayed in self._connections.values():
                relayed.connection.close()

    def _step(self) -> None:
        for key, _ in self._selector.select():
            if key.data is None:
                self._read_inbox()
            elif key.data.number in self._connections:  # else it has ended since
                self._transfer(key.data)

    def _read_inbox(self) -> None:
        os.read(self._wake, 1 << 12)
        while not self._inbox.empty():
            body, data = self._inbox.get()
            self._handled += len(data) + _FRAME_COST
            self._handle(body, data)

    def _handle(self, body: Body, data: bytes) -> None:
        match body:
            case {"stream": int(number), "new": True} if number not in self._connections:
                relayed = self._open(number)
            case {"stream": int(number)}:
                relayed = self._connections.get(number)
            case _:
                relayed = None
        if relayed is None:
            return  # already closed on this side
        credit = body.get("credit")
        relayed.credit = min(WINDOW, relayed.credit + (credit if isinstance(credit, int) else 0))
        relayed.unsent += data
        relayed.is_ended = body.get("end") is True
        if len(relayed.unsent) > WINDOW:  # beyond the window: a protocol violation
            self._end(relayed)
        else:
            self._transfer(relayed)

    def _open(self, number: int) -> RelayedConnection | None:
        try:
            if len(self._connections) >= MAX_CONNECTIONS:
                raise OSError("there are too many connections")
            relayed = self._connections[number] = RelayedConnection(number, self._connect())
            return relayed
        except OSError as e:
            if not self._has_warned:
                log.warning("target=%s relay cannot connect a script to this server: %s", self._client.what, e)
                self._has_warned = True
            self._send(number, end=True)
            return None

    def _connect(self) -> socket.socket:
        server = self._server
        # Works also if the server listens on an address of this computer other than 127.0.0.1.
        source = (_source_address(self._machine), 0) if ":" not in server.host and sys.platform == "linux" else None
        connection = socket.create_connection((server.host, server.port), _CONNECT_SECONDS, source)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection)
        connection.setblocking(False)
        return connection

    def _transfer(self, relayed: RelayedConnection) -> None:
        """Move the bytes that can be moved now: all to the server, one piece to the script, to be fair to others."""
        if self._to_server(relayed) and self._to_script(relayed) and relayed.wanted_events != relayed.events:
            if not relayed.events:
                self._selector.register(relayed.connection, relayed.wanted_events, relayed)
            elif relayed.wanted_events:
                self._selector.modify(relayed.connection, relayed.wanted_events, relayed)
            else:
                self._selector.unregister(relayed.connection)
            relayed.events = relayed.wanted_events

    def _to_server(self, relayed: RelayedConnection) -> bool:
        """Forward bytes of the script to the server. False if the connection has ended."""
        try:
            while relayed.unsent:
                sent = relayed.connection.send(relayed.unsent)
                del relayed.unsent[:sent]
                relayed.unacknowledged += sent
        except _NOT_NOW:
            pass
        except OSError:
            return self._end(relayed)
        if relayed.is_ended:
            return bool(relayed.unsent) or self._end(relayed)
        if relayed.unacknowledged >= _LEAST_CREDIT:
            self._send(relayed.number, credit=relayed.unacknowledged)
            relayed.unacknowledged = 0
        return True

    def _to_script(self, relayed: RelayedConnection) -> bool:
        """Forward bytes of the server to the script. False if the connection has ended."""
        while relayed.credit > 0 and not relayed.is_ended:
            try:
                data = relayed.connection.recv(min(PIECE, relayed.credit))
            except _NOT_NOW:
                break
            except OSError:
                data = b""
            if not data:
                return self._end(relayed)
            relayed.credit -= len(data)
            self._send(relayed.number, data)
            if not relayed.has_more:
                break
        return True

    def _end(self, relayed: RelayedConnection) -> bool:
        if relayed.events:
            self._selector.unregister(relayed.connection)
        relayed.connection.close()
        del self._connections[relayed.number]
        if not relayed.is_ended:
            self._send(relayed.number, end=True)
        return False

    def _send(self, number: int, data: bytes = b"", **more: Any) -> None:
        """Send a frame to the host. On a slow connection few are in flight at once, so that other requests go on."""
        self._in_flight.append(self._client.ask("relay", data, stream=number, **more))
        while self._in_flight and (
            self._in_flight[0].came.is_set()
            or len(self._in_flight) > _MAX_REQUESTS
            or sum(answer.sent for answer in self._in_flight) > self._client.send_window(_MAX_IN_FLIGHT)
        ):
            self._client.wait(self._in_flight.popleft())


def _source_address(machine: str) -> str:
    """A loopback address for the requests of one machine. The server limits wrong tokens by address, so a machine that
    guesses tokens slows down no other, and none is taken for a trusted proxy at 127.0.0.1.
    """
    first, second, third, *_ = hashlib.sha256(machine.encode()).digest()
    return f"127.{64 + first % 64}.{second}.{1 + third % 254}"


def _tls_context(certificate: str) -> ssl.SSLContext:
    """Verify the server by its exact certificate. Its host name is not checked: it is addressed by IP."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context
