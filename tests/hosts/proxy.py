"""A TCP proxy in front of a host: what the kernel cannot do to a connection here, it does.

It delays what passes, and breaks connections at a byte that a test chooses.
"""

from __future__ import annotations

import queue
import random
import socket
import struct
import threading
import time
from dataclasses import dataclass
from enum import StrEnum

_PIECE = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time: closing sends RST


class How(StrEnum):
    CLOSE = "close"
    RESET = "reset"
    STALL = "stall"  # both ends stay open, and nothing passes any more


@dataclass(frozen=True)
class Break:
    """What happens to a connection once so many bytes have passed in one direction: that is how far it gets."""

    how: How
    up: int | None = None  # to the host
    down: int | None = None  # from the host


class Proxy:
    """Listens on `address` and `port` and leads to another address. Each Break meets one connection, in turn."""

    def __init__(self, listen: str, upstream: tuple[str, int]) -> None:
        self._listener = socket.create_server((listen, 0), backlog=100)
        self.address, self.port = self._listener.getsockname()[:2]
        self.upstream = upstream
        self.delay_seconds = 0.0
        self.jitter_seconds = 0.0
        self._breaks: queue.SimpleQueue[Break] = queue.SimpleQueue()
        self._open: list[_Connection] = []
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def delay(self, seconds: float, jitter: float = 0.0) -> None:
        """How long each piece takes in each direction, give or take the jitter; they stay in order."""
        self.delay_seconds, self.jitter_seconds = seconds, jitter

    def break_next(self, *breaks: Break) -> None:
        for each in breaks:
            self._breaks.put(each)

    def breaks_left(self) -> bool:
        return not self._breaks.empty()

    def passed(self) -> list[tuple[int, int]]:
        """How many bytes went up and down in each connection so far, the oldest first."""
        return [(each.up.passed, each.down.passed) for each in self._open]

    def end_all(self, how: How) -> None:
        """Do this to all connections now."""
        for connection in list(self._open):
            connection.end(how)

    def close(self) -> None:
        self._listener.close()
        self.end_all(How.CLOSE)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            self.connections += 1
            self._serve(near)

    def _serve(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(self.upstream, timeout=30)
        except OSError:
            near.close()
            return
        try:
            broken = self._breaks.get_nowait()
        except queue.Empty:
            broken = Break(How.CLOSE)
        self._open.append(_Connection(self, near, far, broken))


class _Connection:
    def __init__(self, proxy: Proxy, near: socket.socket, far: socket.socket, broken: Break) -> None:
        self._sockets = (near, far)
        self._how = broken.how
        self.is_stalled = False
        for each in self._sockets:
            each.settimeout(None)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.up = _Direction(proxy, self, near, far, broken.up)
        self.down = _Direction(proxy, self, far, near, broken.down)

    def break_off(self) -> None:
        self.end(self._how)

    def end(self, how: How) -> None:
        self.is_stalled = how is How.STALL
        if how is How.STALL:
            return
        for each in self._sockets:
            try:
                if how is How.RESET:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                each.shutdown(socket.SHUT_RD)  # whoever waits for it here, wakes up
            except OSError:
                pass  # it is closed already, or the other side did it
            each.close()


class _Direction:
    """Carries bytes one way: one thread takes them, another hands them on when their time has come."""

    def __init__(
        self, proxy: Proxy, connection: _Connection, source: socket.socket, sink: socket.socket, limit: int | None
    ) -> None:
        self._proxy = proxy
        self._connection = connection
        self._source = source
        self._sink = sink
        self._limit = limit
        self._pieces: queue.Queue[tuple[float, bytes]] = queue.Queue(maxsize=64)
        self.passed = 0
        for act in (self._take, self._hand_on):
            threading.Thread(target=act, daemon=True).start()

    def _take(self) -> None:
        piece = b"?"
        while piece:
            try:
                piece = self._source.recv(_PIECE)
            except OSError:
                piece = b""
            jitter = random.uniform(-1, 1) * self._proxy.jitter_seconds
            self._pieces.put((time.monotonic() + max(0.0, self._proxy.delay_seconds + jitter), piece))

    def _hand_on(self) -> None:
        while True:
            due, piece = self._pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if self._connection.is_stalled:
                continue
            if not piece:
                self._end()
                return
            if self._limit is not None and self.passed + len(piece) >= self._limit:
                self._send(piece[: self._limit - self.passed])
                self._connection.break_off()
                return
            self._send(piece)

    def _send(self, piece: bytes) -> None:
        try:
            self._sink.sendall(piece)
            self.passed += len(piece)
        except OSError:
            pass  # the taker of the other direction notices

    def _end(self) -> None:
        try:
            self._sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
