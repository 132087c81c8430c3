"""Who performs: one at a time, for everybody who waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

_MOST = 256  # acts at a time: enough to share an fsync, few enough that the first does not wait long


class Wish:
    """Something that waits to be done, and whether that failed."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.called = threading.Lock()  # held until its thread is called: it was done, or it is its turn
        self.called.acquire()

    def fail(self, error: BaseException) -> None:
        self.error = error


class Act(Wish):
    """One function that waits to be part of a transaction, and what became of it."""

    def __init__(self, function: Callable[[Connection], Any]) -> None:
        super().__init__()
        self.function = function
        self.result: Any = None


W = TypeVar("W", bound=Wish)


class Turns(Generic[W]):
    """Whoever finds nobody performing performs at once, on its own thread. The others wait, and when he is through, he
    calls the first of them, who then performs for all of them. So nobody waits for a thread to wake up when he is
    alone, many share one turn when there are many, and each is woken once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[W] = deque()
        self._performer: W | None = None

    def take(self, mine: W, perform: Callable[[list[W]], None]) -> None:
        """Have it performed, by somebody, with others; raises what it failed by."""
        batch = self.wait(mine)
        if batch:
            try:
                perform(batch)
            finally:
                self.leave(mine, batch)
        if mine.error is not None:
            raise mine.error

    def wait(self, mine: W) -> list[W]:
        """What to perform, this one among it; or nothing, if somebody has performed it meanwhile."""
        with self._lock:
            self._waiting.append(mine)
            is_first = self._performer is None
            if is_first:
                self._performer = mine
        if not is_first:
            try:
                mine.called.acquire()
            except BaseException:  # the thread is being stopped
                self._withdraw(mine)
                raise
        with self._lock:
            if self._performer is not mine:
                return []
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST))]

    def leave(self, mine: W, performed: list[W]) -> None:
        with self._lock:
            self._call_next()
        for act in performed:
            if act is not mine:
                act.called.release()

    def count(self) -> int:
        """How many wait."""
        with self._lock:
            return len(self._waiting)

    def _withdraw(self, mine: W) -> None:
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
            if self._performer is mine:
                self._call_next()

    def _call_next(self) -> None:
        self._performer = self._waiting[0] if self._waiting else None
        if self._performer is not None:
            self._performer.called.release()
