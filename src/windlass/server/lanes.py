"""Work for many targets by a few threads, so that targets that hang keep nobody else waiting.

Each target has its lane: at most so many threads are in one at a time, and only one as long as its target is not
answering. At most half of all threads are in such slow lanes; the rest of them stand in line, and whoever has done one
thing there goes to its end. What waits, waits in a lane, not in a thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

log = logging.getLogger(__name__)

Act = Callable[[], None]

TURN = 50  # acts, after which a busy lane lets others have the thread


class _Lane:
    __slots__ = ("busy", "is_slow", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Act] = deque()
        self.busy = 0  # threads in it, or on their way
        self.is_slow = False

    @property
    def is_idle(self) -> bool:
        return not self.busy and not self.waiting


class Lanes:
    def __init__(self, name: str, threads: int, at_once: int) -> None:
        self._at_once = at_once
        self._most_slow = max(1, threads // 2)
        self._pool = ThreadPoolExecutor(threads, name)  # which makes a thread when all it has are busy
        self._lock = threading.Lock()  # of all that follows
        self._lanes: dict[Hashable, _Lane] = {}
        self._slow = 0  # threads in slow lanes
        self._line: dict[Hashable, _Lane] = {}  # slow lanes with work and nobody in them, in order
        self._closed = False

    def submit(self, key: Hashable, act: Act) -> None:
        """Have it done as soon as there is room in its lane. Returns at once."""
        with self._lock:
            if self._closed:
                return
            lane = self._lanes.setdefault(key, _Lane())
            lane.waiting.append(act)
            self._send(key, lane)

    def tell(self, key: Hashable, is_slow: bool) -> None:
        """Whether who works in that lane must expect to wait."""
        lane = self._lanes.get(key)
        if (lane is not None and lane.is_slow) == is_slow:
            return  # as nearly always, without the lock
        with self._lock:
            lane = self._lanes.setdefault(key, _Lane())
            if lane.is_slow != is_slow and not self._closed:
                self._turn(key, lane, is_slow)

    def close(self) -> None:
        """Let what is under way come to its end, and forget the rest."""
        with self._lock:
            self._closed = True
            self._line.clear()
            for lane in self._lanes.values():
                lane.waiting.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    # with the lock

    def _turn(self, key: Hashable, lane: _Lane, is_slow: bool) -> None:
        lane.is_slow = is_slow
        self._slow += lane.busy if is_slow else -lane.busy
        if is_slow:
            return
        self._line.pop(key, None)
        for _ in range(min(len(lane.waiting), self._at_once)):
            self._send(key, lane)
        self._call_in()
        if lane.is_idle:
            del self._lanes[key]

    def _send(self, key: Hashable, lane: _Lane) -> None:
        """Send somebody into a lane, if there is room; otherwise a slow one stands in line for it."""
        if lane.busy >= (1 if lane.is_slow else self._at_once):
            return
        if lane.is_slow and self._slow >= self._most_slow:
            self._line.setdefault(key, lane)
            return
        lane.busy += 1
        self._slow += lane.is_slow
        self._pool.submit(self._work, key, lane)

    def _call_in(self) -> None:
        """Send somebody into the lanes at the head of the line, as far as there is room for slow ones."""
        while self._line and self._slow < self._most_slow:
            key = next(iter(self._line))
            self._send(key, self._line.pop(key))

    def _leave(self, key: Hashable, lane: _Lane) -> None:
        lane.busy -= 1
        self._slow -= lane.is_slow
        if lane.waiting and not lane.busy:
            self._line[key] = lane
        elif lane.is_idle and not lane.is_slow:
            self._lanes.pop(key, None)
        self._call_in()

    def _next(self, key: Hashable, lane: _Lane, is_first: bool) -> Act | None:
        """What is to be done in a lane by who is in it; None if he has left it."""
        is_one_too_many = lane.is_slow and (lane.busy > 1 or self._slow > self._most_slow)
        gives_way = lane.is_slow and not is_first and bool(self._line)
        if lane.waiting and not is_one_too_many and not gives_way:
            return lane.waiting.popleft()
        self._leave(key, lane)
        return None

    # in a thread

    def _work(self, key: Hashable, lane: _Lane) -> None:
        for number in range(TURN):
            with self._lock:
                act = self._next(key, lane, is_first=number == 0)
            if act is None:
                return
            try:
                act()
            except Exception:  # whatever it is, the lane goes on
                log.exception("work for %s failed", key)
        with self._lock:
            if not self._closed:
                self._pool.submit(self._work, key, lane)  # behind whoever waits for a thread
