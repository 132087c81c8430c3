"""Thread pool with a queue per target, so that targets that hang do not block the work for others.

A healthy target may use `at_once` threads. A target that was not heard from for 20 s, or whose connection broke, gets
one probe; the rest follow if it succeeds. Unresponsive targets together use at most half of the threads, unresponsive
and unprobed ones three quarters, in turns. Waiting tasks hold no thread.
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

Task = Callable[[], None]

TASKS_IN_A_ROW = 50  # after which a busy target's thread goes back to the pool
FRESH_SECONDS = 20.0  # targets with runs are observed twice as often
FORGET_SECONDS = 3600.0


class TargetHealth(Enum):
    HEALTHY = "healthy"
    UNKNOWN = "unknown"  # not tried yet, or not lately, or its connection broke
    UNRESPONSIVE = "unresponsive"


class _TargetQueue:
    __slots__ = ("busy", "health", "reported_at", "tasks")

    def __init__(self, now: float) -> None:
        self.tasks: deque[Task] = deque()
        self.busy = 0  # threads that work for it, or are about to
        self.health = TargetHealth.UNKNOWN
        self.reported_at = now

    @property
    def is_idle(self) -> bool:
        return not self.busy and not self.tasks

    @property
    def is_healthy(self) -> bool:
        return self.health is TargetHealth.HEALTHY


class TargetExecutor:
    def __init__(self, name: str, threads: int, at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once = at_once
        self._most_unresponsive = max(1, threads // 2)
        self._most_not_healthy = max(1, threads * 3 // 4)
        self._clock = clock
        self._pool = ThreadPoolExecutor(threads, name)  # starts a thread when all that it has are busy
        self._lock = threading.Lock()  # of all that follows
        self._queues: dict[Hashable, _TargetQueue] = {}
        self._busy: Counter[TargetHealth] = Counter()  # threads by the health of the target that they work for
        # Queues with tasks that wait for a thread, in order. Targets that may answer come before those that do not.
        self._waiting: dict[TargetHealth, dict[Hashable, _TargetQueue]] = {
            TargetHealth.UNKNOWN: {},
            TargetHealth.UNRESPONSIVE: {},
        }
        self._closed = False

    def submit(self, key: Hashable, task: Task, is_urgent: bool = False) -> None:
        """Run a task as soon as its target may use a thread; an urgent one before the others of its target."""
        with self._lock:
            if self._closed:
                return
            queue = self._queue(key)
            if is_urgent:
                queue.tasks.appendleft(task)
            else:
                queue.tasks.append(task)
            if queue.is_healthy and self._clock() - queue.reported_at > FRESH_SECONDS:
                self._set_health(key, queue, TargetHealth.UNKNOWN)
            else:
                self._start_thread(key, queue)

    def report(self, key: Hashable, is_responsive: bool) -> None:
        """Whether the target answered."""
        self._report(key, TargetHealth.HEALTHY if is_responsive else TargetHealth.UNRESPONSIVE)

    def mark_unknown(self, key: Hashable) -> None:
        """The connection to the target broke: the next task is a probe."""
        self._report(key, TargetHealth.UNKNOWN)

    def _report(self, key: Hashable, health: TargetHealth) -> None:
        queue = self._queues.get(key)
        if queue is not None and queue.health is health:
            queue.reported_at = self._clock()
            return  # the usual case, without the lock
        with self._lock:
            queue = self._queue(key)
            queue.reported_at = self._clock()
            if queue.health is not health and not self._closed:
                self._set_health(key, queue, health)

    def close(self) -> None:
        """Wait for the tasks that run, and drop the others."""
        with self._lock:
            self._closed = True
            for waiting in self._waiting.values():
                waiting.clear()
            for queue in self._queues.values():
                queue.tasks.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    # with the lock

    def _queue(self, key: Hashable) -> _TargetQueue:
        queue = self._queues.get(key)
        if queue is None:
            now = self._clock()
            # Targets come and go: a new one is the occasion to drop those that were not used for long.
            old = [k for k, each in self._queues.items() if each.is_idle and now - each.reported_at > FORGET_SECONDS]
            for each in old:
                del self._queues[each]
            queue = self._queues[key] = _TargetQueue(now)
        return queue

    def _set_health(self, key: Hashable, queue: _TargetQueue, health: TargetHealth) -> None:
        self._busy[queue.health] -= queue.busy
        self._busy[health] += queue.busy
        queue.health = health
        for waiting in self._waiting.values():
            waiting.pop(key, None)
        for _ in range(min(len(queue.tasks), self._at_once)):
            self._start_thread(key, queue)
        self._start_waiting()

    def _has_room(self, health: TargetHealth, threads: int = 1) -> bool:
        """Whether so many more threads may work for targets of that health."""
        if health is TargetHealth.HEALTHY:
            return True
        unresponsive = self._busy[TargetHealth.UNRESPONSIVE]
        if health is TargetHealth.UNRESPONSIVE and unresponsive + threads > self._most_unresponsive:
            return False
        return unresponsive + self._busy[TargetHealth.UNKNOWN] + threads <= self._most_not_healthy

    def _start_thread(self, key: Hashable, queue: _TargetQueue) -> None:
        """Give the target one more thread, if it may have one; else it waits for its turn if it is not healthy."""
        if queue.busy >= (self._at_once if queue.is_healthy else 1):
            return
        if not self._has_room(queue.health):
            self._waiting[queue.health].setdefault(key, queue)
            return
        queue.busy += 1
        self._busy[queue.health] += 1
        self._pool.submit(self._work, key, queue)

    def _start_waiting(self) -> None:
        """Give threads to the targets that have waited longest, as far as there is room."""
        for health, waiting in self._waiting.items():
            while waiting and self._has_room(health):
                key = next(iter(waiting))
                self._start_thread(key, waiting.pop(key))

    def _release_thread(self, key: Hashable, queue: _TargetQueue) -> None:
        queue.busy -= 1
        self._busy[queue.health] -= 1
        if queue.tasks and not queue.busy:
            self._waiting[queue.health][key] = queue
        self._start_waiting()

    def _next(self, key: Hashable, queue: _TargetQueue, is_first: bool) -> Task | None:
        """The next task for this thread, or None if it must return to the pool."""
        is_one_too_many = not queue.is_healthy and (queue.busy > 1 or not self._has_room(queue.health, 0))
        gives_way = not queue.is_healthy and not is_first and any(self._waiting.values())
        if queue.tasks and not is_one_too_many and not gives_way:
            return queue.tasks.popleft()
        self._release_thread(key, queue)
        return None

    # in a thread of the pool

    def _work(self, key: Hashable, queue: _TargetQueue) -> None:
        for number in range(TASKS_IN_A_ROW):
            with self._lock:
                task = self._next(key, queue, is_first=number == 0)
            if task is None:
                return
            try:
                task()
            except Exception:  # the next tasks run all the same
                log.exception("a task for %s failed", key)
        with self._lock:
            if not self._closed:
                self._pool.submit(self._work, key, queue)  # behind the others that wait for a thread
