"""Forwards connections of this computer to a port of a run: each through a channel of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from windlass.client.runs.channel import Channel
from windlass.core.errors import Conflict, Denied, NotFound, WindlassError
from windlass.core.sanitize import one_line

if TYPE_CHECKING:
    from windlass.cli.context import CommandContext

_PIECE = 1 << 17
_POLL_SECONDS = 0.5
_FINAL = (NotFound, Denied)


class PortForwarder:
    def __init__(self, context: CommandContext, run_id: str, port: int, listening: socket.socket) -> None:
        self._context = context
        self._run_id = run_id
        self._port = port
        self._listening = listening
        self._lock = threading.Lock()
        self._noted = ""  # the last problem that was printed
        self._problem: WindlassError | None = None  # why nothing can be forwarded any more

    def check(self) -> None:
        """Raise the error of a run to which nothing can be forwarded. A port on which nothing listens yet is none."""
        self._open().close()

    def serve(self) -> None:
        """Forward connections until that is impossible: the run has ended."""
        self._listening.settimeout(_POLL_SECONDS)
        while self._problem is None:
            with contextlib.suppress(TimeoutError, socket.timeout):
                connection, _ = self._listening.accept()
                connection.settimeout(None)
                threading.Thread(target=self._forward, args=(connection,), daemon=True).start()
        raise self._problem

    def _open(self) -> Channel:
        return Channel(self._context.session, self._context.workspace_path, f"runs/{self._run_id}", port=self._port)

    def _forward(self, connection: socket.socket) -> None:
        with connection:
            try:
                channel = self._open()
            except WindlassError as e:
                self._report(e)
                return
            try:
                threading.Thread(target=_send, args=(connection, channel), daemon=True).start()
                for is_error, data in channel.output():
                    if is_error:
                        self._note(data.decode("utf-8", "replace"))
                    else:
                        connection.sendall(data)
                if channel.exit_code != 0:
                    self._note(channel.message)
            except WindlassError as e:
                self._note(e.message)
            except OSError:
                pass  # the program here has closed its connection
            finally:
                channel.close()
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _report(self, error: WindlassError) -> None:
        is_over = isinstance(error, _FINAL) or (isinstance(error, Conflict) and "ended" in error.message)
        if is_over:
            self._problem = error
        else:
            self._note(error.message)

    def _note(self, message: str) -> None:
        with self._lock:
            if message.strip() and message != self._noted:
                self._noted = message
                self._context.terminal.note(one_line(message.strip()))


def _send(connection: socket.socket, channel: Channel) -> None:
    """Pass on what the program here sends, until it sends no more."""
    try:
        while data := connection.recv(_PIECE):
            channel.write(data)
        channel.end_input()
    except (OSError, WindlassError):
        pass  # one side has ended: the reader of the output closes the other
