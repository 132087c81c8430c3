"""Channels over the connection to a runner's host: shells, commands and TCP connections that members open where a run
is (docs/dev/runner.md, "Channels").
"""

from __future__ import annotations

import itertools
import threading
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

from windlass.core.errors import TargetUnreachable
from windlass.drivers.base import (
    CHANNEL_WINDOW,
    Channel,
    ChannelEnd,
    ChannelRequest,
    ChannelSink,
    Handle,
    Interactive,
)
from windlass.drivers.machine import protocol
from windlass.drivers.machine.framing import Body, ProtocolError

if TYPE_CHECKING:
    from windlass.drivers.machine.host_client import HostClient, PendingAnswer

PIECE = 1 << 16
_MAX_IN_FLIGHT = 1 << 20
_MOST_UNCONFIRMED = 2 * CHANNEL_WINDOW  # a container's output comes in pieces that are counted when they are whole
_LONGEST_MESSAGE = 1000


class Channels:
    """The channels of one connection. `take` is called by its reader, in order."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, MachineChannel] = {}
        self._lock = threading.Lock()

    def open(self, client: HostClient, sink: ChannelSink) -> MachineChannel:
        """A channel that is to be requested from the host by its number."""
        channel = MachineChannel(client, next(self._numbers), sink)
        with self._lock:
            self._open[channel.number] = channel
        return channel

    def forget(self, channel: MachineChannel) -> None:
        with self._lock:
            self._open.pop(channel.number, None)

    def take(self, body: Body, data: bytes) -> None:
        """Handle a frame of the host. One of an unknown channel is late."""
        number = body.get("channel")
        channel = self._open.get(number) if isinstance(number, int) else None
        if channel is not None and channel.take(body, data):
            self.forget(channel)

    def end_all(self, message: str) -> None:
        """End all channels, after the connection broke."""
        with self._lock:
            channels = list(self._open.values())
            self._open.clear()
        for channel in channels:
            channel.lose(message)


class MachineChannel(Channel):
    def __init__(self, client: HostClient, number: int, sink: ChannelSink) -> None:
        self.number = number
        self._client = client
        self._sink = sink
        self._unconfirmed = 0  # bytes of output
        self._counting = threading.Lock()  # of the reader, which adds to them, and of requests, which confirm them
        self._has_ended = False
        self._in_flight: deque[PendingAnswer] = deque()
        self._sending = threading.Lock()

    def take(self, body: Body, data: bytes) -> bool:
        """Handle a frame of the host. True if the channel has ended."""
        if data:
            if self._count(len(data)) > _MOST_UNCONFIRMED:
                raise ProtocolError("a channel sends more than it may")
            self._sink.receive(data, body.get("from") == "stderr")
        credit = body.get("credit")
        if type(credit) is int and credit > 0:
            self._sink.accept(credit)
        if isinstance(body.get("end"), dict):
            self._end(channel_end(body["end"]))
        return self._has_ended

    def _count(self, more: int) -> int:
        with self._counting:
            self._unconfirmed += more
            return self._unconfirmed

    def lose(self, message: str) -> None:
        self._end(ChannelEnd(None, message))

    def _end(self, end: ChannelEnd) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._sink.end(end)

    def send(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            self._ask(data[start : start + PIECE])

    def end_input(self) -> None:
        self._ask(end_input=True)

    def resize(self, columns: int, rows: int) -> None:
        self._ask(size=[columns, rows])

    def confirm(self, count: int) -> None:
        self._count(-count)
        self._ask(credit=count)

    def close(self) -> None:
        self._ask(close=True)

    def _ask(self, data: bytes = b"", **fields: Any) -> None:
        """Send a frame. On a slow connection little input is in flight at once, so that other requests go on."""
        if self._has_ended:
            return
        with self._sending:
            self._in_flight.append(self._client.ask("channel", data, channel=self.number, **fields))
            while self._in_flight and (
                self._in_flight[0].came.is_set()
                or sum(answer.sent for answer in self._in_flight) > self._client.send_window(_MAX_IN_FLIGHT)
            ):
                self._client.wait(self._in_flight.popleft())


class InteractiveMachine(Interactive):
    """Adds channels to a MachineDriver whose host runs on the machine of its jobs."""

    name: str

    @abstractmethod
    def _client(self, handle: Handle | None = None) -> HostClient: ...

    def open_channel(self, handle: Handle | None, request: ChannelRequest, sink: ChannelSink) -> Channel:
        client = self._client(handle)
        channel = client.channels.open(client, sink)
        asked: Body = {
            "command": list(request.command),
            "port": request.port,
            "size": list(request.size) if request.size else None,
            "term": request.term or None,
            "rank": request.rank,
        }
        if handle is not None:
            asked.update(job=handle.native_id, nonce=handle.nonce)
        try:
            body, _ = client.call("open_channel", channel=channel.number, **asked)
        except TargetUnreachable:
            client.channels.forget(channel)
            raise
        error = protocol.error(body, self.name)
        if error is not None:
            client.channels.forget(channel)
            raise error
        return channel


def channel_end(said: Body) -> ChannelEnd:
    """How a channel ended, as the host has it."""
    code = said.get("exit_code")
    message = protocol.printable_text(said.get("message"), _LONGEST_MESSAGE)
    return ChannelEnd(code if type(code) is int and 0 <= code <= 255 else None, message)
