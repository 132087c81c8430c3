"""Removes the folders of attempts that have ended from their machines, after their end is committed."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from windlass.core import backoff
from windlass.core.entities import Run
from windlass.core.errors import WindlassError
from windlass.core.states import Observation, Phase, Reason, end_message
from windlass.drivers.base import Driver, Handle
from windlass.server.execution.tracked_run import TargetKey, handle_of
from windlass.store import Attempt, Store

log = logging.getLogger(__name__)

AT_ONCE = 100
SWEEP_EVERY = 60.0
SWEEP_SOON = 2.0  # after a failure; doubled for each that follows, up to SWEEP_EVERY
Find = Callable[[int, Sequence[TargetKey]], list[tuple[Run, Attempt]]]


class FolderCleanup:
    """`driver` returns the driver of a run's target. Folders stay for `keep_days`; None leaves them to `gc`."""

    def __init__(self, store: Store, driver: Callable[[Run], Driver[Any]], keep_days: float | None) -> None:
        self._store = store
        self._driver = driver
        self._keep_days = keep_days
        self._ended: dict[TargetKey, deque[tuple[Run, Handle]]] = {}
        self._cleaned: list[tuple[str, int]] = []  # stored in batches: cleaning twice is harmless
        self._cleaned_lock = threading.Lock()  # targets are cleaned side by side
        self._sweeping = threading.Lock()
        self._due = 0.0  # when to sweep next
        self._failed_sweeps = 0  # in a row
        self._is_behind = False  # something could not be removed
        self._reported: set[str] = set()  # runs whose late end is in their events: their folders may stay for long

    def add(self, run: Run, handle: Handle) -> None:
        """The end of a run, or of an attempt of it, is committed; `run` is as it was in that attempt. A run that was
        given up is left to the sweep, which reports its late end.
        """
        if self._keep_days == 0 and run.reason is not Reason.GAVE_UP:
            self._ended.setdefault((run.workspace, run.target), deque()).append((run, handle))

    def targets(self) -> list[TargetKey]:
        """Targets with folders to be removed."""
        return [target for target, ended in list(self._ended.items()) if ended]

    def clean_ended(self, target: TargetKey) -> None:
        """Remove the folders of runs that just ended. Not at their end: the start of the next run comes first."""
        ended = self._ended[target]
        for _ in range(len(ended)):
            run, handle = ended.popleft()
            self._clean(run, run.attempt, handle)
        self._mark_cleaned()

    def is_due(self, now: float) -> bool:
        """Whether it is time to sweep, by the monotonic clock: soon after a cleanup has failed, so that a short outage
        does not delay it by a minute.
        """
        return now >= self._due

    def _mark_cleaned(self) -> int:
        with self._cleaned_lock:
            cleaned, self._cleaned = self._cleaned, []
        if cleaned:
            self._store.runs.mark_cleaned(cleaned)
        return len(cleaned)

    def sweep(self) -> None:
        """Remove folders that were kept for a while, or that a killed server has left."""
        if not self._sweeping.acquire(blocking=False):
            return
        is_done = self._is_behind = False
        try:
            self._for_all(self._store.runs.given_up, self._stop_if_alive)
            if self._keep_days is not None:
                before = datetime.now(UTC) - timedelta(days=self._keep_days)
                self._for_all(partial(self._store.runs.uncleaned, before), self._sweep)
            is_done = not self._is_behind
        finally:
            self._failed_sweeps = 0 if is_done else self._failed_sweeps + 1
            soon = backoff.delay(self._failed_sweeps, SWEEP_SOON, SWEEP_EVERY)
            self._due = time.monotonic() + (SWEEP_EVERY if is_done else soon)
            self._sweeping.release()

    def _for_all(self, find: Find, act: Callable[[Run, Attempt], object]) -> None:
        """The oldest first, until enough are removed. Runs whose folder cannot be removed do not block the others."""
        unreachable: list[TargetKey] = []
        tried: set[tuple[str, int]] = set()
        most, cleaned = AT_ONCE, 0
        while cleaned < AT_ONCE:
            found = find(most, unreachable)
            new = [(run, attempt) for run, attempt in found if (run.id, attempt.number) not in tried]
            for run, attempt in new:
                self._if_possible(act, run, attempt, unreachable)
                tried.add((run.id, attempt.number))
            cleaned += self._mark_cleaned()
            if not new and len(found) < most:
                return
            if not new:
                most += AT_ONCE

    def _if_possible(
        self, act: Callable[[Run, Attempt], object], run: Run, attempt: Attempt, unreachable: list[TargetKey]
    ) -> None:
        target = (run.workspace, run.target)
        if target in unreachable:
            return
        try:
            act(run, attempt)
        except WindlassError as e:  # it does not answer, or a target that it depends on is gone, or its credentials
            log.warning("target=%s cleanup failed, retry later: run=%s %s", run.target, run.id, e.message)
            unreachable.append(target)
            self._is_behind = True
        except Exception:  # a bug, or a record that is not understood: the other runs are cleaned up all the same
            log.exception("run=%s cleanup failed, retry later", run.id)
            self._is_behind = True

    def _stop_if_alive(self, run: Run, attempt: Attempt) -> Observation | None:
        """Stop a job that is still running although its attempt has ended. Returns None if it was running, else what
        was observed.
        """
        driver = self._driver(run)
        handle = handle_of(attempt.handle or {}, attempt.nonce)
        [seen] = driver.observe([handle])
        if seen.phase not in (Phase.QUEUED, Phase.RUNNING):
            return seen
        log.warning("run=%s attempt=%d has ended, but its job still runs; stop it", run.id, attempt.number)
        driver.stop(handle, timedelta(seconds=self._store.runs.spec(run.id).grace_seconds))
        self._is_behind = True
        return None

    def _sweep(self, run: Run, attempt: Attempt) -> None:
        seen = self._stop_if_alive(run, attempt)
        if seen is None:
            return
        if seen.phase is Phase.ENDED and attempt.reason is Reason.GAVE_UP and run.id not in self._reported:
            how = end_message(seen.reason or Reason.EXIT_UNKNOWN, seen)
            self._store.runs.append_event(run.id, "late_report", f"after it was given up, its machine reported: {how}")
            self._reported.add(run.id)
        self._clean(run, attempt.number, handle_of(attempt.handle or {}, attempt.nonce))

    def _clean(self, run: Run, attempt: int, handle: Handle) -> None:
        """What fails is retried by the sweep."""
        try:
            self._driver(run).clean(handle)
            self._store.logs.drop(run.id, attempt)
            with self._cleaned_lock:
                self._cleaned.append((run.id, attempt))
        except WindlassError as e:
            log.warning("run=%s cleanup failed, retry later: %s", run.id, e.message)
            self._sweep_soon()
        except Exception:
            log.exception("run=%s cleanup failed, retry later", run.id)
            self._sweep_soon()

    def _sweep_soon(self) -> None:
        self._is_behind = True
        self._due = min(self._due, time.monotonic() + SWEEP_SOON)
