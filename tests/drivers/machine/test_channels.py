"""The channels of one connection: how much the host may send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from windlass.drivers.base import CHANNEL_WINDOW, ChannelEnd
from windlass.drivers.machine.channels import Channels
from windlass.drivers.machine.framing import ProtocolError

if TYPE_CHECKING:
    from windlass.drivers.machine.host_client import HostClient


class Answered:
    """A connection whose host has answered everything."""

    def ask(self, do: str, data: bytes = b"", **fields: Any) -> Any:
        return self

    def wait(self, answer: Any) -> None:
        pass

    def send_window(self, most: int) -> int:
        return most

    sent = 0

    @property
    def came(self) -> Any:
        return self

    def is_set(self) -> bool:
        return True


class Sink:
    def receive(self, data: bytes, is_error: bool) -> None:
        pass

    def accept(self, count: int) -> None:
        pass

    def end(self, end: ChannelEnd) -> None:
        pass


class Piece(bytes):
    """Output during whose counting, in the reader's thread, a request confirms as much of what came before."""

    confirm: Any

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        size = super().__len__()
        confirm, self.confirm = self.confirm, lambda size: None
        confirm(size)
        return size


def test_output_that_is_confirmed_while_more_comes_is_counted_once() -> None:
    """A connection with all that uses it breaks when a channel seems to send more than it may."""
    channels = Channels()
    channel = channels.open(cast("HostClient", Answered()), Sink())
    frame = {"channel": channel.number, "from": "stdout"}
    channels.take(frame, bytes(CHANNEL_WINDOW))
    for _ in range(8):
        piece = Piece(bytes(CHANNEL_WINDOW))
        piece.confirm = channel.confirm
        channels.take(frame, piece)
    with pytest.raises(ProtocolError):
        for _ in range(2):
            channels.take(frame, bytes(CHANNEL_WINDOW))
