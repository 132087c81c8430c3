"""Open channels of this server: shells, commands and TCP connections that members have opened where runs are.

A channel's output waits here in frames, and stays until the client confirms it by the position from which it reads on:
so a client that lost its connection continues where it was. A frame is a byte for its kind, three zeros, a length of
four bytes (big-endian), and that many bytes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import secrets
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from windlass.core.errors import Conflict, InvalidRequest, NotFound, WindlassError
from windlass.drivers.base import CHANNEL_WINDOW, Channel, ChannelEnd
from windlass.server.security.principals import Principal
from windlass.server.streaming.event_bus import EventBus
from windlass.store import Store
from windlass.store.access.audit import AuditEntry

log = logging.getLogger(__name__)

HEARTBEAT, STDOUT, STDERR, END = 0, 1, 2, 3  # kinds of frames; heartbeats are not counted in positions
MOST_OF_MEMBER = 32
MOST_CHANNELS = 512
ABANDONED_SECONDS = 30.0
MAX_RETAINED = 1 << 20  # bytes of output that were sent to the client, and are kept until it confirms them
_CREDIT_STEP = CHANNEL_WINDOW // 4
_CHECK_SECONDS = 1.0
_HEADER = struct.Struct(">BxxxI")
_MOST_ARGV = 1000  # characters of a command in the audit log
_SERVER_STOPS = "The server stops."


def frame(kind: int, data: bytes = b"") -> bytes:
    return _HEADER.pack(kind, len(data)) + data


@dataclass(frozen=True, slots=True)
class Opening:
    """Who opens a channel, and to what."""

    workspace: str
    principal: str
    object: str  # "run/ID" or "target/NAME"
    details: Mapping[str, Any]  # for the audit log: the command or the port


class OpenChannel:
    """One channel, as the sink of its driver and as the source of its client."""

    def __init__(self, id: str, opening: Opening, table: ChannelTable) -> None:
        self.id = id
        self.opening = opening
        self.opened_at = time.monotonic()
        self.left_at: float | None = self.opened_at  # since when no client reads; None while one does
        self.readers = 0  # clients that have read so far: only the last one goes on
        self.is_ended = False
        self.is_closed = False  # by the client or the server
        self.exit_code: int | None = None
        self._why = ""  # why it was closed
        self._table = table
        self._channel: Channel | None = None
        self._lock = threading.Lock()
        self._output = bytearray()  # frames, from position `_start` on
        self._start = 0
        self._payloads: deque[tuple[int, int]] = deque()  # where frames end that were not passed on, and their bytes
        self._unconfirmed = 0  # bytes that were passed on, for which the driver got no confirmation yet
        self._accepts = CHANNEL_WINDOW  # bytes of input
        self._written = 0  # bytes of input so far
        self._is_input_ended = False
        self._writing = threading.Lock()

    # ---- the sink of the driver, in its thread ----

    def receive(self, data: bytes, is_error: bool) -> None:
        with self._lock:
            self._output += frame(STDERR if is_error else STDOUT, data)
            self._payloads.append((self._start + len(self._output), len(data)))
        self._table.notify(self)

    def accept(self, count: int) -> None:
        with self._lock:
            self._accepts = min(CHANNEL_WINDOW, self._accepts + count)
        self._table.notify(self)

    def end(self, end: ChannelEnd) -> None:
        with self._lock:
            if self.is_ended:
                return
            self.is_ended, self.exit_code = True, end.exit_code
            message = self._why or end.message
            said = {"exit_code": end.exit_code, "message": message}
            self._output += frame(END, json.dumps(said).encode())
        self._table.on_end(self, message)

    # ---- opening and closing, in threads of requests ----

    def attach(self, channel: Channel) -> None:
        """The driver has opened it; if it was closed meanwhile, end it at once."""
        with self._lock:
            self._channel, is_closed = channel, self.is_closed
        if is_closed:
            _ignore_errors(channel.close)

    def close(self, why: str) -> None:
        """End the channel. Blocks while the target takes the request."""
        with self._lock:
            if self.is_closed:
                return
            self.is_closed, self._why = True, self._why or why
            channel = self._channel
        if channel is not None and not self.is_ended:
            _ignore_errors(channel.close)

    # ---- the client's requests ----

    def read(self, position: int, limit: int) -> tuple[bytes, bool]:
        """Frames, or parts of them, from a position on, and whether that is all, with the channel's end."""
        with self._lock:
            at = position - self._start
            if at < 0 or at > len(self._output):
                raise InvalidRequest(f"Channel {self.id} keeps output from {self._start} on, not from {position}.")
            data = bytes(self._output[at : at + limit])
            return data, self.is_ended and at + len(data) == len(self._output)

    def confirm(self, position: int) -> None:
        """The client has everything before this position."""
        with self._lock:
            count = position - self._start
            if 0 < count <= len(self._output):
                del self._output[:count]
                self._start = position

    def passed_on(self, position: int) -> int:
        """Everything before this position went to the client. Returns how many bytes are to be confirmed now."""
        with self._lock:
            while self._payloads and self._payloads[0][0] <= position:
                self._unconfirmed += self._payloads.popleft()[1]
            if self._unconfirmed < _CREDIT_STEP:
                return 0
            credit, self._unconfirmed = self._unconfirmed, 0
            return credit

    def confirm_to_driver(self, count: int) -> None:
        """Let the driver send so many bytes more. Blocks while the target takes that."""
        if self._channel is not None and not self.is_ended:
            _ignore_errors(partial(self._channel.confirm, count))

    def write(self, offset: int, data: bytes, is_last: bool) -> int:
        """Pass on input that begins at an offset, as much as the channel accepts now. Returns the offset of what
        follows. What was passed on before is skipped, so that a client can repeat a request.
        """
        with self._writing:
            if offset > self._written:
                raise Conflict(
                    f"Channel {self.id} has {self._written} bytes of input; bytes before {offset} are missing."
                )
            rest = data[self._written - offset :]
            channel = self._channel
            if self.is_ended or self._is_input_ended or channel is None:
                return max(self._written, offset + len(data))
            with self._lock:
                piece = rest[: max(0, self._accepts)]
                self._accepts -= len(piece)
            if piece:
                channel.send(piece)
                self._written += len(piece)
            if is_last and len(piece) == len(rest):
                self._is_input_ended = True
                channel.end_input()
            return self._written

    def resize(self, columns: int, rows: int) -> None:
        if self._channel is not None and not self.is_ended:
            self._channel.resize(columns, rows)


