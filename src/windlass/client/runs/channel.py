"""A channel: a command or a TCP connection where a run is, or on the machine of a target, through the server.

Its output is resumed after a lost connection; the server ends a channel whose client is away for 30 seconds.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from windlass.core import backoff
from windlass.core.errors import Conflict, ServerUnavailable, WindlassError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windlass.client.http.session import Session

HEARTBEAT, STDOUT, STDERR, END = 0, 1, 2, 3  # kinds of frames
_HEADER = struct.Struct(">BxxxI")
_PIECE = 1 << 20
_PATIENCE = 25.0  # seconds without the server, after which it has ended the channel


class Channel:
    """`output` is read by one thread; another may write."""

    exit_code: int | None = None  # of the command, once the output has ended
    message = ""  # why it ended without an exit code, or could not begin

    def __init__(self, session: Session, workspace_path: str, place: str, **request: Any) -> None:
        """Open a channel. `place` is `runs/ID` or `targets/NAME`; docs/dev/api.md has the fields of the request."""
        self._session = session
        opened = session.call("POST", f"{workspace_path}/{place}/channels", request)
        self._path = f"{workspace_path}/channels/{opened['id']}"
        self._position = 0  # bytes of frames that were received
        self._written = 0  # bytes of input

    def output(self) -> Iterator[tuple[bool, bytes]]:
        """Pieces of output as they arrive, True for standard error, until the channel has ended."""
        lost_at: float | None = None
        failures = 0
        while True:
            try:
                for kind, data in self._frames():
                    lost_at, failures = None, 0
                    if kind == END:
                        self._set_end(json.loads(data))
                        return
                    if kind in (STDOUT, STDERR):
                        yield kind == STDERR, data
            except (OSError, ServerUnavailable) as e:
                lost_at = lost_at or time.monotonic()
                if time.monotonic() - lost_at > _PATIENCE:
                    raise ServerUnavailable(
                        "The server has not answered for too long: what was open there has ended."
                    ) from e
                failures += 1
                time.sleep(backoff.delay(failures, 0.05, 1.0))

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        """The frames of one response. What is not whole when it ends is read again with the next."""
        buffer = bytearray()
        for piece in self._session.stream(f"{self._path}/output", {"after": self._position}):
            buffer += piece
            while len(buffer) >= _HEADER.size:
                kind, length = _HEADER.unpack_from(buffer)
                end = _HEADER.size + length
                if len(buffer) < end:
                    break
                data = bytes(buffer[_HEADER.size : end])
                del buffer[:end]
                if kind != HEARTBEAT:
                    self._position += end
                yield kind, data

    def _set_end(self, said: dict[str, Any]) -> None:
        self.exit_code, self.message = said.get("exit_code"), said.get("message") or ""

    def write(self, data: bytes) -> None:
        """Write input. Waits as long as the command does not take it."""
        begin, self._written = self._written, self._written + len(data)
        done = 0
        while done < len(data):
            piece = data[done : done + _PIECE]
            done = self._session.send(f"{self._path}/input", piece, {"offset": begin + done})["offset"] - begin

    def end_input(self) -> None:
        """No input follows."""
        self._session.send(f"{self._path}/input", b"", {"offset": self._written, "last": "true"})

    def resize(self, columns: int, rows: int) -> None:
        self._session.call("PUT", f"{self._path}/terminal", {"columns": columns, "rows": rows})

    def close(self) -> None:
        """End it, if it has not ended; what it has started is killed."""
        try:
            self._session.call("DELETE", self._path)
        except WindlassError:
            pass  # it has ended, or ends without its client


def run_command(
    session: Session, workspace_path: str, run_id: str, command: list[str], data: bytes
) -> tuple[int, bytes]:
    """Run a command where a run is, with that input. Returns its exit code and its output; its errors are printed."""
    channel = Channel(session, workspace_path, f"runs/{run_id}", command=list(command))
    output = bytearray()
    feeder = threading.Thread(target=_feed, args=(channel, data), daemon=True)
    feeder.start()
    try:
        for is_error, piece in channel.output():
            if is_error:
                sys.stderr.write(piece.decode("utf-8", "replace"))
            else:
                output += piece
    finally:
        channel.close()
    if channel.exit_code is None:
        raise Conflict(channel.message or f"The command in run {run_id} did not end by itself.")
    return channel.exit_code, bytes(output)


def _feed(channel: Channel, data: bytes) -> None:
    try:
        channel.write(data)
        channel.end_input()
    except (OSError, WindlassError):
        pass  # the command has ended: the reader of its output has the reason
