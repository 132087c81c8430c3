"""The engine of the tests behind a clock: as Podman does it, times are told by the zone of the machine."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from tests.engines.dockerd import Dockerd

_TIME = re.compile(rb'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z"')
_NEVER = b"0001-"


@contextlib.contextmanager
def in_zone(engine: Dockerd, path: Path) -> Iterator[str]:
    """The address of an engine whose clock is two hours ahead, and says so."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=_answer, args=(connection, engine), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"unix://{path}"
        listening.shutdown(socket.SHUT_RDWR)


def _answer(asking: socket.socket, engine: Dockerd) -> None:
    """One request, and its whole answer."""
    with asking, socket.socket(socket.AF_UNIX) as real, contextlib.suppress(OSError):
        real.connect(str(engine.socket))
        threading.Thread(target=_hand_on, args=(asking, real), daemon=True).start()
        said = b"".join(iter(lambda: real.recv(1 << 16), b""))
        asking.sendall(_TIME.sub(_moved, said))
        asking.shutdown(socket.SHUT_RDWR)  # which wakes the other thread too


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)


def _moved(found: re.Match[bytes]) -> bytes:
    if found[1].startswith(_NEVER):
        return found[0]
    later = datetime.fromisoformat(found[1].decode()) + timedelta(hours=2)
    return b'"%s%s+02:00"' % (later.isoformat().encode(), found[2] or b"")
