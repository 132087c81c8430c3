"""Signals as bytes on a descriptor, so that a loop can wait for them and for everything else at once."""

from __future__ import annotations

import os
import select
import signal
from typing import Iterable, Optional


def _nothing(*_: object) -> None:
    """A handler must exist for a signal to wake anybody."""


class Wakeup:
    def __init__(self, signals: Iterable[int]) -> None:
        self.fd, self._into = os.pipe()
        for fd in (self.fd, self._into):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._into, warn_on_full_buffer=False)
        self.hear(signals)

    def hear(self, signals: Iterable[int]) -> None:
        for number in signals:
            signal.signal(number, _nothing)

    def wait(self, seconds: Optional[float], other: int = -1) -> None:
        """Until a signal comes, or the other descriptor can be read; at most so long."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        if other >= 0:
            poll.register(other, select.POLLIN)
        if poll.poll(None if seconds is None else max(0, seconds) * 1000):
            self.drain()

    def drain(self) -> None:
        try:
            while os.read(self.fd, 512):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Forget it, in a child that will have its own."""
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._into)
