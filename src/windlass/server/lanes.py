"""Work for many targets by a few threads, so that one target that hangs keeps nobody else waiting.

Each target has its lane: at most so many threads are in one at a time, and only one as long as its target is not
answering. The others' work waits in the lane, not in a thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

log = logging.getLogger(__name__)

Act = Callable[[], None]


class _Lane:
    __slots__ = ("busy", "is_slow", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Act] = deque()
        self.busy = 0
        self.is_slow = False


class Lanes:
    def __init__(self, name: str, threads: int, at_once: int) -> None:
        self._at_once = at_once
        self._pool = ThreadPoolExecutor(threads, name)  # which makes a thread when all it has are busy
        self._lock = threading.Lock()
        self._lanes: dict[Hashable, _Lane] = {}
        self._closed = False

    def submit(self, key: Hashable, act: Act) -> None:
        """Have it done as soon as there is room in its lane. Returns at once."""
        with self._lock:
            if self._closed:
                return
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane()
            if lane.busy >= (1 if lane.is_slow else self._at_once):
                lane.waiting.append(act)
                return
            lane.busy += 1
        self._pool.submit(self._work, key, lane, act)

    def tell(self, key: Hashable, is_slow: bool) -> None:
        """Whether who works in that lane must expect to wait."""
        lane = self._lanes.get(key)
        if lane is None or lane.is_slow == is_slow:
            return
        with self._lock:
            lane.is_slow = is_slow
            more = [] if is_slow or self._closed else self._admit(lane)
        for act in more:
            self._pool.submit(self._work, key, lane, act)

    def close(self) -> None:
        """Let what is under way come to its end, and forget the rest."""
        with self._lock:
            self._closed = True
            for lane in self._lanes.values():
                lane.waiting.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _admit(self, lane: _Lane) -> list[Act]:
        count = min(self._at_once - lane.busy, len(lane.waiting))
        lane.busy += max(count, 0)
        return [lane.waiting.popleft() for _ in range(count)]

    def _work(self, key: Hashable, lane: _Lane, act: Act) -> None:
        while True:
            try:
                act()
            except Exception:  # whatever it is, the lane goes on
                log.exception("work for %s failed", key)
            with self._lock:
                if not lane.waiting or (lane.is_slow and lane.busy > 1):
                    lane.busy -= 1
                    if not lane.busy and not lane.waiting and not lane.is_slow:
                        self._lanes.pop(key, None)
                    return
                act = lane.waiting.popleft()
