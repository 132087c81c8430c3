"""A small HTTP proxy, as nginx would be in front of a server: below a path, which it removes or not; or a plain tunnel
at another port.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_CHUNK = 1 << 16


@contextmanager
def forwarding(port: int, change: Callable[[bytes], bytes] = lambda head: head) -> Iterator[int]:
    """A port that forwards to another one. `change` gets the head of a request; each connection carries one, and is
    closed then.
    """
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        threading.Thread(target=_accept, args=(listening, port, change), daemon=True).start()
        yield int(listening.getsockname()[1])
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def below(prefix: str, keeps_path: bool) -> Callable[[bytes], bytes]:
    """What a proxy does with the requests below a path."""

    def change(head: bytes) -> bytes:
        if keeps_path:
            return head
        method, target, rest = head.split(b" ", 2)
        assert target.startswith(prefix.encode()), target
        return b" ".join([method, target.removeprefix(prefix.encode()) or b"/", rest])

    return change


def _accept(listening: socket.socket, port: int, change: Callable[[bytes], bytes]) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve, args=(client, port, change), daemon=True).start()


def _serve(client: socket.socket, port: int, change: Callable[[bytes], bytes]) -> None:
    with client, suppress(OSError):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = client.recv(_CHUNK)
            if not piece:
                return
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lines = [line for line in change(head).split(b"\r\n") if not line.lower().startswith(b"connection:")]
        with socket.create_connection(("127.0.0.1", port)) as server:
            server.sendall(b"\r\n".join([*lines, b"Connection: close", b"", body]))
            threading.Thread(target=_copy, args=(client, server), daemon=True).start()
            _copy(server, client)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(_CHUNK):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
