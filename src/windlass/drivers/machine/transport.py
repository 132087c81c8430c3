"""Byte transports to a runner's host: the pipes of a child process, or a connected socket.

One thread reads (`chunks`), one thread at a time writes, and any thread may interrupt the reader.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
import ssl
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from windlass.core.errors import TargetUnreachable

_CHUNK = 1 << 18
_MAX_ERROR_OUTPUT = 2000
_EXIT_SECONDS = 1.0
_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Transport(ABC):
    """Byte stream to a host. `what` names the host in errors; `error_output` is why it ended, as far as it said so."""

    pid: int | None = None  # of the child process, where there is one
    exit_code: int | None = None  # of that process, once it has ended

    def __init__(self, what: str) -> None:
        self.what = what
        self.error_output = b""
        self._wake, self._waker = os.pipe()
        self._is_interrupted = False
        self._lock = threading.Lock()

    @abstractmethod
    def chunks(self) -> Iterator[bytes]:
        """Yield received bytes until the host closes the connection or the reader is interrupted."""

    @abstractmethod
    def write(self, data: memoryview) -> int:
        """Send without blocking; returns the number of bytes sent. OSError if the connection is closed."""

    @abstractmethod
    def wait_writable(self, seconds: float) -> bool:
        """Wait until write() can send more; False after a timeout."""

    @abstractmethod
    def end_output(self) -> None:
        """Close the sending direction. The host ends at the end of its input."""

    def interrupt(self) -> None:
        """End chunks() in the reader thread. Twice is silent."""
        with self._lock:
            if not self._is_interrupted:
                self._is_interrupted = True
                os.close(self._waker)

    def close(self) -> None:
        """Release all resources. Called after chunks() has ended, and after end_output()."""
        self.interrupt()
        os.close(self._wake)


class ChildProcess(Transport):
    """Stdin and stdout of a child process. The end of its stderr is kept as `error_output`."""

    def __init__(self, what: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        try:
            # A new session, so that Ctrl-C in the server's terminal does not reach it.
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env=env,
            )
        except OSError as e:
            raise TargetUnreachable(f"{what} cannot be reached: {argv[0]} does not start: {e.strerror}.") from e
        super().__init__(what)
        self.pid = self._process.pid
        self._stdin, self._stdout, self._stderr = (
            _opened(stream) for stream in (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stderr.fileno(), False)  # a grandchild may keep it open

    def chunks(self) -> Iterator[bytes]:
        with selectors.DefaultSelector() as ready:
            for stream in (self._stdout, self._stderr, self._wake):
                ready.register(stream, selectors.EVENT_READ)
            while not self._is_interrupted:
                for key, _ in ready.select():
                    if key.fileobj is self._stdout:
                        chunk = os.read(key.fd, _CHUNK)
                        if not chunk:
                            return
                        yield chunk
                    elif key.fileobj is self._stderr and not self._read_errors():
                        ready.unregister(self._stderr)

    def write(self, data: memoryview) -> int:
        try:
            return os.write(self._stdin.fileno(), data)
        except BlockingIOError:
            return 0

    def wait_writable(self, seconds: float) -> bool:
        return _wait_writable(self._stdin.fileno(), seconds)

    def end_output(self) -> None:
        self._stdin.close()

    def close(self) -> None:
        """Wait for the process to exit, and kill it after a second."""
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.exit_code = self._process.returncode
        self._read_errors()
        self._stdout.close()
        self._stderr.close()
        super().close()

    def _read_errors(self) -> bool:
        """Read what stderr has now. False at its end."""
        try:
            words = os.read(self._stderr.fileno(), _CHUNK)
        except BlockingIOError:
            return True
        self.error_output = (self.error_output + words)[-_MAX_ERROR_OUTPUT:]
        return bool(words)


class SocketTransport(Transport):
    """A connected socket, with or without TLS. The transport owns it."""

    def __init__(self, what: str, connection: socket.socket) -> None:
        super().__init__(what)
        connection.setblocking(False)
        self._connection = connection
        self._use = threading.Lock()  # a TLS connection is not thread-safe

    def chunks(self) -> Iterator[bytes]:
        with selectors.DefaultSelector() as ready:
            ready.register(self._connection, selectors.EVENT_READ)
            ready.register(self._wake, selectors.EVENT_READ)
            while not self._is_interrupted:
                ready.select()
                while not self._is_interrupted:
                    chunk = self._receive()
                    if chunk is None:
                        break
                    if not chunk:
                        return
                    yield chunk

    def _receive(self) -> bytes | None:
        """Received bytes; None if there are none now, b"" at the end."""
        try:
            with self._use:
                return self._connection.recv(_CHUNK)
        except _NOT_NOW:
            return None
        except OSError as e:
            self.error_output = (e.strerror or str(e)).encode()
            return b""

    def write(self, data: memoryview) -> int:
        try:
            with self._use:
                return self._connection.send(data)
        except _NOT_NOW:
            return 0

    def wait_writable(self, seconds: float) -> bool:
        return _wait_writable(self._connection.fileno(), seconds)

    def end_output(self) -> None:
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # closed by the host already

    def close(self) -> None:
        self._connection.close()
        super().close()


def _wait_writable(fd: int, seconds: float) -> bool:
    room = select.poll()
    room.register(fd, select.POLLOUT)
    return bool(room.poll(seconds * 1000))


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "all three streams of the child are pipes"
    return stream
