"""Runs the controller for tracked runs on a thread pool: at most one thread per run, and a bounded number per target
(target_executor.py).

Events come from routes and targets, in any thread. What is done about a run is in run_controller.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from windlass.core.errors import StorageFull, TargetUnreachable, WindlassError
from windlass.core.states import Observation, Phase, RunState
from windlass.drivers.base import Event, FileGrew, JobChanged
from windlass.server.clusters.capacity import Capacities
from windlass.server.clusters.computer import this_computer
from windlass.server.execution.driver_cache import DriverCache
from windlass.server.execution.folder_cleanup import FolderCleanup
from windlass.server.execution.ingest import RunIngest
from windlass.server.execution.job_builder import JobBuilder
from windlass.server.execution.prefetch import Prefetcher
from windlass.server.execution.run_controller import STOP_AGAIN, RunController
from windlass.server.execution.target_executor import TargetExecutor
from windlass.server.execution.tracked_run import RowChanged, TargetKey, TrackedRun, TrackedRuns
from windlass.server.settings import Settings
from windlass.server.streaming.event_bus import EventBus
from windlass.store import Leased, Store

log = logging.getLogger(__name__)
T = TypeVar("T")

THREADS = 64  # started when they are needed
THREADS_PER_TARGET = 8
BACKGROUND_THREADS_PER_TARGET = 3
STOP_SECONDS = 5.0
# First parts of keys.
_MAINTENANCE = "maintenance"
_OBSERVE = "observe"
_CLEANUP = "cleanup"


class Dispatcher:
    """Implements the Scheduler that the controller depends on."""

    def __init__(self, store: Store, event_bus: EventBus, jobs: JobBuilder, owner: str, settings: Settings) -> None:
        self.tracked = TrackedRuns()
        self.capacity_of = Capacities(this_computer(settings))
        self.drivers = DriverCache(store, jobs, self.on_event, self._set_health)
        self.prefetcher = Prefetcher(store, jobs, self.drivers)
        self.cleanup = FolderCleanup(store, self.drivers.driver, settings.keep_run_folders_days)
        self._connections = jobs.connections
        self._event_bus = event_bus
        self._is_shared = store.is_shared
        self._controller = RunController(
            store,
            event_bus,
            jobs,
            self.drivers,
            self.tracked,
            self.prefetcher,
            RunIngest.for_settings(store, event_bus, settings),
            self.cleanup,
            self,
            owner,
            self.capacity_of,
            settings,
        )
        self._executor = TargetExecutor("reconcile", THREADS, THREADS_PER_TARGET)
        self._background = TargetExecutor("background", THREADS, BACKGROUND_THREADS_PER_TARGET)
        self._stopping = threading.Event()
        self._due: dict[str, float] = {}  # runs to wake, by the monotonic clock
        self._under_way: set[Hashable] = set()  # keys of _run_once

    def stop(self) -> None:
        """Wait for the tasks that run. After a few seconds all connections are closed, so that calls to targets that
        hang return.
        """
        self._stopping.set()
        self._controller.stop()
        impatience = threading.Timer(STOP_SECONDS, self._connections.close)
        impatience.start()
        for executor in (self._executor, self._background):
            executor.close()  # no thread may use the store after it was closed
        impatience.cancel()

    def dispatch(self, leased: Leased) -> None:
        """Start a run that was just committed with our lease on it. Returns at once."""
        self.tracked.track(leased, may_be_on_target=False)
        self.wake(leased.run.id)

    def take_over(self, leased: Leased) -> None:
        """Go on with a run that another server may have started. It is woken by the next round of the loop."""
        self.tracked.track(leased, may_be_on_target=True)

    def on_row_changed(self, run_id: str) -> None:
        """The run's row was changed, such as by a cancel: have it reloaded."""
        tracked = self.tracked.get(run_id)
        if tracked is not None:
            tracked.inbox.put(RowChanged())
            self.wake(run_id)

    # the scheduler of the controller

    def wake(self, run_id: str) -> None:
        """Have the run reconciled by a free thread, or once more by the one that does so now."""
        tracked = self.tracked.get(run_id)
        if tracked is not None and self.tracked.acquire(run_id):
            is_urgent = self.prefetcher.is_ready(run_id)
            self._executor.submit(tracked.target, partial(self._reconcile, run_id), is_urgent)

    def wake_after(self, run_id: str, seconds: float) -> None:
        """Have the run reconciled by a round of the loop after that time, or sooner if that was asked for."""
        due = time.monotonic() + seconds
        self._due[run_id] = min(due, self._due.get(run_id, due))

    def run_in_background(self, target: TargetKey, act: Callable[[], None]) -> None:
        """Run something that may take long, by threads that start no runs. An error is logged."""
        self._background.submit(target, partial(_log_errors, act))

    # for the loop

    def wake_expired(self, now: float) -> None:
        for run_id in [run_id for run_id, due in list(self._due.items()) if due <= now]:
            self._due.pop(run_id, None)
            self.wake(run_id)

    def run_maintenance(self, act: Callable[[], object], key: Hashable = None) -> None:
        """Run a periodic task in a thread of its own: the loop renews leases and must not wait. Skipped if the last
        one, of the same `key` if there is one, still runs.
        """
        self._run_once((_MAINTENANCE, key or act), act)

    def clean_up(self) -> None:
        """Remove the folders of runs that just ended, each target by itself."""
        for target in self.cleanup.targets():
            self._run_once((_CLEANUP, *target), partial(self.cleanup.clean_ended, target))

    def prefetch(self, workspace: str, target: str) -> None:
        """Pre-stage the next queued runs of a target."""
        self.run_in_background((workspace, target), partial(self.prefetcher.prefetch, workspace, target))

    def observe_target(self, runs: list[TrackedRun]) -> None:
        """Observe all runs of one target by one request; those that changed are then reconciled."""
        target = runs[0].target
        self._run_once((_OBSERVE, *target), partial(self._observe_target, runs), queue=target)

    # for the routes

    def run_with_timeout(self, seconds: float, target: TargetKey, act: Callable[[], T]) -> T:
        """Call a target for a request that does not wait longer than that."""
        done: Future[T] = Future()
        self._executor.submit(target, lambda: self._complete(done, target, act))
        try:
            return done.result(seconds)
        except TimeoutError:
            done.cancel()  # if it has not begun, it is dropped: the next request must not wait behind it
            raise TargetUnreachable(
                f"{target[1]} has not answered within {seconds:g} s; it is still being tried.", "Ask again in a moment."
            ) from None

    def pull(self, tracked: TrackedRun) -> None:
        """Store the metrics and calls that a live run has written so far, in this thread."""
        self._controller.pull(tracked)

    # events and health

    def on_event(self, native_id: str, event: Event) -> None:
        """An event that a target pushed, in any thread."""
        tracked = self.tracked.find(native_id)
        if tracked is None:
            return
        tracked.inbox.put(event)
        if self._stopping.is_set():
            return
        run_id = tracked.run.id
        if isinstance(event, JobChanged) and event.observation is None:  # sent for all jobs when a connection broke
            for executor, key in self._queues(tracked.target):
                executor.mark_unknown(key)
        # The last lines of a log come with the end of the run: reading them before is a request for no reader.
        if isinstance(event, FileGrew) and not self._is_shared and not self._event_bus.has_subscribers(run_id):
            self.wake_after(run_id, 0.0)
        else:
            self.wake(run_id)

    def _set_health(self, target: TargetKey, error: WindlassError | None) -> None:
        is_responsive = not isinstance(error, TargetUnreachable)
        for executor, key in self._queues(target):
            executor.report(key, is_responsive)

    def _queues(self, target: TargetKey) -> list[tuple[TargetExecutor, Hashable]]:
        """All queues with tasks that call a target."""
        return [(self._executor, target), (self._executor, (_CLEANUP, *target)), (self._background, target)]

    # in a thread of the pool

    def _reconcile(self, run_id: str) -> None:
        """Make passes over a run that is acquired, until no more events have arrived."""
        while True:
            tracked = self.tracked.get(run_id)
            if tracked is not None and not tracked.is_finishing:
                try:
                    self._controller.reconcile(tracked)
                except Exception:  # a bug, or the database is away
                    log.exception("run=%s reconcile failed, retry in %g s", run_id, STOP_AGAIN)
                    tracked.inbox.put(JobChanged())
                    tracked.inbox.put(RowChanged())
                    self.wake_after(run_id, STOP_AGAIN)
            if self.tracked.release(run_id):
                return

    def _run_once(self, key: Hashable, act: Callable[[], object], queue: Hashable = None) -> None:
        """Run `act` in the background unless the same `key` is already running. Skipped runs are not caught up."""
        if key not in self._under_way:
            self._under_way.add(key)
            self._executor.submit(queue or key, partial(self._run_and_forget, key, act))

    def _run_and_forget(self, key: Hashable, act: Callable[[], object]) -> None:
        try:
            _log_errors(act)
        finally:
            self._under_way.discard(key)

    def _complete(self, done: Future[T], target: TargetKey, act: Callable[[], T]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            found = act()
            self.drivers.report_contact(target, None)
            done.set_result(found)
        except BaseException as e:
            try:
                if isinstance(e, WindlassError):
                    self.drivers.report_contact(target, e)
            finally:
                done.set_exception(e)

    def _observe_target(self, runs: list[TrackedRun]) -> None:
        asked = [(tracked, tracked.handle) for tracked in runs if tracked.handle is not None]
        target = runs[0].target
        try:
            driver = self.drivers.watched_driver_of(runs[0].run)
            answers: Sequence[Observation | None] = driver.observe([handle for _, handle in asked])
            self.drivers.report_contact(target, None)
        except WindlassError as e:
            log.warning("target=%s observe failed: %s", target[1], e.message)
            self.drivers.report_contact(target, e)
            answers = [None] * len(asked)  # each run's pass observes again, and decides what the silence means
        except Exception:
            log.exception("target=%s observe failed", target[1])
            return
        for (tracked, handle), seen in zip(asked, answers, strict=True):
            if seen is not None and seen.phase is Phase.ENDED:
                # Not asked again: the target may be away by then.
                self.on_event(handle.native_id, JobChanged(seen))
                continue
            if seen is not None and seen.phase is Phase.RUNNING and tracked.run.state is RunState.RUNNING:
                tracked.last_contact = time.monotonic()
                if not tracked.run.is_stopping and seen.message == tracked.run.message:
                    continue
            tracked.inbox.put(JobChanged())
            self.wake(tracked.run.id)


def _log_errors(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception as e:
        is_surprise = not isinstance(e, StorageFull)
        log.error("a background task failed, retry later: %s", e, exc_info=is_surprise)
