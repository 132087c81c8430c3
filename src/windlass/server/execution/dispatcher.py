"""Who works when: runs are brought up to date by a few threads, each run by one at a time, each target in its lane.

News come from routes and targets, in any thread. What is done about a run is in steps.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from windlass.core.errors import StorageFull, TargetUnreachable, WindlassError
from windlass.core.states import Intent, Observation, Phase, RunState
from windlass.drivers.base import Driver, Event, FileGrew, Handle, JobChanged, Watcher
from windlass.server.execution.driver_cache import Reach
from windlass.server.execution.folder_cleanup import Cleaning
from windlass.server.execution.ingest import Source
from windlass.server.execution.job_builder import Jobs
from windlass.server.execution.prefetch import Ahead
from windlass.server.execution.run_controller import STOP_AGAIN, Steps
from windlass.server.execution.target_executor import Lanes
from windlass.server.execution.tracked_run import Tracked, Tracking, handle_of
from windlass.server.hub import Hub
from windlass.server.settings import Settings
from windlass.store import Leased, Store

log = logging.getLogger(__name__)
T = TypeVar("T")

THREADS = 64  # made when they are needed
WORKERS = 8  # of one target
COLLECTORS = 3
STOP_SECONDS = 5.0
_ASIDE = "aside"
_ASK = "ask"
_CLEAN = "clean"


class Workers:
    def __init__(self, store: Store, hub: Hub, jobs: Jobs, owner: str, settings: Settings) -> None:
        self.tracking = Tracking()
        self.reach = Reach(store, jobs)
        self.ahead = Ahead(store, jobs, self.reach)
        self.cleaning = Cleaning(store, self.reach.driver_of, settings.keep_run_folders_days)
        self._jobs = jobs
        self._hub = hub
        self._is_shared = store.is_shared
        self._steps = Steps(self, store, hub, jobs, owner, settings)
        self._workers = Lanes("reconcile", THREADS, WORKERS)
        self._collectors = Lanes("collect", THREADS, COLLECTORS)
        self._stopping = threading.Event()
        self._later: dict[str, float] = {}
        self._long_lists: dict[tuple[str, str], threading.Lock] = {}
        self._under_way: set[Hashable] = set()  # of what is done once at a time

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """Let what is under way come to its end, for a moment: whoever waits for a target that hangs is let down."""
        self._stopping.set()
        impatience = threading.Timer(STOP_SECONDS, self._jobs.connections.close)
        impatience.start()
        for lanes in (self._workers, self._collectors):
            lanes.close()  # nobody may use the store after it was closed
        impatience.cancel()

    def track(self, leased: Leased, is_adopted: bool) -> None:
        """Hold a run from now on. An adopted one may have been sent by another server already."""
        handle = handle_of(leased.handle, leased.nonce) if leased.handle else None
        tracked = Tracked(leased.run, leased.spec, leased.fence, leased.nonce, handle, is_adopted, handle is not None)
        tracked.is_changed = is_adopted
        self.tracking.add(tracked)

    def dispatch(self, leased: Leased) -> None:
        """Start a run that was just committed with our lease on it. Returns at once."""
        self.track(leased, is_adopted=False)
        self.wake(leased.run.id)

    def wake(self, run_id: str) -> None:
        """Have the run brought up to date, by whoever holds it or by a free worker."""
        tracked = self.tracking.get(run_id)
        if tracked is not None and self.tracking.hold(run_id):
            self._workers.submit(tracked.place, lambda: self.work(run_id))

    def later(self, run_id: str, seconds: float) -> None:
        """Have the run brought up to date in a round of the loop after that time, or sooner if that was asked for."""
        due = time.monotonic() + seconds
        self._later[run_id] = min(due, self._later.get(run_id, due))

    def wake_due(self, now: float) -> None:
        for run_id in [run_id for run_id, due in list(self._later.items()) if due <= now]:
            self._later.pop(run_id, None)
            self.wake(run_id)

    def pull(self, tracked: Tracked) -> None:
        """Bring what a live run wrote up to date, at once."""
        self._steps.pull(tracked)

    def aside(self, act: Callable[[], None]) -> None:
        """Have something done that will be done again later. Not by the loop, which renews leases and must not wait."""
        self._aside((_ASIDE, act), act)

    def clean_up(self) -> None:
        """Clean up after runs that ended a moment ago, on each target by itself."""
        for place in self.cleaning.places():
            self._aside((_CLEAN, *place), partial(self.cleaning.clean_ended, place))

    def _aside(self, key: Hashable, act: Callable[[], None], lane: Hashable = None) -> None:
        """Not twice at a time: if it takes long, it is not made up for. In a lane of its own, unless one is named."""
        if key not in self._under_way:
            self._under_way.add(key)
            self._workers.submit(lane or key, lambda: self._do_aside(key, act))

    def _do_aside(self, key: Hashable, act: Callable[[], None]) -> None:
        try:
            _do(act)
        finally:
            self._under_way.discard(key)

    def look_ahead(self, workspace: str, target: str) -> None:
        """Have those made ready who wait for a target. By another pool: that may take long, and nobody waits for it."""
        self._collectors.submit((workspace, target), lambda: _do(partial(self.ahead.look, workspace, target)))

    def within(self, seconds: float, place: tuple[str, str], act: Callable[[], T]) -> T:
        """Have something done by who works for a target, for somebody who does not wait longer than that."""
        done: Future[T] = Future()
        self._workers.submit(place, lambda: self._fulfil(done, place, act))
        try:
            return done.result(seconds)
        except TimeoutError:
            done.cancel()  # if it has not begun, nobody wants it any more: who asks again must not wait behind it
            raise TargetUnreachable(
                f"{place[1]} has not answered within {seconds:g} s; it is still being tried.", "Ask again in a moment."
            ) from None

    @contextmanager
    def long_list(self, tracked: Tracked) -> Iterator[None]:
        """A run of a target whose list of files is long is collected while no other such run of it is."""
        with self._long_lists.setdefault(tracked.place, threading.Lock()):
            yield

    def collect(self, tracked: Tracked, act: Callable[[], None]) -> None:
        """Have large outputs brought home by another pool, so that nobody waits for them to be started."""
        self._collectors.submit(tracked.place, act)

    def ask(self, there: list[Tracked]) -> None:
        """Ask a target about all its runs at once; those whose answer is news are then brought up to date."""
        place = there[0].place
        self._aside((_ASK, *place), partial(self._ask, there), lane=place)

    def work(self, run_id: str) -> None:
        """Bring a run that is held up to date, until there is no more news of it."""
        while True:
            tracked = self.tracking.get(run_id)
            if tracked is not None and not tracked.is_finishing:
                try:
                    self._steps.bring_up_to_date(tracked)
                except Exception:  # whatever it is, the run is held again later
                    log.exception("run=%s could not be put off", run_id)
                    tracked.is_changed = tracked.is_stale = True
                    self.later(run_id, STOP_AGAIN)
            if not self.tracking.let_go(run_id):
                return

    # targets

    def driver(self, tracked: Tracked) -> Driver[Any]:
        driver = self.reach.driver_of(tracked.run)
        if isinstance(driver, Watcher):
            driver.watch(self.hear)
        return driver

    def source(self, tracked: Tracked, handle: Handle) -> Source:
        run = tracked.run
        masker = self._jobs.grants.masker(run)
        keeps_outputs = tracked.spec.output_collection
        watch = tracked.spec.directories_to_watch if keeps_outputs else ()
        driver = self.driver(tracked)
        return Source(driver, handle, run.id, run.attempt, watch, masker, keeps_outputs, tracked.budget)

    def hear(self, native_id: str, event: Event) -> None:
        run_id = self.tracking.hear(native_id, event)
        if run_id is None or self._stopping.is_set():
            return
        if (
            isinstance(event, JobChanged) and event.observation is None
        ):  # as for all of its jobs at once when a line broke
            self._doubt(run_id)
        # What a run wrote last comes with its end: reading it before costs a request that no stream waits for.
        if isinstance(event, FileGrew) and not self._is_shared and not self._hub.is_followed(run_id):
            self.later(run_id, 0.0)
        else:
            self.wake(run_id)

    def note_answer(self, tracked: Tracked, trouble: WindlassError | None) -> None:
        """Whether a target answers: as long as it does not, few may wait for it."""
        self._note(tracked.place, trouble)

    def _note(self, place: tuple[str, str], trouble: WindlassError | None) -> None:
        is_slow = isinstance(trouble, TargetUnreachable)
        self._workers.tell(place, is_slow)
        self._workers.tell((_CLEAN, *place), is_slow)
        self._collectors.tell(place, is_slow)
        if trouble is not None:
            self.reach.note_trouble(*place, trouble)

    def _doubt(self, run_id: str) -> None:
        """Nobody knows whether its target answers: one goes and looks, and the others follow."""
        tracked = self.tracking.get(run_id)
        if tracked is not None:
            self._workers.doubt(tracked.place)
            self._workers.doubt((_CLEAN, *tracked.place))
            self._collectors.doubt(tracked.place)

    def _fulfil(self, done: Future[T], place: tuple[str, str], act: Callable[[], T]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            found = act()
            self._note(place, None)
            done.set_result(found)
        except BaseException as e:
            try:
                if isinstance(e, WindlassError):
                    self._note(place, e)
            finally:
                done.set_exception(e)

    def _ask(self, there: list[Tracked]) -> None:
        asked = [(tracked, tracked.handle) for tracked in there if tracked.handle is not None]
        try:
            answers: Sequence[Observation | None] = self.driver(there[0]).observe([handle for _, handle in asked])
            self.note_answer(there[0], None)
        except WindlassError as e:
            log.warning("target=%s could not be asked: %s", there[0].run.target, e.message)
            self.note_answer(there[0], e)
            answers = [None] * len(asked)  # each run's worker asks again, and decides about the silence
        except Exception:
            log.exception("target=%s could not be asked", there[0].run.target)
            return
        for (tracked, handle), seen in zip(asked, answers, strict=True):
            if seen is not None and seen.phase is Phase.ENDED:
                # Taken at its word: when it is asked again, the target may be away.
                self.hear(handle.native_id, JobChanged(seen))
                continue
            if seen is not None and seen.phase is Phase.RUNNING and tracked.run.state is RunState.RUNNING:
                tracked.heard = time.monotonic()
                if tracked.run.intent is Intent.RUN and seen.message == tracked.run.message:
                    continue
            tracked.is_changed = True
            self.wake(tracked.run.id)


def _do(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception as e:
        is_surprise = not isinstance(e, StorageFull)
        log.error("a task aside failed; it is done again later: %s", e, exc_info=is_surprise)
