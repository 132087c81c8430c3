"""The loop that makes every restart a normal event: lease, start or observe, decide, advance.

News come from routes (`dispatch`, `wake`), from targets that tell (`grew`, `changed`) and, level-triggered, from asking
each target about all its runs. Whatever the source, one worker at a time brings one run up to date. What was done is in
the store or on the target, never only here, so that this process may be killed between any two lines.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from windlass import drivers
from windlass.core.entities import Target
from windlass.core.errors import Conflict, NotFound, ServerUnavailable, WindlassError
from windlass.core.states import FINAL, Intent, Observation, Patience, Phase, Reason, RunState, Step, decide
from windlass.drivers.base import Driver, Event, Handle, Health, Plan, Watcher
from windlass.failpoints import reach
from windlass.server.endings import describe_end
from windlass.server.hub import Hub
from windlass.server.intake import Intake, Source
from windlass.server.jobs import Jobs, is_elsewhere
from windlass.server.settings import Settings
from windlass.server.tracking import Tracked, Tracking
from windlass.store import Ending, Leased, NewRun, Store

log = logging.getLogger(__name__)

WORKERS = 8
COLLECTORS = 3
TICK = 0.5
ASK_EVERY = 10.0  # seconds between two questions to a target that also tells
ADMIT_EVERY = 5.0
SWEEP_EVERY = 60.0
STOP_AGAIN = 10.0
LARGE_OUTPUT = 8 << 20
SILENT_INTERACTIVE = timedelta(minutes=2)


class Reconciler:
    def __init__(self, store: Store, hub: Hub, jobs: Jobs, owner: str, settings: Settings) -> None:
        self._store = store
        self._hub = hub
        self._jobs = jobs
        self.owner = owner
        self._lease_seconds = settings.lease_seconds
        self._keep_days = settings.keep_run_folders_days
        self._intake = Intake(store, hub, settings.log_cap_bytes)
        self._tracking = Tracking()
        self._patience = Patience()
        self._workers = ThreadPoolExecutor(WORKERS, "reconcile")
        self._collectors = ThreadPoolExecutor(COLLECTORS, "collect")
        self._stopping = threading.Event()
        self._loop = threading.Thread(target=self._run, name="reconcile-loop", daemon=True)
        self._cleaned: deque[tuple[str, int]] = deque()  # told to the store now and then: cleaning twice is harmless
        self._due: dict[str, float] = {}
        self._later: dict[str, float] = {}

    # for the process and the routes

    def start(self) -> None:
        """Take up every run that was active when the last server ended, then begin to loop."""
        if not self._store.is_shared:
            for leased in self._store.runs.take_over(self.owner, self._lease_seconds):
                self._track(leased, is_adopted=True)
        self._loop.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._loop.is_alive():
            self._loop.join(10)
        self._workers.shutdown(wait=True, cancel_futures=True)
        self._collectors.shutdown(wait=False, cancel_futures=True)
        self._store.runs.release(self.owner)

    def dispatch(self, leased: Leased) -> None:
        """Start a run that was just committed with our lease on it. Returns at once."""
        self._track(leased, is_adopted=False)
        self._wake(leased.run.id)

    def wake(self, run_id: str) -> None:
        """Something about the run's row changed, such as a wish to cancel."""
        tracked = self._tracking.get(run_id)
        if tracked is not None:
            tracked.is_stale = True
            self._wake(run_id)

    def admit(self, workspace: str, target: str) -> None:
        """Start what waits for a target, as far as it has room."""
        row = self._store.targets.get(workspace, target)
        for leased in self._store.runs.admit(workspace, target, self.owner, row.slots, self._lease_seconds):
            self._hub.publish(leased.run.id)
            self.dispatch(leased)

    def plan(self, workspace: str, new: NewRun) -> Plan:
        """What would be sent for this run; refuses what can never work. Nothing is sent or stored."""
        if new.spec is None:
            raise NotFound("An interactive run has no plan: its script runs where it is.")
        driver = self._jobs.driver(self._target(workspace, new.spec.target))
        return driver.plan(self._jobs.draft(new.spec, workspace, new.experiment, new.id, nonce=new.nonce))

    def check(self, workspace: str, target: str) -> Health:
        return self._jobs.driver(self._target(workspace, target)).check()

    def pull(self, run_id: str) -> None:
        """Bring what a live run wrote up to date, for a script that reads back what it logged."""
        tracked = self._tracking.get(run_id)
        if tracked is not None and tracked.handle is not None and not tracked.is_finishing:
            self._intake.pull_all(self._source(tracked, tracked.handle))

    def kinds(self) -> list[dict[str, Any]]:
        return [
            {"kind": kind, "schema": drivers.load(kind).config_model.model_json_schema()} for kind in drivers.kinds()
        ]

    # one run, one worker

    def _track(self, leased: Leased, is_adopted: bool) -> None:
        handle = Handle(**leased.handle) if leased.handle else None
        tracked = Tracked(leased.run, leased.spec, leased.fence, leased.nonce, handle, is_adopted)
        tracked.is_changed = is_adopted
        self._tracking.add(tracked)

    def _wake(self, run_id: str) -> None:
        if self._tracking.hold(run_id):
            self._workers.submit(self._work, run_id)

    def _work(self, run_id: str) -> None:
        while True:
            tracked = self._tracking.get(run_id)
            if tracked is not None and not tracked.is_finishing:
                self._bring_up_to_date(tracked)
            if not self._tracking.let_go(run_id):
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
            if e.transient:
                self._try_later(tracked, e.message)
            else:
                self._refuse(tracked, e)
        except Exception as e:
            log.exception("run=%s could not be brought up to date", tracked.run.id)
            self._try_later(tracked, f"{type(e).__name__}: {e}")

    def _start(self, tracked: Tracked) -> None:
        if self._tracking.take_news(tracked)[2]:
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
        plan = driver.plan(self._jobs.job(tracked.leased))
        reach("F06")
        tracked.is_adopted = True  # from here on the target may have it, whatever we hear
        self._accept(tracked, driver.start(plan))

    def _accept(self, tracked: Tracked, handle: Handle) -> None:
        self._store.runs.save_handle(tracked.run.id, tracked.run.attempt, _handle_row(handle), tracked.fence)
        tracked.handle = handle
        tracked.heard = time.monotonic()
        self._tracking.name(handle.native_id, tracked)

    def _follow(self, tracked: Tracked, handle: Handle) -> None:
        grown, is_changed, is_stale = self._tracking.take_news(tracked)
        source = self._source(tracked, handle)
        for path in grown:
            self._intake.pull(source, path)
        if is_stale:
            self._refresh(tracked)
        if is_changed:
            self._observe(tracked, handle)
        if tracked.run.intent is Intent.CANCEL and not tracked.run.is_final:
            self._send_stop(tracked, handle)

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
        if seen.phase in (Phase.ENDED, Phase.LOST):
            self._refresh(tracked)
        if seen.is_startable and tracked.run.intent is Intent.RUN:
            log.warning("run=%s was claimed and never started; it is started again", tracked.run.id)
            return self._send(tracked, self._driver(tracked))
        step = decide(tracked.run, seen, tracked.silence, self._patience)
        if step is None:
            return
        if step.state not in FINAL:
            self._advance(tracked, step)
        elif sum(size for path, size, _ in seen.files if path.startswith("source/outputs/")) > LARGE_OUTPUT:
            self._finish_aside(tracked, step, seen)
        else:
            self._finish(tracked, step, seen)

    def _advance(self, tracked: Tracked, step: Step) -> None:
        run = tracked.run
        tracked.run = self._store.runs.advance(run.id, expect=run.state, step=step, fence=tracked.fence)
        log.info("run=%s state=%s reason=%s", run.id, step.state.value, step.reason.value)
        self._hub.publish(run.id)

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
        artifacts = self._intake.collect(self._source(tracked, handle), seen.files) if handle else []
        error = describe_end(self._store, run, step, artifacts)
        ending = Ending(error, seen.usage, artifacts, _moment(seen.started_at), _moment(seen.ended_at))
        slots = self._store.targets.get(run.workspace, run.target).slots
        tracked.run, admitted = self._store.runs.finish(
            run.id,
            expect=run.state,
            step=step,
            fence=tracked.fence,
            ending=ending,
            owner=self.owner,
            slots=slots,
            lease_seconds=self._lease_seconds,
        )
        log.info("run=%s state=%s reason=%s", run.id, step.state.value, step.reason.value)
        self._tracking.remove(run.id)
        self._hub.publish(run.id)
        for leased in admitted:
            self._hub.publish(leased.run.id)
            self.dispatch(leased)
        reach("F20")
        if handle is not None and self._keep_days == 0:
            self._clean(self._driver(tracked), run.id, run.attempt, handle)

    def _clean(self, driver: Driver[Any], run_id: str, attempt: int, handle: Handle) -> None:
        """Only after the end is committed. What cannot be cleaned now is swept later."""
        try:
            driver.clean(handle)
            self._store.logs.drop(run_id, attempt)
            self._cleaned.append((run_id, attempt))
        except WindlassError as e:
            log.warning("run=%s could not be cleaned up yet: %s", run_id, e.message)

    # when it does not go well

    def _try_later(self, tracked: Tracked, why: str) -> None:
        tracked.tries += 1
        tracked.is_changed = True
        self._later[tracked.run.id] = time.monotonic() + min(30.0, 0.25 * 2 ** min(tracked.tries, 10))
        try:
            self._tell_silence(tracked, why)
        except WindlassError as e:
            log.warning("run=%s: %s", tracked.run.id, e.message)

    def _tell_silence(self, tracked: Tracked, why: str) -> None:
        if tracked.handle is not None:
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
            self._tracking.remove(tracked.run.id)
        else:
            tracked.tries += 1
            tracked.is_changed = True
            self._later[tracked.run.id] = time.monotonic() + min(30.0, 0.1 * 2 ** min(tracked.tries, 10))

    # targets

    def _target(self, workspace: str, name: str) -> Target:
        try:
            return self._store.targets.get(workspace, name)
        except NotFound as e:
            known = ", ".join(target.name for target in self._store.targets.list(workspace))
            raise NotFound(f"There is no target {name!r} in workspace {workspace}.", f"Targets there: {known}.") from e

    def _driver(self, tracked: Tracked) -> Driver[Any]:
        driver = self._jobs.driver(self._target(tracked.run.workspace, tracked.run.target))
        if isinstance(driver, Watcher):
            driver.watch(self._hear)
        return driver

    def _source(self, tracked: Tracked, handle: Handle) -> Source:
        run = tracked.run
        return Source(self._driver(tracked), handle, run.id, run.attempt, tracked.spec.directories_to_watch)

    def _hear(self, native_id: str, event: Event) -> None:
        run_id = self._tracking.hear(native_id, event)
        if run_id is not None and not self._stopping.is_set():
            self._wake(run_id)

    # the loop

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.step(time.monotonic())
            except ServerUnavailable as e:
                log.warning("the database does not answer: %s", e.message)
            except Exception:
                log.exception("the reconcile loop failed once; it goes on")
            self._stopping.wait(TICK)

    def step(self, now: float) -> None:
        """One round: everything that is due. Tests call it without sleeping."""
        for run_id in [run_id for run_id, due in list(self._later.items()) if due <= now]:
            self._later.pop(run_id, None)
            self._wake(run_id)
        self._every("renew", self._lease_seconds / 3, now, self._renew)
        self._every("ask", ASK_EVERY, now, self._ask_all)
        self._every("admit", ADMIT_EVERY, now, self._admit_all)
        self._every("silent", ADMIT_EVERY, now, self._watch_interactive)
        self._tell_cleaned()
        self._every("sweep", SWEEP_EVERY, now, self._sweep)

    def _every(self, name: str, seconds: float, now: float, act: Callable[[], None]) -> None:
        if self._due.get(name, 0.0) <= now:
            self._due[name] = now + seconds
            act()

    def _renew(self) -> None:
        for run_id in self._tracking.keep_only(self._store.runs.renew(self.owner, self._lease_seconds)):
            log.warning("run=%s: its lease went to another server", run_id)
        if self._store.is_shared:
            for leased in self._store.runs.lease(self.owner, self._lease_seconds, 100, self._elsewhere()):
                self._track(leased, is_adopted=True)
                self._wake(leased.run.id)

    def _elsewhere(self) -> list[tuple[str, str]]:
        workspaces = [workspace.name for workspace in self._store.workspaces.list()]
        return [(w, target.name) for w in workspaces for target in self._store.targets.list(w) if is_elsewhere(target)]

    def _ask_all(self) -> None:
        """One question per target about all its runs; those whose answer is news are then brought up to date."""
        by_target: dict[tuple[str, str], list[Tracked]] = defaultdict(list)
        for tracked in self._tracking.all():
            if tracked.handle is None:
                self._wake(tracked.run.id)
            else:
                by_target[tracked.run.workspace, tracked.run.target].append(tracked)
        for there in by_target.values():
            self._workers.submit(self._ask, there)

    def _ask(self, there: Sequence[Tracked]) -> None:
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
            self._wake(tracked.run.id)

    def _admit_all(self) -> None:
        for workspace in self._store.workspaces.list():
            for target, (_, queued) in self._store.targets.counts(workspace.name).items():
                if queued:
                    self.admit(workspace.name, target)

    def _watch_interactive(self) -> None:
        for run in self._store.runs.silent_interactive(datetime.now(UTC) - SILENT_INTERACTIVE):
            step = Step(RunState.NOT_RESPONDING, Reason.NO_CONTACT, "its script has not been heard of for 2 minutes")
            try:
                self._store.runs.advance(run.id, expect=run.state, step=step, fence=None)
                self._hub.publish(run.id)
            except Conflict:
                continue  # it spoke in this moment

    def _tell_cleaned(self) -> None:
        cleaned = [self._cleaned.popleft() for _ in range(len(self._cleaned))]
        if cleaned:
            self._store.runs.mark_cleaned(cleaned)

    def _sweep(self) -> None:
        """Clean up after runs whose folder was kept for a while, or whose server died before it could."""
        if self._keep_days is None:
            return
        for run, attempt in self._store.runs.uncleaned(datetime.now(UTC) - timedelta(days=self._keep_days), 100):
            driver = self._jobs.driver(self._target(run.workspace, run.target))
            self._clean(driver, run.id, attempt.number, Handle(**(attempt.handle or {})))


def _moment(unix_seconds: float | None) -> datetime | None:
    return None if unix_seconds is None else datetime.fromtimestamp(unix_seconds, UTC)


def _handle_row(handle: Handle) -> dict[str, Any]:
    return {
        "kind": handle.kind,
        "native_id": handle.native_id,
        "version": handle.version,
        "data": dict(handle.data),
    }
