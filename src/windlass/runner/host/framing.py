"""Framing of the pipe: two big-endian 32-bit lengths, that much JSON (an object), that many bytes."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, Iterator, Tuple

GREETING = b"windlass-pipe 1\n"
MAX_PART = 256 << 20
# Unsent bytes at which the host stops reading requests from a slow reader.
_MOST_UNSENT = 4 << 20
# Unsent bytes up to which relayed data may be added without delaying events and answers.
_MOST_UNSENT_RELAY = 1 << 18

_LENGTHS = struct.Struct(">II")

Frame = Tuple[Dict[str, Any], bytes]


class BrokenFrame(Exception):
    """The other side does not speak this protocol."""


def encode(head: Dict[str, Any], body: bytes = b"") -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode("ascii")
    return _LENGTHS.pack(len(text), len(body)) + text + body


class Decoder:
    """Decodes a stream of bytes into frames."""

    def __init__(self, most_text: int = MAX_PART, most_body: int = MAX_PART) -> None:
        self._most_text = most_text
        self._most_body = most_body
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while len(self._buffer) >= _LENGTHS.size:
            text, body = _LENGTHS.unpack_from(self._buffer)
            if text > self._most_text or body > self._most_body:
                raise BrokenFrame(f"a frame of {text} + {body} bytes")
            end = _LENGTHS.size + text + body
            if len(self._buffer) < end:
                return
            frame = bytes(self._buffer[_LENGTHS.size : end])
            del self._buffer[:end]
            yield _object(frame[:text]), frame[text:]


def _object(text: bytes) -> Dict[str, Any]:
    try:
        head = json.loads(text)
    except ValueError as e:
        raise BrokenFrame(f"not JSON: {e}") from None
    except RecursionError:
        raise BrokenFrame("JSON that is nested too deep") from None
    if not isinstance(head, dict):
        raise BrokenFrame("not a JSON object")
    return head


class Pipe:
    """A pair of descriptors. Writing never blocks: unsent bytes are buffered."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self.is_open = True
        self._decoder = Decoder()
        self._waiting = bytearray()
        os.set_blocking(sink, False)

    def greet(self) -> None:
        self._waiting += GREETING

    @property
    def is_listening(self) -> bool:
        """Whether to read requests: not while too many unsent bytes are buffered."""
        return len(self._waiting) < _MOST_UNSENT

    @property
    def is_free(self) -> bool:
        """Whether to send data that can wait."""
        return len(self._waiting) < _MOST_UNSENT_RELAY

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def receive(self) -> Iterator[Frame]:
        try:
            data = os.read(self.source, 1 << 17)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_open = False
        return self._decoder.feed(data)

    def send(self, head: Dict[str, Any], body: bytes = b"") -> None:
        self._waiting += encode(head, body)
        self.flush()

    def flush(self) -> None:
        try:
            while self._waiting:
                del self._waiting[: os.write(self.sink, self._waiting)]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self.is_open = False
            self._waiting.clear()
