"""Channels that members have open on this machine: the host passes frames between the server and a process for each
(runner/channels), which does everything that could make the host wait.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from typing import Any, Callable, Dict, List, Optional

from ..channels.surroundings import MARK
from ..system.process_tree import Tree
from ..workdir.run_folder import Refused
from .framing import BrokenFrame, Decoder, Pipe, encode

MOST_CHANNELS = 64
_PIECE = 1 << 17
_FIELDS = ("from", "credit", "end")
_NO_END = {"exit_code": None, "message": "Its process on that machine was killed."}


class Channel:
    """A channel's process, as the host sees it."""

    def __init__(self, number: int, job: str, mark: str, connection: socket.socket) -> None:
        self.number = number
        self.job = job
        self.mark = mark
        self.pid = 0
        self.connection = connection
        self.fd = connection.fileno()
        self.decoder = Decoder()
        self.waiting = bytearray()  # for the process
        self.has_end = False  # the server knows how it ended


class Channels:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._channels: Dict[int, Channel] = {}
        self._ended: Dict[int, str] = {}  # marks by pid, of processes that were not reaped yet

    @property
    def pids(self) -> List[int]:
        """The processes of channels that were not reaped yet."""
        return [*(channel.pid for channel in self._channels.values()), *self._ended]

    @property
    def jobs(self) -> List[str]:
        """Jobs that have channels."""
        return [channel.job for channel in self._channels.values() if channel.job]

    def open(self, number: int, job: str, fork: Callable[[socket.socket, str], int]) -> None:
        """Open a channel. `fork` makes its process, which gets a socket, and a mark for what it starts."""
        if number in self._channels:
            raise Refused("invalid", f"There is a channel {number} already.")
        if len(self._channels) >= MOST_CHANNELS:
            raise Refused("too_many", f"{MOST_CHANNELS} shells and forwarded connections are open there.")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        # Known before the fork, so that the child closes its copy of our end: else it would never see us close it.
        channel = self._channels[number] = Channel(number, job, os.urandom(16).hex(), ours)
        try:
            channel.pid = fork(theirs, channel.mark)
        except BaseException:
            del self._channels[number]
            ours.close()
            raise
        finally:
            theirs.close()

    def receive(self, number: int, head: Dict[str, Any], body: bytes) -> None:
        """Pass a frame of the server on. A channel that is unknown has ended, and its end was sent."""
        channel = self._channels.get(number)
        if channel is not None:
            channel.waiting += encode(head, body)
            self._flush(channel)

    def end_job(self, job: str, message: str) -> None:
        """End the channels of a job that has ended."""
        for channel in [each for each in self._channels.values() if each.job == job]:
            self.receive(channel.number, {"close": True, "message": message}, b"")

    def reap(self, pid: int, has_failed: bool) -> bool:
        """Handle the end of a child. False if it was no channel's."""
        mark = self._ended.pop(pid, None)
        for channel in [each for each in self._channels.values() if each.pid == pid]:
            self._read(channel)
            if channel.number in self._channels:
                self._drop(channel)
            mark = self._ended.pop(pid, None)
        if mark is not None and has_failed:  # then it has not ended what it started
            Tree(f"{MARK}={mark}", None, is_ancestor=False).signal(signal.SIGKILL)
        return mark is not None

    def close(self) -> None:
        """Close the descriptors, in a forked child."""
        for channel in self._channels.values():
            channel.connection.close()
        self._channels.clear()

    # ---- called by the loop ----

    def register(self, poll: "select.poll") -> None:
        """While the pipe is busy nothing is read from channels: logs and answers come first."""
        for channel in self._channels.values():
            events = (select.POLLIN if self._pipe.is_free else 0) | (select.POLLOUT if channel.waiting else 0)
            if events:
                poll.register(channel.fd, events)

    def serve(self, ready: List[int]) -> None:
        fds = set(ready)
        for channel in [each for each in self._channels.values() if each.fd in fds]:
            self._flush(channel)
            if channel.number in self._channels and self._pipe.is_free:
                self._read(channel)

    def _read(self, channel: Channel) -> None:
        try:
            data = channel.connection.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            for head, body in channel.decoder.feed(data):
                channel.has_end = channel.has_end or "end" in head
                self._send(channel, {name: head[name] for name in _FIELDS if name in head}, body)
        except BrokenFrame:
            data = b""
        if not data:
            self._drop(channel)

    def _flush(self, channel: Channel) -> None:
        try:
            while channel.waiting:
                del channel.waiting[: channel.connection.send(channel.waiting)]
        except BlockingIOError:
            pass
        except OSError:  # the process has ended; what it sent is still read
            channel.waiting.clear()

    def _drop(self, channel: Channel) -> None:
        del self._channels[channel.number]
        self._ended[channel.pid] = channel.mark
        channel.connection.close()
        if not channel.has_end:
            self._send(channel, {"end": _NO_END}, b"")

    def _send(self, channel: Channel, head: Dict[str, Any], body: bytes) -> None:
        self._pipe.send({"event": "channel", "channel": channel.number, **head}, body)


def check_size(value: Any) -> Optional[List[int]]:
    """Columns and rows of a terminal."""
    if value is None:
        return None
    is_pair = isinstance(value, list) and len(value) == 2
    if not is_pair or not all(type(number) is int and 0 < number < 10_000 for number in value):
        raise Refused("invalid", "`size` has the columns and rows of a terminal.")
    return list(value)