class ChannelTable:
    """All channels of this server. As long as there are any, a thread audits their ends, and ends those whose client is
    gone.
    """

    def __init__(self, store: Store, event_bus: EventBus) -> None:
        self._store = store
        self._event_bus = event_bus
        self._channels: dict[str, OpenChannel] = {}
        self._ends: queue.SimpleQueue[tuple[OpenChannel, dict[str, Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def begin(self, opening: Opening) -> OpenChannel:
        """A new channel, not connected yet; audited."""
        with self._lock:
            own = [
                one for one in self._channels.values() if _owner(one.opening) == _owner(opening) and not one.is_ended
            ]
            if len(own) >= MOST_OF_MEMBER or len(self._channels) >= MOST_CHANNELS:
                raise Conflict(
                    f"{len(own)} shells and forwarded connections of {opening.principal} are open.",
                    f"Close some: a member may have {MOST_OF_MEMBER}.",
                )
            channel = OpenChannel(secrets.token_hex(16), opening, self)
            self._channels[channel.id] = channel
        try:
            self._audit(channel, "channel.open", dict(opening.details))
        except BaseException:
            self._forget(channel)
            raise
        self._start()
        return channel

    def cancel(self, channel: OpenChannel, error: WindlassError) -> None:
        """Opening it has failed."""
        channel.close(error.message)
        self._forget(channel)
        self._audit(channel, "channel.close", {"error": error.message})

    def get(self, workspace: str, id: str, principal: Principal) -> OpenChannel:
        """An open channel of this member."""
        channel = self._channels.get(id)
        if channel is None or _owner(channel.opening) != (workspace, principal.name):
            raise NotFound(
                "There is no such channel here: it was closed, or the server was restarted.", "Open another one."
            )
        return channel

    def notify(self, channel: OpenChannel) -> None:
        """Wake the requests that wait for something of this channel; from any thread."""
        self._event_bus.publish(channel.id)

    def on_end(self, channel: OpenChannel, message: str) -> None:
        """A channel has ended; from any thread, which is not to wait for the store."""
        details: dict[str, Any] = {
            "exit_code": channel.exit_code,
            "seconds": round(time.monotonic() - channel.opened_at, 3),
        }
        self._ends.put((channel, {**details, **({"message": message} if message else {})}))
        self._start()
        self.notify(channel)

    def close_all(self) -> None:
        """End all channels, when the server stops."""
        for channel in list(self._channels.values()):
            if not channel.is_ended:
                channel.close(_SERVER_STOPS)
                channel.end(ChannelEnd(None, _SERVER_STOPS))
        with self._lock:
            self._is_stopping, thread = True, self._thread
        if thread is not None:
            thread.join()

    # ---- the thread ----

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._watch, name="channels", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        while True:
            with contextlib.suppress(queue.Empty):
                self._audit_end(*self._ends.get(timeout=_CHECK_SECONDS))
            for channel in list(self._channels.values()):
                self._check(channel)
            with self._lock:
                if self._ends.empty() and (self._is_stopping or not self._channels):
                    self._thread = None
                    return

    def _check(self, channel: OpenChannel) -> None:
        if channel.left_at is None or time.monotonic() - channel.left_at < ABANDONED_SECONDS:
            return
        if not channel.is_ended:
            channel.close("Its client has been gone for too long.")
        self._forget(channel)

    def _forget(self, channel: OpenChannel) -> None:
        with self._lock:
            self._channels.pop(channel.id, None)

    def _audit_end(self, channel: OpenChannel, details: Mapping[str, Any]) -> None:
        try:
            self._audit(channel, "channel.close", details)
        except Exception:
            log.exception("the end of a channel of %s could not be audited", channel.opening.object)

    def _audit(self, channel: OpenChannel, act: str, details: Mapping[str, Any]) -> None:
        opening = channel.opening
        entry = {"channel": channel.id[:8], **details}
        self._store.audit.add(AuditEntry(opening.workspace, opening.principal, act, opening.object, entry))


def shown_command(command: tuple[str, ...]) -> list[str]:
    """A command for the audit log, cut to a length."""
    shown, left = [], _MOST_ARGV
    for word in command:
        shown.append(word if len(word) <= left else f"{word[:left]}…")
        left -= len(word)
        if left <= 0:
            break
    return shown


def _owner(opening: Opening) -> tuple[str, str]:
    return opening.workspace, opening.principal


def _ignore_errors(act: Callable[[], None]) -> None:
    try:
        act()
    except WindlassError as e:
        log.info("a request about a channel failed: %s", e.message)
