"""The server's end of a machine's relay: connects the lines of scripts there to the server itself.

The other end is the runner's host (docs/dev/runner.md, "The relay"). One thread a machine, from its first line on, so
that no machine waits for another one's slow connection.
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
from windlass.drivers.machine.framing import Body, Garbled

if TYPE_CHECKING:
    from windlass.drivers.machine.host_client import Answer, HostClient

log = logging.getLogger(__name__)

WINDOW = 1 << 18  # as the host has it
PIECE = 1 << 16
MOST_LINES = 128
_WORTH_TELLING = WINDOW // 4
_UNDER_WAY = 1 << 20
_MOST_UNDER_WAY = 256  # frames, which may be empty
_CONNECT_SECONDS = 5.0
_FRAME = 64  # what a frame without bytes counts for
_MOST_UNREAD = MOST_LINES * (WINDOW + 1024 * _FRAME)
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Line:
    def __init__(self, number: int, connection: socket.socket) -> None:
        self.number = number
        self.connection = connection
        self.room = WINDOW  # what the host still takes
        self.waiting = bytearray()  # for the server
        self.passed = 0  # what the server took since the last frame that said so
        self.is_ended = False  # by the script; what waits is still for the server
        self.events = 0  # that the selector waits for

    @property
    def wanted(self) -> int:
        reads = self.room > 0 and not self.is_ended
        return (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if self.waiting else 0)

    @property
    def has_more(self) -> bool:
        """Whether there are bytes that no selector knows of."""
        return isinstance(self.connection, ssl.SSLSocket) and self.connection.pending() > 0


class Relay:
    """`take` and `close` are called by the connection's reader and do not block; all else is done by our thread."""

    def __init__(self, client: HostClient, server: ServerAddress, machine: str) -> None:
        """`machine` tells it from all others, of whichever workspace."""
        self._client = client
        self._machine = machine
        self._has_complained = False
        self._server = server
        self._tls = _trusting(server.certificate) if server.certificate else None
        self._news: queue.SimpleQueue[tuple[Body, bytes]] = queue.SimpleQueue()
        self._came = self._went = 0
        self._thread: threading.Thread | None = None
        self._lines: dict[int, Line] = {}
        self._under_way: deque[Answer] = deque()

    def take(self, body: Body, data: bytes) -> None:
        """What the host says of a line."""
        self._came += len(data) + _FRAME
        if self._came - self._went > _MOST_UNREAD:
            raise Garbled("it relays more than it may")
        self._news.put((body, data))
        if self._thread is None:
            self._begin()
        else:
            self._ring()

    def close(self) -> None:
        """The connection is closed, and so are its lines."""
        if self._thread is not None:
            self._ring()
            self._thread.join()
            self._selector.close()
            os.close(self._wake)
            os.close(self._waker)

    def _begin(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe()
        for fd in (self._wake, self._waker):
            os.set_blocking(fd, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._ring()
        self._thread = threading.Thread(target=self._run, name=f"relay of {self._client.what}", daemon=True)
        self._thread.start()

    def _ring(self) -> None:
        try:
            os.write(self._waker, b"!")
        except BlockingIOError:
            pass  # it rings already

    # ---- the thread ----

    def _run(self) -> None:
        try:
            while self._client.is_open:
                try:
                    self._step()
                except TargetUnreachable:
                    raise
                except Exception:
                    log.exception("the relay of %s failed", self._client.what)
                    for line in list(self._lines.values()):
                        self._end(line)
        except TargetUnreachable:
            pass  # the connection broke
        finally:
            for line in self._lines.values():
                line.connection.close()

    def _step(self) -> None:
        for key, _ in self._selector.select():
            if key.data is None:
                self._hear()
            elif key.data.number in self._lines:  # else it has ended since
                self._serve(key.data)

    def _hear(self) -> None:
        os.read(self._wake, 1 << 12)
        while not self._news.empty():
            body, data = self._news.get()
            self._went += len(data) + _FRAME
            self._heed(body, data)

    def _heed(self, body: Body, data: bytes) -> None:
        match body:
            case {"line": int(number), "new": True} if number not in self._lines:
                line = self._open(number)
            case {"line": int(number)}:
                line = self._lines.get(number)
            case _:
                line = None
        if line is None:
            return  # it has ended here
        room = body.get("room")
        line.room = min(WINDOW, line.room + (room if isinstance(room, int) else 0))
        line.waiting += data
        line.is_ended = body.get("end") is True
        if len(line.waiting) > WINDOW:  # no host of ours does that
            self._end(line)
        else:
            self._serve(line)

    def _open(self, number: int) -> Line | None:
        try:
            if len(self._lines) >= MOST_LINES:
                raise OSError("there are too many lines")
            line = self._lines[number] = Line(number, self._connect())
            return line
        except OSError as e:
            if not self._has_complained:
                log.warning("target=%s a script could not be connected to this server: %s", self._client.what, e)
                self._has_complained = True
            self._tell(number, end=True)
            return None

    def _connect(self) -> socket.socket:
        server = self._server
        # Also to another address of this computer than 127.0.0.1, which is reached by the same way.
        source = (_standing_for(self._machine), 0) if ":" not in server.host and sys.platform == "linux" else None
        connection = socket.create_connection((server.host, server.port), _CONNECT_SECONDS, source)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection)
        connection.setblocking(False)
        return connection

    def _serve(self, line: Line) -> None:
        """Whatever can be done for a line now: in one direction all, in the other one piece, for others wait too."""
        if self._flush(line) and self._send_on(line) and line.wanted != line.events:
            if not line.events:
                self._selector.register(line.connection, line.wanted, line)
            elif line.wanted:
                self._selector.modify(line.connection, line.wanted, line)
            else:
                self._selector.unregister(line.connection)
            line.events = line.wanted

    def _flush(self, line: Line) -> bool:
        """What the script said goes to the server. False: the line has ended."""
        try:
            while line.waiting:
                sent = line.connection.send(line.waiting)
                del line.waiting[:sent]
                line.passed += sent
        except _NOT_NOW:
            pass
        except OSError:
            return self._end(line)
        if line.is_ended:
            return bool(line.waiting) or self._end(line)
        if line.passed >= _WORTH_TELLING:
            self._tell(line.number, room=line.passed)
            line.passed = 0
        return True

    def _send_on(self, line: Line) -> bool:
        """What the server says goes to the script. False: the line has ended."""
        while line.room > 0 and not line.is_ended:
            try:
                data = line.connection.recv(min(PIECE, line.room))
            except _NOT_NOW:
                break
            except OSError:
                data = b""
            if not data:
                return self._end(line)
            line.room -= len(data)
            self._tell(line.number, data)
            if not line.has_more:
                break
        return True

    def _end(self, line: Line) -> bool:
        if line.events:
            self._selector.unregister(line.connection)
        line.connection.close()
        del self._lines[line.number]
        if not line.is_ended:
            self._tell(line.number, end=True)
        return False

    def _tell(self, number: int, data: bytes = b"", **more: Any) -> None:
        """On a slow line little is under way at once: what others ask of the machine is more urgent."""
        self._under_way.append(self._client.ask("relay", data, line=number, **more))
        while self._under_way and (
            self._under_way[0].came.is_set()
            or len(self._under_way) > _MOST_UNDER_WAY
            or sum(answer.sent for answer in self._under_way) > self._client.at_once(_UNDER_WAY)
        ):
            self._client.wait(self._under_way.popleft())


def _standing_for(machine: str) -> str:
    """An address of this computer for the calls from one machine: if tokens are guessed there, only that machine is
    slowed down, and nothing there passes for a proxy in front of the server."""
    first, second, third, *_ = hashlib.sha256(machine.encode()).digest()
    return f"127.{64 + first % 64}.{second}.{1 + third % 254}"


def _trusting(certificate: str) -> ssl.SSLContext:
    """The server is called at its own address, so it is known by its certificate, not by its name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context
