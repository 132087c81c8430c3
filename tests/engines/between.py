"""The engine of the tests, and somebody between it and the runner who changes what it says."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from tests.engines.dockerd import Dockerd

_TIME = re.compile(rb'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z"')
_NEVER = b"0001-"

# What is answered to a request with this first line, or who answers it; None leaves it to the engine.
Instead = Callable[[bytes], bytes | Callable[[socket.socket], bytes] | None]


def in_zone(engine: Dockerd, path: Path) -> contextlib.AbstractContextManager[str]:
    """As Podman tells times: by the zone of the machine, which is two hours ahead here."""
    return between(engine, path, lambda line: None)


def breaking_off(engine: Dockerd, path: Path, word: bytes, told: bytes) -> contextlib.AbstractContextManager[str]:
    """One that is restarted so quickly that only one answer, to a request with this word in it, breaks off."""
    left = [b"HTTP/1.0 200 OK\r\n\r\n" + told]
    return between(engine, path, lambda line: left.pop() if word in line and left else None)


@contextlib.contextmanager
def between(engine: Dockerd, path: Path, instead: Instead) -> Iterator[str]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=_serve, args=(connection, engine, instead), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"unix://{path}"
        listening.shutdown(socket.SHUT_RDWR)


def _serve(asking: socket.socket, engine: Dockerd, instead: Instead) -> None:
    """One request, and its whole answer."""
    with asking, contextlib.suppress(OSError):
        asked = asking.recv(1 << 16)
        said = instead(asked.partition(b"\r\n")[0])
        said = said(asking) if callable(said) else said
        asking.sendall(_TIME.sub(_moved, _ask(asking, asked, engine)) if said is None else said)
        asking.shutdown(socket.SHUT_RDWR)  # which wakes the other thread too


def _ask(asking: socket.socket, asked: bytes, engine: Dockerd) -> bytes:
    with socket.socket(socket.AF_UNIX) as real:
        real.connect(str(engine.socket))
        real.sendall(asked)
        threading.Thread(target=_hand_on, args=(asking, real), daemon=True).start()
        said = b""
        with contextlib.suppress(ConnectionResetError):  # it has said all, and did not want to hear the rest
            while data := real.recv(1 << 16):
                said += data
        return said


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)


def _moved(found: re.Match[bytes]) -> bytes:
    if found[1].startswith(_NEVER):
        return found[0]
    later = datetime.fromisoformat(found[1].decode()) + timedelta(hours=2)
    return b'"%s%s+02:00"' % (later.isoformat().encode(), found[2] or b"")
