"""Group commit: threads that write at the same time share one transaction, or one fsync."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

_MAX_BATCH = 256  # enough to share an fsync, few enough that the first thread does not wait long


class QueuedWork:
    """Work that one thread has queued, and the error that it failed with."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.woken = threading.Lock()  # held until the work is done, or its thread is to lead
        self.woken.acquire()

    @property
    def is_settled(self) -> bool:
        """Whether the outcome holds even if the rest of the batch is interrupted."""
        return False

    def fail(self, error: BaseException) -> None:
        self.error = error


class QueuedWrite(QueuedWork):
    """A function that is to run in a shared transaction, and its result."""

    def __init__(self, function: Callable[[Connection], Any]) -> None:
        super().__init__()
        self.function = function
        self.result: Any = None


W = TypeVar("W", bound=QueuedWork)


class GroupCommit(Generic[W]):
    """A queue whose threads take turns in leading it.

    The first thread becomes the leader and executes its work at once. Threads that arrive meanwhile queue; when the
    leader is done, it wakes the first of them, which leads for all that wait by then. So there is no thread switch
    without contention, and with it each waiting thread is woken once.

    If the leader is stopped (KeyboardInterrupt), the other threads of its batch get the error made by `interrupted`.
    """

    def __init__(self, interrupted: Callable[[], Exception]) -> None:
        self._interrupted = interrupted
        self._lock = threading.Lock()
        self._waiting: deque[W] = deque()
        self._leader: W | None = None

    def execute(self, mine: W, execute_batch: Callable[[list[W]], None]) -> None:
        """Execute the work in a batch with that of other threads, in this thread or another one; raise its error."""
        batch = self.join(mine)
        if batch:
            try:
                execute_batch(batch)
            except Exception as error:
                for work in batch:
                    work.fail(error)
            except BaseException:  # this thread is being stopped; the other threads of the batch are not
                for work in batch:
                    if not work.is_settled:
                        work.fail(self._interrupted())
                raise
            finally:
                self.leave(mine, batch)
        if mine.error is not None:
            raise mine.error

    def join(self, mine: W) -> list[W]:
        """Queue the work and wait. Returns the batch to execute, if this thread is to lead; nothing if another leader
        has executed the work.
        """
        with self._lock:
            self._waiting.append(mine)
            is_first = self._leader is None
            if is_first:
                self._leader = mine
        if not is_first:
            try:
                mine.woken.acquire()
            except BaseException:  # the thread is being stopped
                self._withdraw(mine)
                raise
        with self._lock:
            if self._leader is not mine:
                return []
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH))]

    def leave(self, mine: W, batch: list[W]) -> None:
        """Hand the lead over to the first waiting thread, and wake the other threads of an executed batch."""
        with self._lock:
            self._wake_next_leader()
        for work in batch:
            if work is not mine:
                work.woken.release()

    def count_waiting(self) -> int:
        with self._lock:
            return len(self._waiting)

    def _withdraw(self, mine: W) -> None:
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
            if self._leader is mine:
                self._wake_next_leader()

    def _wake_next_leader(self) -> None:
        self._leader = self._waiting[0] if self._waiting else None
        if self._leader is not None:
            self._leader.woken.release()
