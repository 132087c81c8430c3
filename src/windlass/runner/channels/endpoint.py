"""What a channel leads to: a command on this machine, a command in a container, or a TCP connection."""

from __future__ import annotations

import socket
from typing import List, NamedTuple, Optional, Tuple

PIECE = 1 << 16

# Pieces of output; True for those of standard error.
Output = List[Tuple[bool, bytes]]


class CannotOpen(Exception):
    """The command or connection of a channel cannot be opened; `exit_code` is what a shell would return."""

    def __init__(self, message: str, exit_code: Optional[int] = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class End(NamedTuple):
    """How a channel ended: the exit code of its command, or a message if it has none."""

    exit_code: Optional[int] = None
    message: str = ""


class Endpoint:
    """Descriptors do not block. Called by the one thread of the channel's process."""

    @property
    def outputs(self) -> List[int]:
        """Descriptors of output that have not reached their end."""
        raise NotImplementedError

    @property
    def input(self) -> int:
        """The descriptor that takes input; -1 if none is taken any more."""
        raise NotImplementedError

    def read(self, fd: int, limit: int) -> Optional[Output]:
        """Output that has arrived, at most `limit` bytes; None if there is none now."""
        raise NotImplementedError

    def write(self, data: bytes) -> int:
        """Pass input on; returns the number of bytes taken."""
        raise NotImplementedError

    def end_input(self) -> None:
        """No input follows."""
        raise NotImplementedError

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal, if there is one."""

    def reap(self) -> None:
        """A child process may have ended."""

    def end(self) -> Optional[End]:
        """How it ended; None while it has not. Output may still be there to be read."""
        raise NotImplementedError

    def close(self) -> None:
        """Kill all processes of the channel, and release everything."""
        raise NotImplementedError


class TcpConnection(Endpoint):
    """A TCP connection to a port of this machine, on which only local programs may be listening."""

    def __init__(self, port: int) -> None:
        self._socket = _connect(port)
        self._socket.setblocking(False)
        self._takes_input = True
        self._has_ended = False

    @property
    def outputs(self) -> List[int]:
        return [] if self._has_ended else [self._socket.fileno()]

    @property
    def input(self) -> int:
        return self._socket.fileno() if self._takes_input and not self._has_ended else -1

    def read(self, fd: int, limit: int) -> Optional[Output]:
        try:
            data = self._socket.recv(limit)
        except BlockingIOError:
            return None
        except OSError:  # reset by the program there
            data = b""
        self._has_ended = not data
        return [(False, data)] if data else []

    def write(self, data: bytes) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # it takes no more: its end is seen by read()
            self._takes_input = False
            return len(data)

    def end_input(self) -> None:
        self._takes_input = False
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it is gone already

    def end(self) -> Optional[End]:
        return End(0) if self._has_ended else None

    def close(self) -> None:
        self._socket.close()


def _connect(port: int) -> socket.socket:
    error: Optional[OSError] = None
    for address in ("127.0.0.1", "::1"):
        try:
            return socket.create_connection((address, port), 5.0)
        except OSError as e:
            error = error or e
    raise CannotOpen(f"Nothing answers on port {port} there ({error and error.strerror or error}).", 1)
