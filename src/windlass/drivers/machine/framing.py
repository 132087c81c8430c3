"""Frame codec of the connection to a host. The host sends a greeting line first, then both sides send frames.

A frame is two big-endian 32-bit lengths, a JSON object of the first length, and bytes of the second.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from windlass.core.errors import TooLarge

GREETING = b"windlass-pipe 1\n"
# The end of a run lists its files; the runner lists as many as fit (`_MOST_LISTED_BYTES` in runner/host/requests.py).
MAX_JSON = 16 << 20
MOST_VALUES = 500_000  # in memory a value takes a hundred bytes
MAX_BYTES = 16 << 20
MAX_RECEIVED = 4 << 20  # bytes after the JSON: the server never requests more
# Requests may be longer than answers: a snapshot may have more files than a run may have outputs.
MAX_SENT_JSON = 128 << 20
# Limit of what a login shell may print before the greeting.
MAX_NOISE = 1 << 20

_LENGTHS = struct.Struct(">II")

Body = dict[str, Any]


class ProtocolError(Exception):
    """Protocol error in what the host sent. The connection must be closed."""


def encode(body: Body, data: bytes = b"") -> bytes:
    text = json.dumps(body, separators=(",", ":")).encode()
    if len(text) > MAX_SENT_JSON or len(data) > MAX_BYTES:
        raise TooLarge(
            f"A request to a target has at most {MAX_SENT_JSON >> 20} MB of JSON and {MAX_BYTES >> 20} MB of bytes; "
            f"this one has {len(text):,} and {len(data):,} bytes."
        )
    return _LENGTHS.pack(len(text), len(data)) + text + data


class Decoder:
    """Incremental parser: bytes in chunks of any size in, frames out."""

    def __init__(self) -> None:
        self.noise = b""  # output of the login shell before the greeting
        self.size = 0
        self._buffer = bytearray()
        self._is_greeted = False

    def feed(self, chunk: bytes) -> Iterator[tuple[Body, bytes]]:
        """The frames that are complete with this chunk. `size` is the length of the last one's JSON."""
        self._buffer += chunk
        if not self._is_greeted:
            self._skip_noise()
        while self._is_greeted and (frame := self._next()) is not None:
            yield frame

    def _skip_noise(self) -> None:
        start = self._buffer.find(GREETING)
        # Only at the start of a line: a shell may echo it elsewhere.
        while start > 0 and self._buffer[start - 1] != ord("\n"):
            start = self._buffer.find(GREETING, start + 1)
        self.noise = bytes(self._buffer[: start if start >= 0 else None])
        if start >= 0:
            del self._buffer[: start + len(GREETING)]
            self._is_greeted = True
        elif len(self._buffer) > MAX_NOISE:
            raise ProtocolError(f"it printed more than {MAX_NOISE >> 20} MB and did not greet")

    def _next(self) -> tuple[Body, bytes] | None:
        if len(self._buffer) < _LENGTHS.size:
            return None
        text_length, data_length = _LENGTHS.unpack_from(self._buffer)
        if text_length > MAX_JSON or data_length > MAX_RECEIVED:
            raise ProtocolError("it sent a frame that is too large")
        middle = _LENGTHS.size + text_length
        end = middle + data_length
        if len(self._buffer) < end:
            return None
        text = self._take_text(middle)
        data = bytes(self._buffer[middle:end])
        del self._buffer[:end]  # before the JSON is parsed: a large frame is in memory once
        self.size = text_length
        return _parse(text), data

    def _take_text(self, middle: int) -> str:
        values = sum(self._buffer.count(sign, _LENGTHS.size, middle) for sign in (b",", b"[", b"{"))
        if values > MOST_VALUES:  # each value but the first follows one of these
            raise ProtocolError(f"it sent a frame of more than {MOST_VALUES:,} values")
        with memoryview(self._buffer) as view:
            try:
                return str(view[_LENGTHS.size : middle], "utf-8")
            except ValueError:
                raise ProtocolError("it sent a frame that is not UTF-8") from None


def _parse(text: str) -> Body:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ProtocolError(f"it sent a frame that is not JSON: {str(e)[:200]}") from e
    if not isinstance(body, dict):
        raise ProtocolError("it sent a frame that is not an object")
    return body
