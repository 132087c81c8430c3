"""What ended runs left on their machines: removed after their end is kept here, and not before."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from windlass.core.entities import Run
from windlass.core.errors import WindlassError
from windlass.core.states import Observation, Phase, Reason, end_message
from windlass.drivers.base import Driver, Handle
from windlass.server.execution.tracked_run import handle_of
from windlass.store import Attempt, Store

log = logging.getLogger(__name__)

AT_ONCE = 100
SWEEP_EVERY = 60.0
SWEEP_SOON = 2.0  # after a failure; doubled for each that follows, up to SWEEP_EVERY
Place = tuple[str, str]
Find = Callable[[int, Sequence[Place]], list[tuple[Run, Attempt]]]


class Cleaning:
    """`driver` finds a run's driver. Folders stay for `keep_days`; None leaves them to gc."""

    def __init__(self, store: Store, driver: Callable[[Run], Driver[Any]], keep_days: float | None) -> None:
        self._store = store
        self._driver = driver
        self._keep_days = keep_days
        self._ended: dict[Place, deque[tuple[Run, Handle]]] = {}
        self._cleaned: list[tuple[str, int]] = []  # told to the store now and then: cleaning twice is harmless
        self._telling = threading.Lock()  # targets are cleaned side by side
        self._sweeping = threading.Lock()
        self._due = 0.0  # when to sweep next
        self._failed_sweeps = 0  # in a row
        self._is_behind = False  # something could not be cleaned up
        self._reported: set[str] = set()  # whose end came late, and was told: they may stay uncleaned for long

    def note(self, run: Run, handle: Handle) -> None:
        """A run has ended, and that is committed. How one that was given up ended there is told by the sweep."""
        if self._keep_days == 0 and run.reason is not Reason.GAVE_UP:
            self._ended.setdefault((run.workspace, run.target), deque()).append((run, handle))

    def places(self) -> list[Place]:
        """Workspaces and targets where there is something to be cleaned up."""
        return [place for place, ended in list(self._ended.items()) if ended]

    def clean_ended(self, place: Place) -> None:
        """Clean up after runs that ended a moment ago. Not at their end: who waits for their slot comes first."""
        ended = self._ended[place]
        for _ in range(len(ended)):
            run, handle = ended.popleft()
            self._clean(run, run.attempt, handle)
        self._tell_cleaned()

    def is_due(self, now: float) -> bool:
        """Whether it is time to sweep, by the monotonic clock: soon after a cleanup has failed, for a target that was
        away for a moment must not keep a run's folder for a minute.
        """
        return now >= self._due

    def _tell_cleaned(self) -> int:
        with self._telling:
            cleaned, self._cleaned = self._cleaned, []
        if cleaned:
            self._store.runs.mark_cleaned(cleaned)
        return len(cleaned)

    def sweep(self) -> None:
        """Clean up after runs whose folder was kept for a while, or whose server died before it could."""
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
            soon = SWEEP_SOON * 2.0 ** min(self._failed_sweeps - 1, 10)
            self._due = time.monotonic() + (SWEEP_EVERY if is_done else min(soon, SWEEP_EVERY))
            self._sweeping.release()

    def _for_all(self, find: Find, act: Callable[[Run, Attempt], object]) -> None:
        """The oldest first, until enough are cleaned up. Those that stay may be many: nobody waits behind them."""
        silent: list[Place] = []
        tried: set[tuple[str, int]] = set()
        most, cleaned = AT_ONCE, 0
        while cleaned < AT_ONCE:
            found = find(most, silent)
            new = [(run, attempt) for run, attempt in found if (run.id, attempt.number) not in tried]
            for run, attempt in new:
                self._if_possible(act, run, attempt, silent)
                tried.add((run.id, attempt.number))
            cleaned += self._tell_cleaned()
            if not new and len(found) < most:
                return
            if not new:
                most += AT_ONCE

    def _if_possible(
        self, act: Callable[[Run, Attempt], object], run: Run, attempt: Attempt, silent: list[Place]
    ) -> None:
        place = (run.workspace, run.target)
        if place in silent:
            return
        try:
            act(run, attempt)
        except WindlassError as e:  # it does not answer, or a target that it depends on is gone, or its credentials
            log.warning("target=%s could not be swept yet: run=%s %s", run.target, run.id, e.message)
            silent.append(place)
            self._is_behind = True
        except Exception:  # a bug of ours, or a record that is not understood, keeps this one here, and no other
            log.exception("run=%s could not be swept yet", run.id)
            self._is_behind = True

    def _stop_if_alive(self, run: Run, attempt: Attempt) -> Observation | None:
        """One that was given up may even run on: it must not, however long its folder is kept. None if it did."""
        driver = self._driver(run)
        handle = handle_of(attempt.handle or {}, attempt.nonce)
        [seen] = driver.observe([handle])
        if seen.phase not in (Phase.QUEUED, Phase.RUNNING):
            return seen
        log.warning("run=%s has ended here and runs on there; it is stopped", run.id)
        driver.stop(handle, timedelta(seconds=self._store.runs.spec(run.id).grace_seconds))
        self._is_behind = True
        return None

    def _sweep(self, run: Run, attempt: Attempt) -> None:
        seen = self._stop_if_alive(run, attempt)
        if seen is None:
            return
        if seen.phase is Phase.ENDED and run.reason is Reason.GAVE_UP and run.id not in self._reported:
            word = end_message(seen.reason or Reason.EXIT_UNKNOWN, seen)
            self._store.runs.append_event(run.id, "late_report", f"after it was given up, its machine reported: {word}")
            self._reported.add(run.id)
        self._clean(run, attempt.number, handle_of(attempt.handle or {}, attempt.nonce))

    def _clean(self, run: Run, attempt: int, handle: Handle) -> None:
        """What cannot be cleaned now is swept later."""
        try:
            self._driver(run).clean(handle)
            self._store.logs.drop(run.id, attempt)
            with self._telling:
                self._cleaned.append((run.id, attempt))
        except WindlassError as e:
            log.warning("run=%s could not be cleaned up yet: %s", run.id, e.message)
            self._sweep_soon()
        except Exception:
            log.exception("run=%s could not be cleaned up yet", run.id)
            self._sweep_soon()

    def _sweep_soon(self) -> None:
        self._is_behind = True
        self._due = min(self._due, time.monotonic() + SWEEP_SOON)
