"""Controls one run, in the one thread that has acquired it: start, follow, see the end, collect the record.

Everything done is in the store or on the target, never only in this process, so that it may be killed between any two
lines.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from windlass.core import backoff
from windlass.core.errors import Conflict, StorageFull, TargetUnreachable, WindlassError
from windlass.core.states import FINAL, Intent, Observation, Patience, Phase, Reason, Retries, RunState, Step, decide
from windlass.drivers.base import Claims, Driver, FileGrew, Handle, JobChanged, Sending
from windlass.drivers.connection_pool import TrackedPool
from windlass.failpoints import reach
from windlass.server.execution.driver_cache import DriverCache
from windlass.server.execution.folder_cleanup import FolderCleanup
from windlass.server.execution.ingest import AttemptFiles, RunIngest
from windlass.server.execution.job_builder import JobBuilder
from windlass.server.execution.outcome import ending, has_large_outputs
from windlass.server.execution.prefetch import Prefetcher
from windlass.server.execution.tracked_run import MANY_FILES, RowChanged, TargetKey, TrackedRun, TrackedRuns, row_of
from windlass.server.settings import Settings
from windlass.server.streaming.event_bus import EventBus
from windlass.store import CapacityOf, Ending, Leased, Store

log = logging.getLogger(__name__)

STOP_AGAIN = 10.0
FIRST_RETRY, FIRST_RELOAD, LONGEST_RETRY = 0.5, 0.2, 30.0  # seconds
# States in which a target reports how far a run is.
_REASONS = {RunState.STARTING: Reason.ACCEPTED, RunState.PREPARING: Reason.BUILDING_ENVIRONMENT}
CANCEL_TRIES = 5  # to read the record of a canceled run from a target that answers


class Scheduler(Protocol):
    """Decides when and in which thread a run is reconciled."""

    def wake(self, run_id: str) -> None:
        """Have a tracked run reconciled as soon as possible. Returns at once."""

    def wake_after(self, run_id: str, seconds: float) -> None:
        """Have a tracked run reconciled after that time, or sooner."""

    def run_in_background(self, target: TargetKey, act: Callable[[], None]) -> None:
        """Run something that may take long, without delaying the start of runs. Returns at once."""


class RunController:
    def __init__(
        self,
        store: Store,
        event_bus: EventBus,
        jobs: JobBuilder,
        drivers: DriverCache,
        tracked: TrackedRuns,
        prefetcher: Prefetcher,
        ingest: RunIngest,
        cleanup: FolderCleanup,
        scheduler: Scheduler,
        owner: str,
        capacity_of: CapacityOf,
        settings: Settings,
    ) -> None:
        self._store = store
        self._event_bus = event_bus
        self._jobs = jobs
        self._drivers = drivers
        self._tracked = tracked
        self._prefetcher = prefetcher
        self._ingest = ingest
        self._cleanup = cleanup
        self._scheduler = scheduler
        self._owner = owner
        self._capacity_of = capacity_of
        self._lease_seconds = settings.lease_seconds
        self._patience = Patience(give_up_after=timedelta(hours=settings.give_up_hours))
        self._long_lists: dict[TargetKey, threading.Lock] = {}
        self._stopping = threading.Event()

    def stop(self) -> None:
        """The connections are about to be closed: from now on, errors do not count as silence of a target."""
        self._stopping.set()

    def pull(self, tracked: TrackedRun) -> None:
        """Store the metrics and calls that a live run has written so far. A script may call before the answer to its
        start has arrived: then there is no handle yet.
        """
        handle = tracked.handle or self._driver(tracked).find(tracked.job_id, tracked.nonce)
        if handle is not None and not tracked.is_finishing:
            self._ingest.pull_metrics_and_calls(self._files(tracked, handle))

    def reconcile(self, tracked: TrackedRun) -> None:
        """One pass: take all events from the inbox, and act on them."""
        before = tracked.last_contact
        with self._handle_errors(tracked):
            if tracked.handle is None:
                self._start(tracked)
            else:
                self._follow(tracked, tracked.handle)
            if tracked.pending_end is None:
                tracked.failures = 0
            if tracked.last_contact > before:  # else the target was not called
                self._drivers.report_contact(tracked.target, None)

    @contextmanager
    def _handle_errors(self, tracked: TrackedRun) -> Iterator[None]:
        """Convert every error into a retry, a reload or the end of the run."""
        try:
            yield
        except Conflict as e:
            log.warning("run=%s has another owner or state now, reload: %s", tracked.run.id, e.message)
            self._reload(tracked)
        except WindlassError as e:
            tracked.is_out_of_room = isinstance(e, StorageFull)
            self._drivers.report_contact(tracked.target, e)
            # If its target has the job, the run ends by what is observed there, not by our error.
            if e.transient or tracked.handle is not None:
                self._retry(tracked, e.message, self._drivers.with_login_hint(*tracked.target, e).hint)
            else:
                self._refuse(tracked, e)
        except Exception as e:
            log.exception("run=%s reconcile failed, retry", tracked.run.id)
            self._retry(tracked, f"{type(e).__name__}: {e}")

    def _driver(self, tracked: TrackedRun) -> Driver[Any]:
        return self._drivers.watched_driver_of(tracked.run)

    def _files(self, tracked: TrackedRun, handle: Handle) -> AttemptFiles:
        run, spec = tracked.run, tracked.spec
        watch = spec.directories_to_watch if spec.output_collection else ()
        redactor = self._jobs.run_secrets.redactor(run)
        driver = self._driver(tracked)
        return AttemptFiles(
            driver,
            handle,
            run.id,
            run.attempt,
            watch,
            redactor,
            spec.output_collection,
            tracked.budget,
            run.workspace,
        )

    # start

    def _start(self, tracked: TrackedRun) -> None:
        if tracked.inbox.take().row is not None:
            self._refresh(tracked)
        found = self._find(tracked) if tracked.may_be_on_target else None
        if found is not None:
            self._save_handle(tracked, found)
            return self._observe(tracked, found)
        if not tracked.run.is_stopping:
            return self._send(tracked, self._driver(tracked))
        if tracked.may_be_on_target:
            self._prevent_start(tracked)
        self._finish(tracked, self._unstarted_end(tracked), Observation(Phase.ENDED))

    def _unstarted_end(self, tracked: TrackedRun) -> Step:
        """What becomes of a run that was to be stopped before it started."""
        if tracked.run.intent is Intent.CANCEL:
            return Step(RunState.CANCELED, Reason.STOPPED, "canceled before it started")
        seen = Observation(Phase.ENDED, reason=Reason.STOPPED)
        step = decide(tracked.run, seen, tracked.silence, self._patience, retries=self._retries(tracked))
        assert step is not None, "it is not final"
        return step

    def _prevent_start(self, tracked: TrackedRun) -> None:
        """A start that was sent, by us or by another server, may still arrive: have the target refuse it."""
        driver = self._driver(tracked)
        driver.clean(Handle(driver.kind, tracked.job_id, tracked.nonce))

    def _find(self, tracked: TrackedRun) -> Handle | None:
        """The job, if its target has it. An error is no answer: the job may well be running."""
        try:
            found = self._driver(tracked).find(tracked.job_id, tracked.nonce)
        except WindlassError as e:
            if e.transient or isinstance(e, Conflict):
                raise
            raise TargetUnreachable(e.message, e.hint) from e
        tracked.last_contact = time.monotonic()
        return found

    def _send(self, tracked: TrackedRun, driver: Driver[Any]) -> None:
        plan = self._prefetcher.plan(tracked.leased)
        reach("F06")
        was_there, pool = tracked.may_be_on_target, TrackedPool(driver.connections)
        tracked.may_be_on_target = True  # from here on, whether an answer arrives or not
        tracked.last_contact = time.monotonic()  # the time that it was queued is no silence of the target
        try:
            there = pool.of(driver)
            there.report = partial(self._report_sending, tracked)
            handle = there.start(plan)
        except WindlassError:
            tracked.may_be_on_target = was_there or not pool.is_cut_off
            raise
        self._save_handle(tracked, handle)

    def _save_handle(self, tracked: TrackedRun, handle: Handle) -> None:
        # A handle that has only the job's id can be found again by that, and is saved with the next step.
        tracked.is_handle_saved = handle.native_id != tracked.job_id
        if tracked.is_handle_saved:
            self._store.runs.save_handle(tracked.run.id, tracked.run.attempt, row_of(handle), tracked.fence)
        tracked.handle = handle
        tracked.last_contact = time.monotonic()
        self._tracked.add_native_id(handle.native_id, tracked)
        if tracked.run.state is RunState.STARTING and tracked.run.message:  # the progress of the sending
            self._advance(tracked, Step(RunState.STARTING, Reason.ACCEPTED, ""))

    def _report_sending(self, tracked: TrackedRun, sending: Sending) -> None:
        """Show the progress of a start. A target that accepts bytes counts as healthy."""
        target = tracked.run.target
        if sending.total:
            tracked.last_contact = time.monotonic()
            self._drivers.report_contact(tracked.target, None)
            message = f"sending files to {target}: {sending.done / 1e6:.1f} of {sending.total / 1e6:.1f} MB"
        elif tracked.run.state is RunState.STARTING:
            message = f"connecting to {target}"
        else:
            return  # its message already says why it waits
        try:
            self._advance(tracked, Step(RunState.STARTING, Reason.ACCEPTED, message))
        except WindlassError as e:
            log.info("run=%s progress of its start was not stored: %s", tracked.run.id, e.message)

    # follow

    def _follow(self, tracked: TrackedRun, handle: Handle) -> None:
        events = tracked.inbox.take()
        if events.row is not None:
            self._refresh(tracked)
        if tracked.run.is_stopping:
            self._send_stop(tracked, handle)
        pushed = events.job.observation if events.job is not None else None
        if pushed is not None and pushed.phase is Phase.ENDED:
            return self._apply(tracked, handle, pushed)  # all files are collected there
        if events.grown:
            self._pull_grown(tracked, self._files(tracked, handle), events.grown)
        if pushed is not None:
            self._apply(tracked, handle, pushed)
        elif events.job is not None:
            self._observe(tracked, handle)
        self._update_message(tracked)

    def _pull_grown(self, tracked: TrackedRun, files: AttemptFiles, grown: tuple[FileGrew, ...]) -> None:
        tracked.budget.notes.clear()
        for event in grown:
            if self._ingest.pull_some(files, event.path):  # there may be more
                tracked.inbox.put(event)
                if self._store.is_shared or self._event_bus.has_subscribers(tracked.run.id):
                    self._scheduler.wake(tracked.run.id)
                else:
                    self._scheduler.wake_after(tracked.run.id, 0.0)

    def _update_message(self, tracked: TrackedRun) -> None:
        """The message of a run whose script runs: what is not stored of it, and what its target reports."""
        run = tracked.run
        evicting = f"evicting: {run.eviction}" if run.eviction is not None else ""
        message = "; ".join(text for text in (evicting, *tracked.budget.notes, tracked.target_message) if text)
        if run.state is RunState.RUNNING and tracked.pending_end is None and message != run.message:
            self._reword(tracked, Step(run.state, run.reason or Reason.STARTED, message))

    def _send_stop(self, tracked: TrackedRun, handle: Handle) -> None:
        """Repeated until the end is observed; a target acts on the first one and ignores the rest."""
        if time.monotonic() - tracked.stop_sent >= STOP_AGAIN:
            self._driver(tracked).stop(handle, timedelta(seconds=tracked.spec.grace_seconds))
            tracked.stop_sent = time.monotonic()
            self._scheduler.wake_after(tracked.run.id, STOP_AGAIN)

    def _observe(self, tracked: TrackedRun, handle: Handle) -> None:
        [seen] = self._driver(tracked).observe([handle])
        self._apply(tracked, handle, seen)

    def _apply(self, tracked: TrackedRun, handle: Handle, seen: Observation) -> None:
        if seen.phase is not Phase.LOST:
            tracked.last_contact = time.monotonic()
        if seen.phase is Phase.LOST or (seen.phase is Phase.ENDED and self._store.is_shared):
            self._refresh(tracked)  # a cancel may have come through another server
        if seen.phase is Phase.LOST and tracked.pending_end is not None:
            why = seen.message or "its target has nothing of it any more"
            return self._report_uncollected(tracked, *tracked.pending_end, why)
        if seen.is_startable and not tracked.run.is_stopping:
            log.warning("run=%s was claimed and never started, retry its start", tracked.run.id)
            return self._send(tracked, self._driver(tracked))
        if seen.is_startable and tracked.run.intent is Intent.RUN:
            self._prevent_start(tracked)
            seen = Observation(Phase.ENDED, reason=Reason.STOPPED)
        if seen.phase in (Phase.QUEUED, Phase.RUNNING):
            self._decide_claims(tracked, handle, seen)
        retries = self._retries(tracked) if seen.phase is Phase.ENDED else None
        step = decide(tracked.run, seen, tracked.silence, self._patience, retries=retries)
        if step is None and seen.stage is tracked.run.state and seen.stage in _REASONS and seen.message:
            step = Step(seen.stage, _REASONS[seen.stage], seen.message)
        if seen.stage is RunState.RUNNING:
            tracked.target_message = seen.message
        if step is None:
            return self._update_message(tracked)
        if step.state not in FINAL and not step.is_retry:
            return self._advance(tracked, step)
        is_long = len(seen.files) > MANY_FILES
        tracked.pending_end = step, replace(seen, files=()) if is_long else seen
        if seen.phase is Phase.ENDED:
            self._free_allocation(tracked)
        if is_long:
            self._finish_in_background(tracked, step, None)
        elif has_large_outputs(seen):
            self._finish_in_background(tracked, step, seen)
        else:
            self._finish(tracked, step, seen)

    def _retries(self, tracked: TrackedRun) -> Retries:
        run = tracked.run
        before = self._store.runs.attempts(run.id)[: run.attempt - 1] if run.attempt > 1 else []
        evicted = sum(attempt.reason is Reason.EVICTED for attempt in before)
        return Retries(tracked.spec.retries, evicted, len(before) - evicted)

    def _decide_claims(self, tracked: TrackedRun, handle: Handle, seen: Observation) -> None:
        """Where a scheduler may start a job twice: commit which instance owns the attempt, then let that one execute
        and end the others. Repeated after a crash, it finds the same owner.
        """
        driver, run = self._driver(tracked), tracked.run
        is_running = run.state is RunState.RUNNING and seen.stage is RunState.RUNNING
        if not isinstance(driver, Claims) or is_running or run.is_stopping:
            return
        [instances] = driver.waiting([handle])
        for instance in instances:
            owner = self._store.runs.claim(run.id, run.attempt, instance, tracked.fence)
            if owner == instance:
                driver.allow(handle, instance)
            else:
                log.warning("run=%s instance %s is refused: %s owns the attempt", run.id, instance, owner)
                driver.refuse(handle, instance, owner)

    def _free_allocation(self, tracked: TrackedRun) -> None:
        """Let the next run have what this one had, before the outputs of this one are collected."""
        if not tracked.is_freed:
            admitted = self._store.runs.free_allocation(
                tracked.run, tracked.fence, self._owner, self._capacity_of, self._lease_seconds
            )
            tracked.is_freed = True
            for leased in admitted:
                self._dispatch(leased)

    def _dispatch(self, leased: Leased) -> None:
        """Another run was admitted: it is started by a pass of its own."""
        self._tracked.track(leased, may_be_on_target=False)
        self._scheduler.wake(leased.run.id)
        self._event_bus.publish_change(leased.run.workspace, leased.run.id)

    def _advance(self, tracked: TrackedRun, step: Step) -> None:
        run = tracked.run
        if step.state is run.state:
            return self._reword(tracked, step)
        tracked.run = self._store.runs.advance(
            run.id, expect=run.state, step=step, fence=tracked.fence, handle=tracked.unsaved_handle
        )
        tracked.is_handle_saved = tracked.handle is not None
        log.info("run=%s state=%s reason=%s", run.id, step.state.value, step.reason.value)
        self._event_bus.publish_change(run.workspace, run.id)
        if step.state is RunState.RUNNING:
            prefetch = partial(self._prefetcher.prefetch, run.workspace, run.target)
            self._scheduler.run_in_background(tracked.target, prefetch)

    def _reword(self, tracked: TrackedRun, step: Step) -> None:
        """Change the message of a run."""
        before = tracked.run.message
        if step.message == before:
            return
        # While something is built, the text after the colon is progress; while files are sent, all of it is.
        is_same_work = step.state is RunState.PREPARING and step.message.split(": ")[0] == before.split(": ")[0]
        is_progress = is_same_work or step.state is RunState.STARTING
        write = self._store.runs.update_progress if is_progress else self._store.runs.update_message
        tracked.run = write(tracked.run.id, step=step, fence=tracked.fence)
        self._event_bus.publish_change(tracked.run.workspace, tracked.run.id)

    def _finish_in_background(self, tracked: TrackedRun, step: Step, seen: Observation | None) -> None:
        """Collect large outputs in background threads, so that they do not delay the start of runs."""
        if tracked.run.state is not RunState.FINALIZING:
            self._advance(tracked, Step(RunState.FINALIZING, Reason.COLLECTING_OUTPUTS, "collecting its outputs"))
        tracked.is_finishing = True
        self._scheduler.run_in_background(tracked.target, partial(self._collect_and_finish, tracked, step, seen))

    def _collect_and_finish(self, tracked: TrackedRun, step: Step, seen: Observation | None) -> None:
        """Without `seen`, its list of files is long: it is requested now, and only one such list of a target at a time
        is in memory.
        """
        try:
            with self._handle_errors(tracked):
                if seen is not None:
                    return self._finish(tracked, step, seen)
                with self._long_lists.setdefault(tracked.target, threading.Lock()):
                    assert tracked.handle is not None, "it was seen"
                    [seen] = self._driver(tracked).observe([tracked.handle])
                    if seen.phase is not Phase.ENDED:
                        raise TargetUnreachable(f"{tracked.run.target} does not say any more how the run ended.")
                    self._finish(tracked, step, seen)
        finally:
            tracked.is_finishing = False

    def _finish(self, tracked: TrackedRun, step: Step, seen: Observation) -> None:
        run, handle = tracked.run, tracked.handle
        if handle is None:
            artifacts = []
        elif seen.files or seen.left_out or seen.unlisted:
            files = self._files(tracked, handle)
            artifacts = self._ingest.collect(files, seen.files, seen.left_out, seen.unlisted)
            step = replace(step, message="; ".join(filter(None, [step.message, *tracked.budget.notes])))
            if not seen.files:
                artifacts += self._ingest.seal_partial_logs(run.id, run.attempt)
        else:
            artifacts = self._ingest.seal_partial_logs(run.id, run.attempt)
        ended = ending(self._store, run, step, seen, artifacts)
        admitted = self._end(tracked, step, ended)
        log.info("run=%s attempt=%d state=%s reason=%s", run.id, run.attempt, step.state.value, step.reason.value)
        self._tracked.remove(tracked)
        self._event_bus.publish_change(run.workspace, run.id)
        for leased in admitted:
            self._dispatch(leased)
        self._jobs.run_secrets.forget(run)
        reach("F20")
        if handle is not None:
            self._cleanup.add(run if step.is_retry else tracked.run, handle)

    def _end(self, tracked: TrackedRun, step: Step, ended: Ending) -> list[Leased]:
        """Commit the end of the run; or that of the attempt, and that the run waits for the next one. Returns the runs
        that were admitted in its place, which may be the same one.
        """
        known: dict[str, Any] = {
            "expect": tracked.run.state,
            "step": step,
            "fence": tracked.fence,
            "ending": ended,
            "owner": self._owner,
            "capacity_of": self._capacity_of,
            "lease_seconds": self._lease_seconds,
            "handle": tracked.unsaved_handle,
        }
        if step.is_retry:
            return self._store.runs.requeue(tracked.run.id, nonce=secrets.token_hex(16), **known)[1]
        tracked.run, admitted = self._store.runs.finish(tracked.run.id, is_freed=tracked.is_freed, **known)
        return admitted

    # errors

    def _retry(self, tracked: TrackedRun, why: str, advice: str = "") -> None:
        tracked.failures += 1
        # The events of this pass were consumed without effect: observe and reload on the next one.
        tracked.inbox.put(JobChanged())
        tracked.inbox.put(RowChanged())
        self._scheduler.wake_after(tracked.run.id, backoff.delay(tracked.failures, FIRST_RETRY, LONGEST_RETRY))
        if self._stopping.is_set():
            return  # the error may come from our own shutdown; the next server finds out
        try:
            self._report_no_contact(tracked, why, advice)
        except WindlassError as e:
            log.warning("run=%s: %s", tracked.run.id, e.message)

    def _report_no_contact(self, tracked: TrackedRun, why: str, advice: str) -> None:
        run = tracked.run
        step: Step | None = None
        if tracked.pending_end is not None:
            return self._report_uncollected(tracked, *tracked.pending_end, why)
        if tracked.may_be_on_target:
            step = decide(run, None, tracked.silence, self._patience, why)
        if step is None and tracked.handle is None and run.state in (RunState.STARTING, RunState.QUEUED):
            message = f"waiting for {run.target}: {why}" + (f"\n{advice}" if advice else "")
            step = Step(RunState.QUEUED, Reason.WAITING_FOR_TARGET, message)
        if step is not None and step.state in FINAL:
            self._give_up(tracked, step)
        elif step is not None:
            self._advance(tracked, step)

    def _report_uncollected(self, tracked: TrackedRun, end: Step, seen: Observation, why: str) -> None:
        """Report that the end of a run is known, but its files could not be collected yet."""
        run, silence = tracked.run, tracked.silence
        is_refused = (
            tracked.failures >= CANCEL_TRIES and silence < self._patience.show_after
        )  # it answers, but not this request
        if run.intent is Intent.CANCEL and (tracked.is_out_of_room or is_refused):
            message = f"{end.message}; canceled while its record could not be kept: {why}"
            if end.state is RunState.COMPLETED or end.is_retry:  # without its outputs it is not completed
                end = replace(end, state=RunState.CANCELED, reason=Reason.STOPPED, is_retry=False)
            self._finish(tracked, replace(end, message=message), replace(seen, files=()))
        elif silence >= self._patience.give_up_after:
            message = f"{end.message}, but what it left is lost: gave up after {silence} without contact: {why}"
            if end.state is RunState.COMPLETED:  # without its outputs it is not completed
                end = replace(end, state=RunState.FAILED, reason=Reason.GAVE_UP)
            self._finish(tracked, replace(end, message=message), replace(seen, files=()))
        elif run.state is not RunState.FINALIZING:
            message = f"{end.message}; its record could not be kept yet: {why}"
            self._advance(tracked, Step(RunState.FINALIZING, Reason.COLLECTING_OUTPUTS, message))
        elif tracked.failures == 1:
            message = f"{end.message}; its record could not be kept yet: {why}"
            self._reword(tracked, Step(run.state, Reason.COLLECTING_OUTPUTS, message))

    def _give_up(self, tracked: TrackedRun, step: Step) -> None:
        """Without an answer to its start there is no handle. One is made of the job id, so that the cleanup finds and
        stops the job if it runs after all.
        """
        if tracked.handle is None:
            kind = self._drivers.target(*tracked.target).kind
            tracked.handle = Handle(kind, tracked.job_id, tracked.nonce)
        self._finish(tracked, step, Observation(Phase.ENDED))

    def _refuse(self, tracked: TrackedRun, error: WindlassError) -> None:
        log.warning("run=%s was refused: %s", tracked.run.id, error.message)
        try:
            self._finish(tracked, Step(RunState.FAILED, Reason.REJECTED, str(error)), Observation(Phase.ENDED))
        except WindlassError as e:
            self._retry(tracked, e.message)

    def _refresh(self, tracked: TrackedRun) -> None:
        run = self._store.runs.get(tracked.run.workspace, tracked.run.id)
        if run.attempt != tracked.run.attempt:
            raise Conflict(f"Run {run.id} is in attempt {run.attempt} by now, not in {tracked.run.attempt}.")
        tracked.run = run

    def _reload(self, tracked: TrackedRun) -> None:
        """Another server or a request has changed the run: go on from its row, or leave it to its new owner."""
        try:
            run = self._store.runs.get(tracked.run.workspace, tracked.run.id)
        except WindlassError as e:
            return self._retry(tracked, e.message)
        if run.is_final or run.attempt != tracked.run.attempt:
            self._tracked.remove(tracked)
            self._jobs.run_secrets.forget(tracked.run)
        else:
            tracked.run = run
            tracked.failures += 1
            tracked.inbox.put(JobChanged())
            self._scheduler.wake_after(tracked.run.id, backoff.delay(tracked.failures, FIRST_RELOAD, LONGEST_RETRY))
