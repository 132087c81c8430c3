"""Things at the end of an address that are no good SSH servers. Each is named after what it does."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Act = Callable[[socket.socket], None]


@contextmanager
def fake_server(address: str, act: Act) -> Iterator[int]:
    """The port where everybody who calls is treated so. When it ends, so do all calls."""
    calls: list[socket.socket] = []
    with socket.create_server((address, 0), backlog=100) as listener:

        def serve() -> None:
            while True:
                try:
                    call, _ = listener.accept()
                except OSError:
                    return
                calls.append(call)
                threading.Thread(target=_treat, args=(act, call), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for call in calls:
                call.close()


def fake_silent(call: socket.socket) -> None:
    """Never sends a banner."""
    while call.recv(1 << 16):
        pass


def fake_endless(call: socket.socket) -> None:
    """Sends lines before its banner, as many as anybody takes."""
    line = b"welcome to the machine, please read the following carefully\r\n"
    while True:
        call.sendall(line * 1000)


def fake_tarpit(call: socket.socket) -> None:
    """A letter now and then, a line now and then, and no banner ever."""
    call.settimeout(0.05)
    for number in itertools.count(1):
        call.sendall(b"x" if number % 60 else b"\r\n")
        try:
            if not call.recv(1 << 16):
                return
        except TimeoutError:
            pass


def fake_web(call: socket.socket) -> None:
    """Not SSH at all."""
    call.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    call.close()


def fake_closing(call: socket.socket) -> None:
    """Hangs up at once."""
    call.close()


def _treat(act: Act, call: socket.socket) -> None:
    try:
        act(call)
    except OSError:
        pass  # they hung up
