"""Brings one run at a time up to date: start it, follow it, see its end, keep its record.

News come from routes and targets, in any thread; a run is held by one worker at a time. What was done is in the store
or on the target, never only here, so that this process may be killed between any two lines.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from windlass.core.errors import Conflict, StorageFull, WindlassError
from windlass.core.states import (
    FINAL,
    Intent,
    Observation,
    Patience,
    Phase,
    Reason,
    RunState,
    Step,
    decide,
)
from windlass.drivers.base import Driver, Event, Handle, Watcher
from windlass.failpoints import reach
from windlass.server.ahead import Ahead
from windlass.server.cleaning import Cleaning
from windlass.server.endings import ending, is_much
from windlass.server.hub import Hub
from windlass.server.intake import Intake, Source
from windlass.server.jobs import Jobs
from windlass.server.reach import Reach
from windlass.server.settings import Settings
from windlass.server.tracking import Tracked, Tracking, row_of
from windlass.store import Leased, Store

log = logging.getLogger(__name__)

WORKERS = 8
COLLECTORS = 3
STOP_AGAIN = 10.0
STOP_SECONDS = 5.0


class Workers:
    def __init__(self, store: Store, hub: Hub, jobs: Jobs, owner: str, settings: Settings) -> None:
        self.tracking = Tracking()
        self._store = store
        self._hub = hub
        self._jobs = jobs
        self._owner = owner
        self._lease_seconds = settings.lease_seconds
        self._intake = Intake(store, hub, settings.log_cap_bytes)
        self._patience = Patience(give_up_after=timedelta(hours=settings.give_up_hours))
        self._workers = ThreadPoolExecutor(WORKERS, "reconcile")
        self._collectors = ThreadPoolExecutor(COLLECTORS, "collect")
        self._stopping = threading.Event()
        self._later: dict[str, float] = {}
        self.reach = Reach(store, jobs)
        self.ahead = Ahead(store, jobs, self.reach)
        self.cleaning = Cleaning(store, self.reach.driver_of, settings.keep_run_folders_days)

    def stop(self) -> None:
        """Let what is under way come to its end, for a moment: whoever waits for a target that hangs is let down."""
        self._stopping.set()
        impatience = threading.Timer(STOP_SECONDS, self._jobs.links.close)
        impatience.start()
        for pool in (self._workers, self._collectors):
            pool.shutdown(wait=True, cancel_futures=True)  # nobody may use the store after it was closed
        impatience.cancel()

    def track(self, leased: Leased, is_adopted: bool) -> None:
        """Hold a run from now on. An adopted one may have been sent by another server already."""
        handle = Handle(**leased.handle) if leased.handle else None
        tracked = Tracked(leased.run, leased.spec, leased.fence, leased.nonce, handle, is_adopted, handle is not None)
        tracked.is_changed = is_adopted
        self.tracking.add(tracked)

    def dispatch(self, leased: Leased) -> None:
        """Start a run that was just committed with our lease on it. Returns at once."""
        self.track(leased, is_adopted=False)
        self.wake(leased.run.id)

    def wake(self, run_id: str) -> None:
        """Have the run brought up to date, by whoever holds it or by a free worker."""
        if self.tracking.hold(run_id):
            self._workers.submit(self._work, run_id)

    def wake_due(self, now: float) -> None:
        for run_id in [run_id for run_id, due in list(self._later.items()) if due <= now]:
            self._later.pop(run_id, None)
            self.wake(run_id)

    def pull(self, tracked: Tracked) -> None:
        """Bring what a live run wrote up to date, at once."""
        if tracked.handle is not None and not tracked.is_finishing:
            self._intake.pull_all(self._source(tracked, tracked.handle))

    def aside(self, act: Callable[[], None]) -> None:
        """Have something done that will be done again later. Not by the loop, which renews leases and must not wait."""
        self._workers.submit(self._aside, act)

    def look_ahead(self, workspace: str, target: str) -> None:
        """Have those made ready who wait for a target. By another pool: that may take long, and nobody waits for it."""
        self._collectors.submit(self._aside, lambda: self.ahead.look(workspace, target))

    def _aside(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as e:
            is_surprise = not isinstance(e, StorageFull)
            log.error("a task aside failed; it is done again later: %s", e, exc_info=is_surprise)

    def ask(self, there: list[Tracked]) -> None:
        """Ask a target about all its runs at once; those whose answer is news are then brought up to date."""
        self._workers.submit(self._ask, there)

    # one run, one worker

    def _work(self, run_id: str) -> None:
        while True:
            tracked = self.tracking.get(run_id)
            if tracked is not None and not tracked.is_finishing:
                try:
                    self._bring_up_to_date(tracked)
                except Exception:  # whatever it is, the run is held again later
                    log.exception("run=%s could not be put off", run_id)
                    tracked.is_changed = tracked.is_stale = True
                    self._later[run_id] = time.monotonic() + STOP_AGAIN
            if not self.tracking.let_go(run_id):
                return

    def _bring_up_to_date(self, tracked: Tracked) -> None:
        try:
            if tracked.handle is None:
                self._start(tracked)
            else:
                self._follow(tracked, tracked.handle)
            tracked.tries = 0
        except Conflict as e:
            log.warning("run=%s is not ours any more, or moved on: %s", tracked.run.id, e.message)
            self._reread(tracked)
        except WindlassError as e:
            # What a target already has ends by what is seen there, not by our trouble in following it.
            if e.transient or tracked.handle is not None:
                self._try_later(tracked, e.message)
            else:
                self._refuse(tracked, e)
        except Exception as e:
            log.exception("run=%s could not be brought up to date", tracked.run.id)
            self._try_later(tracked, f"{type(e).__name__}: {e}")

    def _start(self, tracked: Tracked) -> None:
        if self.tracking.take_news(tracked).is_stale:
            self._refresh(tracked)
        driver = self._driver(tracked)
        if tracked.is_adopted:
            found = driver.find(tracked.job_id)
            if found is not None:
                self._accept(tracked, found)
                return self._observe(tracked, found)
        if tracked.run.intent is Intent.CANCEL:
            step = Step(RunState.CANCELED, Reason.STOPPED, "canceled before it started")
            return self._finish(tracked, step, Observation(Phase.ENDED))
        self._send(tracked, driver)

    def _send(self, tracked: Tracked, driver: Driver[Any]) -> None:
        plan = self.ahead.take(tracked.leased) or driver.plan(self._jobs.job(tracked.leased))
        reach("F06")
        tracked.is_adopted = True  # from here on the target may have it, whatever we hear
        self._accept(tracked, driver.start(plan))

    def _accept(self, tracked: Tracked, handle: Handle) -> None:
        # A handle that says no more than the job's id can be found again by that, and is saved with the next step.
        tracked.is_handle_saved = handle.native_id != tracked.job_id
        if tracked.is_handle_saved:
            self._store.runs.save_handle(tracked.run.id, tracked.run.attempt, row_of(handle), tracked.fence)
        tracked.handle = handle
        tracked.heard = time.monotonic()
        self.tracking.name(handle.native_id, tracked)

    def _follow(self, tracked: Tracked, handle: Handle) -> None:
        news = self.tracking.take_news(tracked)
        if news.is_stale:
            self._refresh(tracked)
        if tracked.run.intent is Intent.CANCEL:
            self._send_stop(tracked, handle)
        if news.told is not None and news.told.phase is Phase.ENDED:
            return self._apply(tracked, news.told)  # all that has grown is collected with the rest
        source = self._source(tracked, handle)
        for path in news.grown:
            if self._intake.pull_some(source, path):
                self._hear(handle.native_id, Event("grew", path))
        if news.told is not None:
            self._apply(tracked, news.told)
        elif news.is_changed:
            self._observe(tracked, handle)

    def _send_stop(self, tracked: Tracked, handle: Handle) -> None:
        """Cancel is re-sent until the end is seen; the far side takes the first wish and ignores the rest."""
        if time.monotonic() - tracked.stop_sent >= STOP_AGAIN:
            self._driver(tracked).stop(handle, timedelta(seconds=tracked.spec.grace_seconds))
            tracked.stop_sent = time.monotonic()
            self._later[tracked.run.id] = time.monotonic() + STOP_AGAIN

    def _observe(self, tracked: Tracked, handle: Handle) -> None:
        [seen] = self._driver(tracked).observe([handle])
        self._apply(tracked, seen)

    def _apply(self, tracked: Tracked, seen: Observation) -> None:
        if seen.phase is not Phase.LOST:
            tracked.heard = time.monotonic()
        if seen.phase is Phase.LOST or (seen.phase is Phase.ENDED and self._store.is_shared):
            self._refresh(tracked)  # a wish to cancel may have come through another server
        if seen.is_startable and tracked.run.intent is Intent.RUN:
            log.warning("run=%s was claimed and never started; it is started again", tracked.run.id)
            return self._send(tracked, self._driver(tracked))
        step = decide(tracked.run, seen, tracked.silence, self._patience)
        if step is None:
            return
        tracked.has_ended = step.state in FINAL
        if not tracked.has_ended:
            return self._advance(tracked, step)
        if seen.phase is Phase.ENDED:
            self._pass_on_slot(tracked)
        if is_much(seen):
            self._finish_aside(tracked, step, seen)
        else:
            self._finish(tracked, step, seen)

    def _pass_on_slot(self, tracked: Tracked) -> None:
        """The next run need not wait until the record of this one is whole."""
        run = tracked.run
        slots = self.reach.target(run.workspace, run.target).slots
        if slots is None:
            return
        left = [t.run.id for t in self.tracking.all() if t.has_ended and t.run.target == run.target]
        admitted = self._store.runs.admit(run.workspace, run.target, self._owner, slots, self._lease_seconds, left)
        for leased in admitted:
            # One that has been made ready there is on its way before the rest is done here.
            self._take_in(leased, is_urgent=self.ahead.is_ready(leased.run.id))
        tracked.has_left = bool(admitted)

    def _take_in(self, leased: Leased, is_urgent: bool = False) -> None:
        self._hub.publish(leased.run.id)
        self.track(leased, is_adopted=False)
        if not is_urgent:
            self.wake(leased.run.id)
        elif self.tracking.hold(leased.run.id):
            self._work(leased.run.id)

    def _advance(self, tracked: Tracked, step: Step) -> None:
        run = tracked.run
        tracked.run = self._store.runs.advance(
            run.id, expect=run.state, step=step, fence=tracked.fence, handle=tracked.unsaved_handle
        )
        tracked.is_handle_saved = tracked.handle is not None
        log.info("run=%s state=%s reason=%s", run.id, step.state.value, step.reason.value)
        self._hub.publish(run.id)
        if step.state is RunState.RUNNING:
            self.look_ahead(run.workspace, run.target)

    def _finish_aside(self, tracked: Tracked, step: Step, seen: Observation) -> None:
        """Large outputs are collected by another pool, so that nobody waits for them to be started."""
        if tracked.run.state is not RunState.FINALIZING:
            self._advance(tracked, Step(RunState.FINALIZING, Reason.COLLECTING_OUTPUTS, "collecting its outputs"))
        tracked.is_finishing = True
        self._collectors.submit(self._finish_held, tracked, step, seen)

    def _finish_held(self, tracked: Tracked, step: Step, seen: Observation) -> None:
        try:
            self._finish(tracked, step, seen)
        except Exception as e:
            log.exception("run=%s could not be collected", tracked.run.id)
            tracked.is_changed = True
            self._try_later(tracked, f"{type(e).__name__}: {e}")
        finally:
            tracked.is_finishing = False

    def _finish(self, tracked: Tracked, step: Step, seen: Observation) -> None:
        run, handle = tracked.run, tracked.handle
        if handle is None:
            artifacts = []
        elif seen.files:
            artifacts = self._intake.collect(self._source(tracked, handle), seen.files, seen.left_out)
        else:
            artifacts = self._intake.keep_pulled(run.id, run.attempt)
        slots = self.reach.target(run.workspace, run.target).slots
        tracked.run, admitted = self._store.runs.finish(
            run.id,
            expect=run.state,
            step=step,
            fence=tracked.fence,
            ending=ending(self._store, run, step, seen, artifacts),
            owner=self._owner,
            slots=slots,
            lease_seconds=self._lease_seconds,
            has_left=tracked.has_left,
            handle=tracked.unsaved_handle,
        )
        log.info("run=%s state=%s reason=%s", run.id, step.state.value, step.reason.value)
        self.tracking.remove(run.id)
        self._hub.publish(run.id)
        for leased in admitted:
            self._take_in(leased)
        reach("F20")
        if handle is not None:
            self.cleaning.note(run, handle)

    # when it does not go well

    def _try_later(self, tracked: Tracked, why: str) -> None:
        tracked.tries += 1
        tracked.is_changed = tracked.is_stale = True  # the news that brought us here were taken, and not heeded
        self._later[tracked.run.id] = time.monotonic() + min(30.0, 0.25 * 2 ** min(tracked.tries, 10))
        if self._stopping.is_set():
            return  # it may be us who let it down; the next server sees for itself
        try:
            self._tell_silence(tracked, why)
        except WindlassError as e:
            log.warning("run=%s: %s", tracked.run.id, e.message)

    def _tell_silence(self, tracked: Tracked, why: str) -> None:
        step: Step | None
        if tracked.has_ended:
            word = f"it has ended, and its record could not be kept yet: {why}"
            step = Step(RunState.FINALIZING, Reason.COLLECTING_OUTPUTS, word)
            step = step if tracked.run.state is not RunState.FINALIZING else None
        elif tracked.handle is not None:
            step = decide(tracked.run, None, tracked.silence, self._patience)
            if step is not None and step.state in FINAL:
                return self._finish(tracked, step, Observation(Phase.ENDED))
        else:
            step = Step(RunState.QUEUED, Reason.WAITING_FOR_TARGET, f"waiting for {tracked.run.target}: {why}")
            step = step if tracked.run.state is not RunState.QUEUED else None
        if step is not None:
            self._advance(tracked, step)

    def _refuse(self, tracked: Tracked, error: WindlassError) -> None:
        log.warning("run=%s was refused: %s", tracked.run.id, error.message)
        try:
            self._finish(tracked, Step(RunState.FAILED, Reason.REJECTED, str(error)), Observation(Phase.ENDED))
        except WindlassError as e:
            self._try_later(tracked, e.message)

    def _refresh(self, tracked: Tracked) -> None:
        tracked.run = self._store.runs.get(tracked.run.workspace, tracked.run.id)

    def _reread(self, tracked: Tracked) -> None:
        """Somebody else moved the run: go on from what is true, or leave it to its new owner."""
        try:
            self._refresh(tracked)
        except WindlassError as e:
            return self._try_later(tracked, e.message)
        if tracked.run.is_final:
            self.tracking.remove(tracked.run.id)
        else:
            tracked.tries += 1
            tracked.is_changed = True
            self._later[tracked.run.id] = time.monotonic() + min(30.0, 0.1 * 2 ** min(tracked.tries, 10))

    # targets

    def _driver(self, tracked: Tracked) -> Driver[Any]:
        driver = self.reach.driver_of(tracked.run)
        if isinstance(driver, Watcher):
            driver.watch(self._hear)
        return driver

    def _source(self, tracked: Tracked, handle: Handle) -> Source:
        run = tracked.run
        return Source(self._driver(tracked), handle, run.id, run.attempt, tracked.spec.directories_to_watch)

    def _hear(self, native_id: str, event: Event) -> None:
        run_id = self.tracking.hear(native_id, event)
        if run_id is not None and not self._stopping.is_set():
            self.wake(run_id)

    def _ask(self, there: list[Tracked]) -> None:
        try:
            handles = [tracked.handle for tracked in there if tracked.handle is not None]
            answers: Sequence[Observation | None] = self._driver(there[0]).observe(handles)
        except WindlassError as e:
            log.warning("target=%s could not be asked: %s", there[0].run.target, e.message)
            answers = [None] * len(there)  # each run's worker asks again, and decides about the silence
        except Exception:
            log.exception("target=%s could not be asked", there[0].run.target)
            return
        for tracked, seen in zip(there, answers, strict=False):
            if seen is not None and seen.phase is Phase.RUNNING and tracked.run.state is RunState.RUNNING:
                tracked.heard = time.monotonic()
                if tracked.run.intent is Intent.RUN:
                    continue
            tracked.is_changed = True
            self.wake(tracked.run.id)
