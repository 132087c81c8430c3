"""What is done about one run, by the one worker that holds it: start it, follow it, see its end, keep its record.

What was done is in the store or on the target, never only here, so that this process may be killed between any two
lines.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from windlass.core.errors import Conflict, StorageFull, TargetUnreachable, WindlassError
from windlass.core.states import FINAL, Intent, Observation, Patience, Phase, Reason, RunState, Step, decide
from windlass.drivers.base import Driver, FileGrew, Handle, Sending
from windlass.drivers.connection_pool import TrackedPool
from windlass.failpoints import reach
from windlass.server.execution.ingest import Intake
from windlass.server.execution.job_builder import Jobs
from windlass.server.execution.outcome import ending, is_much
from windlass.server.execution.tracked_run import MANY_FILES, Tracked, row_of
from windlass.server.hub import Hub
from windlass.server.settings import Settings
from windlass.store import Leased, Store

if TYPE_CHECKING:
    from windlass.server.execution.dispatcher import Workers

log = logging.getLogger(__name__)

STOP_AGAIN = 10.0
# States in which a machine says how far a run is.
_REASONS = {RunState.STARTING: Reason.ACCEPTED, RunState.PREPARING: Reason.BUILDING_ENVIRONMENT}
CANCEL_TRIES = 5  # to read the record of a canceled run from a target that answers


class Steps:
    def __init__(self, workers: Workers, store: Store, hub: Hub, jobs: Jobs, owner: str, settings: Settings) -> None:
        self._workers = workers
        self._store = store
        self._hub = hub
        self._jobs = jobs
        self._owner = owner
        self._lease_seconds = settings.lease_seconds
        reserve = settings.disk_reserve_bytes
        self._intake = Intake(store, hub, settings.log_cap_bytes, reserve, settings.run_log_cap_bytes)
        self._patience = Patience(give_up_after=timedelta(hours=settings.give_up_hours))

    def pull(self, tracked: Tracked) -> None:
        """Bring what a live run wrote up to date, at once. Its script may be quicker than the receipt of its start."""
        handle = tracked.handle or self._workers.driver(tracked).find(tracked.job_id, tracked.nonce)
        if handle is not None and not tracked.is_finishing:
            self._intake.pull_said(self._workers.source(tracked, handle))

    def bring_up_to_date(self, tracked: Tracked) -> None:
        before = tracked.heard
        with self._coping(tracked):
            if tracked.handle is None:
                self._start(tracked)
            else:
                self._follow(tracked, tracked.handle)
            if tracked.end is None:
                tracked.tries = 0
            if tracked.heard > before:  # otherwise nobody was asked
                self._workers.note_answer(tracked, None)

    @contextmanager
    def _coping(self, tracked: Tracked) -> Iterator[None]:
        """Whatever goes wrong, the run is not forgotten."""
        try:
            yield
        except Conflict as e:
            log.warning("run=%s is not ours any more, or moved on: %s", tracked.run.id, e.message)
            self._reread(tracked)
        except WindlassError as e:
            tracked.is_out_of_room = isinstance(e, StorageFull)
            self._workers.note_answer(tracked, e)
            # What a target already has ends by what is seen there, not by our trouble in following it.
            if e.transient or tracked.handle is not None:
                self._try_later(tracked, e.message, self._workers.reach.explained(*tracked.place, e).hint)
            else:
                self._refuse(tracked, e)
        except Exception as e:
            log.exception("run=%s could not be brought up to date", tracked.run.id)
            self._try_later(tracked, f"{type(e).__name__}: {e}")

    def _start(self, tracked: Tracked) -> None:
        if self._workers.tracking.take_news(tracked).is_stale:
            self._refresh(tracked)
        found = self._find(tracked) if tracked.is_adopted else None
        if found is not None:
            self._accept(tracked, found)
            return self._observe(tracked, found)
        if tracked.run.intent is Intent.CANCEL:
            if tracked.is_adopted:
                self._prevent_start(tracked)
            step = Step(RunState.CANCELED, Reason.STOPPED, "canceled before it started")
            return self._finish(tracked, step, Observation(Phase.ENDED))
        self._send(tracked, self._workers.driver(tracked))

    def _prevent_start(self, tracked: Tracked) -> None:
        """A start that was sent, by us or by another server, may still be on its way: it must be refused there."""
        driver = self._workers.driver(tracked)
        driver.clean(Handle(driver.kind, tracked.job_id, tracked.nonce))

    def _find(self, tracked: Tracked) -> Handle | None:
        """Whether its target has it already. Whatever keeps us from asking is no answer: it may well be running."""
        try:
            found = self._workers.driver(tracked).find(tracked.job_id, tracked.nonce)
        except WindlassError as e:
            if e.transient or isinstance(e, Conflict):
                raise
            raise TargetUnreachable(e.message, e.hint) from e
        tracked.heard = time.monotonic()
        return found

    def _send(self, tracked: Tracked, driver: Driver[Any]) -> None:
        plan = self._workers.ahead.take(tracked.leased) or driver.plan(self._jobs.job(tracked.leased))
        reach("F06")
        was_adopted, line = tracked.is_adopted, TrackedPool(driver.connections)
        tracked.is_adopted = True  # from here on the target may have it, whatever we hear
        tracked.heard = time.monotonic()  # how long it waited to be sent is no silence
        try:
            there = line.of(driver)
            there.report = partial(self._report_sending, tracked)
            handle = there.start(plan)
        except WindlassError:
            tracked.is_adopted = was_adopted or not line.is_cut_off
            raise
        self._accept(tracked, handle)

    def _accept(self, tracked: Tracked, handle: Handle) -> None:
        # A handle that says no more than the job's id can be found again by that, and is saved with the next step.
        tracked.is_handle_saved = handle.native_id != tracked.job_id
        if tracked.is_handle_saved:
            self._store.runs.save_handle(tracked.run.id, tracked.run.attempt, row_of(handle), tracked.fence)
        tracked.handle = handle
        tracked.heard = time.monotonic()
        self._workers.tracking.name(handle.native_id, tracked)
        if tracked.run.state is RunState.STARTING and tracked.run.message:  # it is sent
            self._advance(tracked, Step(RunState.STARTING, Reason.ACCEPTED, ""))

    def _report_sending(self, tracked: Tracked, sending: Sending) -> None:
        """How far a start is. A target that takes bytes answers."""
        target = tracked.run.target
        if sending.total:
            tracked.heard = time.monotonic()
            self._workers.note_answer(tracked, None)
            message = f"sending files to {target}: {sending.done / 1e6:.1f} of {sending.total / 1e6:.1f} MB"
        elif tracked.run.state is RunState.STARTING:
            message = f"connecting to {target}"
        else:
            return  # it says already why it waits
        try:
            self._advance(tracked, Step(RunState.STARTING, Reason.ACCEPTED, message))
        except WindlassError as e:
            log.info("run=%s: how far its start is was not written: %s", tracked.run.id, e.message)

    def _follow(self, tracked: Tracked, handle: Handle) -> None:
        news = self._workers.tracking.take_news(tracked)
        if news.is_stale:
            self._refresh(tracked)
        if tracked.run.intent is Intent.CANCEL:
            self._send_stop(tracked, handle)
        if news.told is not None and news.told.phase is Phase.ENDED:
            return self._apply(tracked, news.told)  # all that has grown is collected with the rest
        source = self._workers.source(tracked, handle)
        if news.grown:
            tracked.budget.notes.clear()
        for path in news.grown:
            if self._intake.pull_some(source, path):
                self._workers.hear(handle.native_id, FileGrew(path))
        if news.told is not None:
            self._apply(tracked, news.told)
        elif news.is_changed:
            self._observe(tracked, handle)
        self._update_message(tracked)

    def _update_message(self, tracked: Tracked) -> None:
        """The message of a run whose script runs: what is not stored of it, and what its target reports."""
        run = tracked.run
        message = "; ".join(text for text in (*tracked.budget.notes, tracked.reported) if text)
        if run.state is RunState.RUNNING and tracked.end is None and message != run.message:
            self._reword(tracked, Step(run.state, run.reason or Reason.STARTED, message))

    def _send_stop(self, tracked: Tracked, handle: Handle) -> None:
        """Cancel is re-sent until the end is seen; the far side takes the first wish and ignores the rest."""
        if time.monotonic() - tracked.stop_sent >= STOP_AGAIN:
            self._workers.driver(tracked).stop(handle, timedelta(seconds=tracked.spec.grace_seconds))
            tracked.stop_sent = time.monotonic()
            self._workers.later(tracked.run.id, STOP_AGAIN)

    def _observe(self, tracked: Tracked, handle: Handle) -> None:
        [seen] = self._workers.driver(tracked).observe([handle])
        self._apply(tracked, seen)

    def _apply(self, tracked: Tracked, seen: Observation) -> None:
        if seen.phase is not Phase.LOST:
            tracked.heard = time.monotonic()
        if seen.phase is Phase.LOST or (seen.phase is Phase.ENDED and self._store.is_shared):
            self._refresh(tracked)  # a wish to cancel may have come through another server
        if seen.phase is Phase.LOST and tracked.end is not None:
            return self._tell_unkept(tracked, *tracked.end, seen.message or "its target has nothing of it any more")
        if seen.is_startable and tracked.run.intent is Intent.RUN:
            log.warning("run=%s was claimed and never started; it is started again", tracked.run.id)
            return self._send(tracked, self._workers.driver(tracked))
        step = decide(tracked.run, seen, tracked.silence, self._patience)
        if step is None and seen.stage is tracked.run.state and seen.stage in _REASONS and seen.message:
            step = Step(seen.stage, _REASONS[seen.stage], seen.message)
        if seen.stage is RunState.RUNNING:
            tracked.reported = seen.message
        if step is None:
            return self._update_message(tracked)
        if step.state not in FINAL:
            return self._advance(tracked, step)
        is_long = len(seen.files) > MANY_FILES
        tracked.end = step, replace(seen, files=()) if is_long else seen
        if seen.phase is Phase.ENDED:
            self._pass_on_slot(tracked)
        if is_long:
            self._finish_aside(tracked, step, None)
        elif is_much(seen):
            self._finish_aside(tracked, step, seen)
        else:
            self._finish(tracked, step, seen)

    def _pass_on_slot(self, tracked: Tracked) -> None:
        """The next run need not wait until the record of this one is whole."""
        run = tracked.run
        slots = self._workers.reach.slots(run)
        if slots is None:
            return
        left = [t.run.id for t in self._workers.tracking.all() if t.end and t.run.target == run.target]
        admitted = self._store.runs.admit(run.workspace, run.target, self._owner, slots, self._lease_seconds, left)
        for leased in admitted:
            # One that has been made ready there is on its way before the rest is done here.
            self._take_in(leased, is_urgent=self._workers.ahead.is_ready(leased.run.id))
        tracked.has_left = bool(admitted)

    def _take_in(self, leased: Leased, is_urgent: bool = False) -> None:
        self._hub.publish(leased.run.id)
        self._workers.track(leased, is_adopted=False)
        if not is_urgent:
            self._workers.wake(leased.run.id)
        elif self._workers.tracking.hold(leased.run.id):
            self._workers.work(leased.run.id)

    def _advance(self, tracked: Tracked, step: Step) -> None:
        run = tracked.run
        if step.state is run.state:
            return self._reword(tracked, step)
        tracked.run = self._store.runs.advance(
            run.id, expect=run.state, step=step, fence=tracked.fence, handle=tracked.unsaved_handle
        )
        tracked.is_handle_saved = tracked.handle is not None
        log.info("run=%s state=%s reason=%s", run.id, step.state.value, step.reason.value)
        self._hub.publish(run.id)
        if step.state is RunState.RUNNING:
            self._workers.look_ahead(run.workspace, run.target)

    def _reword(self, tracked: Tracked, step: Step) -> None:
        """It waits for something else now, or it is further."""
        before = tracked.run.message
        if step.message == before:
            return
        # Progress is what follows the colon while something is built; while it is sent, all of it.
        is_same_work = step.state is RunState.PREPARING and step.message.split(": ")[0] == before.split(": ")[0]
        is_progress = is_same_work or step.state is RunState.STARTING
        write = self._store.runs.report if is_progress else self._store.runs.reword
        tracked.run = write(tracked.run.id, step=step, fence=tracked.fence)
        self._hub.publish(tracked.run.id)

    def _finish_aside(self, tracked: Tracked, step: Step, seen: Observation | None) -> None:
        """Large outputs are collected by another pool, so that nobody waits for them to be started."""
        if tracked.run.state is not RunState.FINALIZING:
            self._advance(tracked, Step(RunState.FINALIZING, Reason.COLLECTING_OUTPUTS, "collecting its outputs"))
        tracked.is_finishing = True
        self._workers.collect(tracked, partial(self._finish_held, tracked, step, seen))

    def _finish_held(self, tracked: Tracked, step: Step, seen: Observation | None) -> None:
        """Without `seen` its list of files is long: it is asked for now, and one such list of a target is in memory."""
        try:
            with self._coping(tracked):
                if seen is not None:
                    return self._finish(tracked, step, seen)
                with self._workers.long_list(tracked):
                    assert tracked.handle is not None, "it was seen"
                    [seen] = self._workers.driver(tracked).observe([tracked.handle])
                    if seen.phase is not Phase.ENDED:
                        raise TargetUnreachable(f"{tracked.run.target} does not say any more how the run ended.")
                    self._finish(tracked, step, seen)
        finally:
            tracked.is_finishing = False

    def _finish(self, tracked: Tracked, step: Step, seen: Observation) -> None:
        run, handle = tracked.run, tracked.handle
        if handle is None:
            artifacts = []
        elif seen.files or seen.left_out or seen.unlisted:
            source = self._workers.source(tracked, handle)
            artifacts = self._intake.collect(source, seen.files, seen.left_out, seen.unlisted)
            step = replace(step, message="; ".join(filter(None, [step.message, *tracked.budget.notes])))
            if not seen.files:
                artifacts += self._intake.keep_pulled(run.id, run.attempt)
        else:
            artifacts = self._intake.keep_pulled(run.id, run.attempt)
        slots = self._workers.reach.slots(run)
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
        self._workers.tracking.remove(run.id)
        self._hub.publish(run.id)
        for leased in admitted:
            self._take_in(leased)
        self._jobs.grants.forget(run)
        reach("F20")
        if handle is not None:
            self._workers.cleaning.note(tracked.run, handle)

    # when it does not go well

    def _try_later(self, tracked: Tracked, why: str, advice: str = "") -> None:
        tracked.tries += 1
        tracked.is_changed = tracked.is_stale = True  # the news that brought us here were taken, and not heeded
        self._workers.later(tracked.run.id, min(30.0, 0.25 * 2 ** min(tracked.tries, 10)))
        if self._workers.is_stopping:
            return  # it may be us who let it down; the next server sees for itself
        try:
            self._tell_silence(tracked, why, advice)
        except WindlassError as e:
            log.warning("run=%s: %s", tracked.run.id, e.message)

    def _tell_silence(self, tracked: Tracked, why: str, advice: str) -> None:
        run = tracked.run
        step: Step | None = None
        if tracked.end is not None:
            return self._tell_unkept(tracked, *tracked.end, why)
        if tracked.is_adopted:
            step = decide(run, None, tracked.silence, self._patience, why)
        if step is None and tracked.handle is None and run.state in (RunState.STARTING, RunState.QUEUED):
            word = f"waiting for {run.target}: {why}" + (f"\n{advice}" if advice else "")
            step = Step(RunState.QUEUED, Reason.WAITING_FOR_TARGET, word)
        if step is not None and step.state in FINAL:
            self._give_up(tracked, step)
        elif step is not None:
            self._advance(tracked, step)

    def _tell_unkept(self, tracked: Tracked, end: Step, seen: Observation, why: str) -> None:
        """How it ended is known, and what it left is not here yet."""
        run, silence = tracked.run, tracked.silence
        is_refused = tracked.tries >= CANCEL_TRIES and silence < self._patience.show_after  # it answers, but not this
        if run.intent is Intent.CANCEL and (tracked.is_out_of_room or is_refused):
            word = f"{end.message}; canceled while its record could not be kept: {why}"
            if end.state is RunState.COMPLETED:  # without its outputs it is not
                end = replace(end, state=RunState.CANCELED, reason=Reason.STOPPED)
            self._finish(tracked, replace(end, message=word), replace(seen, files=()))
        elif silence >= self._patience.give_up_after:
            word = f"{end.message}, but what it left is lost: gave up after {silence} without contact: {why}"
            if end.state is RunState.COMPLETED:  # without its outputs it is not
                end = replace(end, state=RunState.FAILED, reason=Reason.GAVE_UP)
            self._finish(tracked, replace(end, message=word), replace(seen, files=()))
        elif run.state is not RunState.FINALIZING:
            word = f"{end.message}; its record could not be kept yet: {why}"
            self._advance(tracked, Step(RunState.FINALIZING, Reason.COLLECTING_OUTPUTS, word))
        elif tracked.tries == 1:
            word = f"{end.message}; its record could not be kept yet: {why}"
            self._reword(tracked, Step(run.state, Reason.COLLECTING_OUTPUTS, word))

    def _give_up(self, tracked: Tracked, step: Step) -> None:
        """One whose receipt never came is known by its job's id: if it runs all the same, it is stopped later."""
        if tracked.handle is None:
            kind = self._workers.reach.target(*tracked.place).kind
            tracked.handle = Handle(kind, tracked.job_id, tracked.nonce)
        self._finish(tracked, step, Observation(Phase.ENDED))

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
            self._workers.tracking.remove(tracked.run.id)
            self._jobs.grants.forget(tracked.run)
        else:
            tracked.tries += 1
            tracked.is_changed = True
            self._workers.later(tracked.run.id, min(30.0, 0.1 * 2 ** min(tracked.tries, 10)))
