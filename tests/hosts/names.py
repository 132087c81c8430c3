"""A name server of a test's own: names that lead to hosts, or elsewhere, or nowhere, or not now."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PORT = 53
_IS_ANSWER, _UNKNOWN, _FAILED = 0x8180, 3, 2
_A, _IN = 1, 1
# For `sh -c`: another resolv.conf for one process and its children, in a mount namespace of its own.
_ELSEWHERE = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'


class NameServer:
    """`known` are names and addresses; `is_silent` and `is_failing` and `delay_seconds` are how it answers."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.known: dict[str, str] = {}
        self.is_silent = False
        self.is_failing = False
        self.delay_seconds = 0.0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, _PORT))
        self._is_closed = False
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    @classmethod
    @contextmanager
    def serving(cls, address: str) -> Iterator[NameServer]:
        server = cls(address)
        try:
            yield server
        finally:
            server.close()

    def close(self) -> None:
        self._is_closed = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", (self.address, _PORT))  # a thread that waits does not notice that its socket is closed
        self._serving.join()
        self._socket.close()

    def wrapper(self, folder: Path) -> tuple[str, ...]:
        """What to put before a command so that it asks this server."""
        file = folder / "resolv.conf"
        file.write_text(f"nameserver {self.address}\n")
        return ("unshare", "--mount", "sh", "-c", _ELSEWHERE, "sh", str(file))

    def _serve(self) -> None:
        while True:
            question, who = self._socket.recvfrom(512)
            if self._is_closed:
                return
            threading.Thread(target=self._answer, args=(question, who), daemon=True).start()

    def _answer(self, question: bytes, who: tuple[str, int]) -> None:
        time.sleep(self.delay_seconds)
        if not self.is_silent:
            try:
                self._socket.sendto(self._reply(question), who)
            except OSError:
                pass  # it ends just now

    def _reply(self, question: bytes) -> bytes:
        number = question[:2]
        name, end = _name(question, 12)
        kind = struct.unpack_from(">H", question, end)[0]
        asked = question[12 : end + 4]
        if self.is_failing:
            return number + struct.pack(">5H", _IS_ANSWER | _FAILED, 1, 0, 0, 0) + asked
        address = self.known.get(name)
        if address is None:
            return number + struct.pack(">5H", _IS_ANSWER | _UNKNOWN, 1, 0, 0, 0) + asked
        if kind != _A:
            return number + struct.pack(">5H", _IS_ANSWER, 1, 0, 0, 0) + asked
        record = b"\xc0\x0c" + struct.pack(">HHIH", _A, _IN, 0, 4) + socket.inet_aton(address)
        return number + struct.pack(">5H", _IS_ANSWER, 1, 1, 0, 0) + asked + record


def _name(message: bytes, at: int) -> tuple[str, int]:
    """The name that is asked for, and where it ends."""
    labels = []
    while length := message[at]:
        labels.append(message[at + 1 : at + 1 + length].decode("ascii", "replace"))
        at += 1 + length
    return ".".join(labels).lower(), at + 1
