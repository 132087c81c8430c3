"""Work for many targets by a few threads, so that targets that hang keep nobody else waiting.

Each target has its lane. As long as its target answers, so many threads may be in one at a time. Only one goes where
nobody has answered for a moment, and looks; the others follow once there was an answer. At most three quarters of all
threads are in such slow lanes, and at most half in those that are known to be silent; the rest of them stand in line,
and whoever has done one thing there goes to its end. What waits, waits in a lane, not in a thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum

log = logging.getLogger(__name__)

Act = Callable[[], None]

TURN = 50  # acts, after which a busy lane lets others have the thread
FRESH_SECONDS = 20.0  # targets with runs are asked twice as often
FORGET_SECONDS = 3600.0


class Standing(Enum):
    """What is known of who is at the end of a lane."""

    ANSWERS = "answers"
    UNSURE = "unsure"  # it was not tried yet, or not lately, or its line broke
    SILENT = "silent"


class _Lane:
    __slots__ = ("busy", "standing", "told_at", "waiting")

    def __init__(self, now: float) -> None:
        self.waiting: deque[Act] = deque()
        self.busy = 0  # threads in it, or on their way
        self.standing = Standing.UNSURE
        self.told_at = now

    @property
    def is_idle(self) -> bool:
        return not self.busy and not self.waiting

    @property
    def is_slow(self) -> bool:
        return self.standing is not Standing.ANSWERS


class Lanes:
    def __init__(self, name: str, threads: int, at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once = at_once
        self._most_silent = max(1, threads // 2)
        self._most_slow = max(1, threads * 3 // 4)
        self._clock = clock
        self._pool = ThreadPoolExecutor(threads, name)  # which makes a thread when all it has are busy
        self._lock = threading.Lock()  # of all that follows
        self._lanes: dict[Hashable, _Lane] = {}
        self._busy: Counter[Standing] = Counter()  # threads in lanes
        # Lanes with work and nobody in them, in order. Who may well answer comes before who surely hangs.
        self._lines: dict[Standing, dict[Hashable, _Lane]] = {Standing.UNSURE: {}, Standing.SILENT: {}}
        self._closed = False

    def submit(self, key: Hashable, act: Act) -> None:
        """Have it done as soon as there is room in its lane. Returns at once."""
        with self._lock:
            if self._closed:
                return
            lane = self._lane(key)
            lane.waiting.append(act)
            if not lane.is_slow and self._clock() - lane.told_at > FRESH_SECONDS:
                self._turn(key, lane, Standing.UNSURE)
            else:
                self._send(key, lane)

    def tell(self, key: Hashable, is_slow: bool) -> None:
        """Whether who worked in that lane got no answer."""
        self._tell(key, Standing.SILENT if is_slow else Standing.ANSWERS)

    def doubt(self, key: Hashable) -> None:
        """Nobody knows whether who works in that lane must expect to wait."""
        self._tell(key, Standing.UNSURE)

    def _tell(self, key: Hashable, standing: Standing) -> None:
        lane = self._lanes.get(key)
        if lane is not None and lane.standing is standing:
            lane.told_at = self._clock()
            return  # as nearly always, without the lock
        with self._lock:
            lane = self._lane(key)
            lane.told_at = self._clock()
            if lane.standing is not standing and not self._closed:
                self._turn(key, lane, standing)

    def close(self) -> None:
        """Let what is under way come to its end, and forget the rest."""
        with self._lock:
            self._closed = True
            for line in self._lines.values():
                line.clear()
            for lane in self._lanes.values():
                lane.waiting.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    # with the lock

    def _lane(self, key: Hashable) -> _Lane:
        lane = self._lanes.get(key)
        if lane is None:
            now = self._clock()
            # Targets come and go: this is when those are forgotten of which nobody speaks any more.
            old = [k for k, each in self._lanes.items() if each.is_idle and now - each.told_at > FORGET_SECONDS]
            for each in old:
                del self._lanes[each]
            lane = self._lanes[key] = _Lane(now)
        return lane

    def _turn(self, key: Hashable, lane: _Lane, standing: Standing) -> None:
        self._busy[lane.standing] -= lane.busy
        self._busy[standing] += lane.busy
        lane.standing = standing
        for line in self._lines.values():
            line.pop(key, None)
        for _ in range(min(len(lane.waiting), self._at_once)):
            self._send(key, lane)
        self._call_in()

    def _has_room(self, standing: Standing, places: int = 1) -> bool:
        """Whether so many more may be in lanes of that kind."""
        if standing is Standing.ANSWERS:
            return True
        silent = self._busy[Standing.SILENT]
        if standing is Standing.SILENT and silent + places > self._most_silent:
            return False
        return silent + self._busy[Standing.UNSURE] + places <= self._most_slow

    def _send(self, key: Hashable, lane: _Lane) -> None:
        """Send somebody into a lane, if there is room; otherwise a slow one stands in line for it."""
        if lane.busy >= (1 if lane.is_slow else self._at_once):
            return
        if not self._has_room(lane.standing):
            self._lines[lane.standing].setdefault(key, lane)
            return
        lane.busy += 1
        self._busy[lane.standing] += 1
        self._pool.submit(self._work, key, lane)

    def _call_in(self) -> None:
        """Send somebody into the lanes at the head of each line, as far as there is room for slow ones."""
        for standing, line in self._lines.items():
            while line and self._has_room(standing):
                key = next(iter(line))
                self._send(key, line.pop(key))

    def _leave(self, key: Hashable, lane: _Lane) -> None:
        lane.busy -= 1
        self._busy[lane.standing] -= 1
        if lane.waiting and not lane.busy:
            self._lines[lane.standing][key] = lane
        self._call_in()

    def _next(self, key: Hashable, lane: _Lane, is_first: bool) -> Act | None:
        """What is to be done in a lane by who is in it; None if he has left it."""
        is_one_too_many = lane.is_slow and (lane.busy > 1 or not self._has_room(lane.standing, 0))
        gives_way = lane.is_slow and not is_first and any(self._lines.values())
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
