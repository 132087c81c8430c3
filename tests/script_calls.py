"""Connections of scripts to a relay."""

from __future__ import annotations

from pathlib import Path

from windlass.client.http.connection import Connection, Url


class ScriptCall(Connection):
    """To a server by its id, through the relay in a machine's folder; made as the SDK makes it."""

    def __init__(self, root: Path, server: str) -> None:
        super().__init__(Url("http://unused"), 60.0, str(root / "relays" / server / "relay.sock"))

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hear(self, count: int) -> bytes:
        heard = bytearray()
        while len(heard) < count:
            heard += self.read_some(count - len(heard))
        return bytes(heard)

    @property
    def hears_the_end(self) -> bool:
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True
