"""Signals as bytes on a descriptor (self-pipe), so that a loop can poll for them with other descriptors."""

from __future__ import annotations

import os
import select
import signal
from typing import Iterable, Optional


def _ignore(*_: object) -> None:
    """A handler that does nothing: without one a signal would not be written to the descriptor."""


class Wakeup:
    def __init__(self, signals: Iterable[int]) -> None:
        self.fd, self._into = os.pipe()
        for fd in (self.fd, self._into):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._into, warn_on_full_buffer=False)
        self.add_signals(signals)

    def add_signals(self, signals: Iterable[int]) -> None:
        for number in signals:
            signal.signal(number, _ignore)

    def wait(self, seconds: Optional[float], other: int = -1) -> None:
        """Wait for a signal, or until the other descriptor is readable; at most so long."""
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
        """Close the descriptors, in a forked child."""
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._into)
