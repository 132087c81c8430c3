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
from windlass.store import Store, UncleanedAttempt

log = logging.getLogger(__name__)

AT_ONCE = 100
SWEEP_EVERY = 60.0
SWEEP_SOON = 2.0  # after a failure; doubled for each that follows, up to SWEEP_EVERY
GRACE = timedelta(seconds=30)  # for processes of deleted runs
Find = Callable[[int, Sequence[TargetKey]], list[UncleanedAttempt]]


class FolderCleanup:
    """`driver` returns the driver of a target, by workspace and name. Folders stay for `keep_days`; None leaves them to
    `gc`. Those of deleted runs are removed at once.
    """

    def __init__(self, store: Store, driver: Callable[[str, str], Driver[Any]], keep_days: float | None) -> None:
        self._store = store
        self._driver = driver
        self._keep_days = keep_days
        self._ended: dict[TargetKey, deque[tuple[Run, Handle]]] = {}
        self._cleaned: list[tuple[str, int, str]] = []  # stored in batches: cleaning twice is harmless
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
            self._clean(target, run.id, run.attempt, handle)
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
            self._for_all(self._store.runs.uncleaned_of_deleted, self._sweep_deleted)
            if self._keep_days is not None:
                before = datetime.now(UTC) - timedelta(days=self._keep_days)
                self._for_all(partial(self._store.runs.uncleaned, before), self._sweep)
            is_done = not self._is_behind
        finally:
            self._failed_sweeps = 0 if is_done else self._failed_sweeps + 1
            soon = backoff.delay(self._failed_sweeps, SWEEP_SOON, SWEEP_EVERY)
            self._due = time.monotonic() + (SWEEP_EVERY if is_done else soon)
            self._sweeping.release()

    def _for_all(self, find: Find, act: Callable[[UncleanedAttempt], object]) -> None:
        """The oldest first, until enough are removed. Runs whose folder cannot be removed do not block the others."""
        unreachable: list[TargetKey] = []
        tried: set[tuple[str, int, str]] = set()
        most, cleaned = AT_ONCE, 0
        while cleaned < AT_ONCE:
            found = find(most, unreachable)
            new = [attempt for attempt in found if attempt.key not in tried]
            for attempt in new:
                self._if_possible(act, attempt, unreachable)
                tried.add(attempt.key)
            cleaned += self._mark_cleaned()
            if not new and len(found) < most:
                return
            if not new:
                most += AT_ONCE

    def _if_possible(
        self, act: Callable[[UncleanedAttempt], object], attempt: UncleanedAttempt, unreachable: list[TargetKey]
    ) -> None:
        target = (attempt.workspace, attempt.target)
        if target in unreachable:
            return
        try:
            act(attempt)
        except WindlassError as e:  # it does not answer, or a target that it depends on is gone, or its credentials
            log.warning("target=%s cleanup failed, retry later: run=%s %s", attempt.target, attempt.run, e.message)
            unreachable.append(target)
            self._is_behind = True
        except Exception:  # a bug, or a record that is not understood: the other runs are cleaned up all the same
            log.exception("run=%s cleanup failed, retry later", attempt.run)
            self._is_behind = True

    def _stop_if_alive(self, attempt: UncleanedAttempt, grace: timedelta | None = None) -> Observation | None:
        """Stop a job that is still running although its attempt has ended. Returns None if it was running, else what
        was observed. `grace` is by default the run's.
        """
        driver = self._driver(attempt.workspace, attempt.target)
        handle = handle_of(attempt.handle, attempt.nonce)
        [seen] = driver.observe([handle])
        if seen.phase not in (Phase.QUEUED, Phase.RUNNING):
            return seen
        log.warning("run=%s attempt=%d has ended, but its job still runs; stop it", attempt.run, attempt.number)
        driver.stop(handle, grace or timedelta(seconds=self._store.runs.spec(attempt.run).grace_seconds))
        self._is_behind = True
        return None

    def _sweep(self, attempt: UncleanedAttempt) -> None:
        seen = self._stop_if_alive(attempt)
        if seen is None:
            return
        if seen.phase is Phase.ENDED and attempt.reason is Reason.GAVE_UP and attempt.run not in self._reported:
            how = end_message(seen.reason or Reason.EXIT_UNKNOWN, seen)
            self._store.runs.append_event(
                attempt.run, "late_report", f"after it was given up, its machine reported: {how}"
            )
            self._reported.add(attempt.run)
        self._clean_left(attempt)

    def _sweep_deleted(self, attempt: UncleanedAttempt) -> None:
        if self._stop_if_alive(attempt, GRACE) is not None:
            self._clean_left(attempt, has_logs=False)  # those that are there belong to a new run with that id

    def _clean_left(self, attempt: UncleanedAttempt, has_logs: bool = True) -> None:
        handle = handle_of(attempt.handle, attempt.nonce)
        self._clean((attempt.workspace, attempt.target), attempt.run, attempt.number, handle, has_logs)

    def _clean(self, target: TargetKey, run: str, attempt: int, handle: Handle, has_logs: bool = True) -> None:
        """What fails is retried by the sweep."""
        try:
            self._driver(*target).clean(handle)
            if has_logs:
                self._store.logs.drop(run, attempt)
            with self._cleaned_lock:
                self._cleaned.append((run, attempt, handle.nonce))
        except WindlassError as e:
            log.warning("run=%s cleanup failed, retry later: %s", run, e.message)
            self._sweep_soon()
        except Exception:
            log.exception("run=%s cleanup failed, retry later", run)
            self._sweep_soon()

    def on_deleted(self) -> None:
        """Runs were deleted: sweep soon."""
        self._due = min(self._due, time.monotonic())

    def _sweep_soon(self) -> None:
        self._is_behind = True
        self._due = min(self._due, time.monotonic() + SWEEP_SOON)
