"""What becomes of a run is decided in one place: every row of the table, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.values import instances
from windlass.core.entities import Run
from windlass.core.states import (
    ACTIVE,
    FINAL,
    WAITING,
    Intent,
    Observation,
    Patience,
    Phase,
    Reason,
    RunState,
    Step,
    decide,
    may_become,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PATIENCE = Patience(show_after=timedelta(seconds=45), give_up_after=timedelta(hours=24))
NONE = timedelta(0)


def make_run(state: RunState, intent: Intent = Intent.RUN) -> Run:
    return Run(
        id="demo_1_ab", workspace="default", experiment="demo", number=1, type="azureml.scriptrun",
        state=state, state_at=NOW, created_at=NOW, intent=intent,
    )  # fmt: skip


def ended(reason: Reason | None, exit_code: int | None = None, signal: int | None = None) -> Observation:
    return Observation(Phase.ENDED, exit_code=exit_code, signal=signal, reason=reason)


QUEUED = Observation(Phase.QUEUED)
RUNNING = Observation(Phase.RUNNING)
PREPARING = Observation(Phase.RUNNING, stage=RunState.PREPARING)
STARTING = Observation(Phase.RUNNING, stage=RunState.STARTING)
LOST = Observation(Phase.LOST, message="no folder of this run is there")

S, R = RunState, Reason


@pytest.mark.parametrize(
    ("state", "intent", "seen", "becomes", "reason"),
    [
        # the way of a run that goes well
        (S.STARTING, Intent.RUN, QUEUED, S.QUEUED, R.WAITING_IN_QUEUE),
        (S.QUEUED, Intent.RUN, PREPARING, S.PREPARING, R.BUILDING_ENVIRONMENT),
        (S.QUEUED, Intent.RUN, STARTING, S.STARTING, R.ACCEPTED),
        (S.PREPARING, Intent.RUN, RUNNING, S.RUNNING, R.STARTED),
        (S.STARTING, Intent.RUN, RUNNING, S.RUNNING, R.STARTED),
        (S.RUNNING, Intent.RUN, ended(R.EXITED, 0), S.COMPLETED, R.EXITED),
        (S.STARTING, Intent.RUN, ended(R.EXITED, 0), S.COMPLETED, R.EXITED),
        (S.FINALIZING, Intent.RUN, ended(R.EXITED, 0), S.COMPLETED, R.EXITED),
        # nothing new, or a word from earlier that comes late
        (S.RUNNING, Intent.RUN, RUNNING, None, None),
        (S.QUEUED, Intent.RUN, QUEUED, None, None),
        (S.RUNNING, Intent.RUN, QUEUED, None, None),
        (S.RUNNING, Intent.RUN, PREPARING, None, None),
        (S.FINALIZING, Intent.RUN, RUNNING, None, None),
        # ends that are no success
        (S.RUNNING, Intent.RUN, ended(R.EXITED, 7), S.FAILED, R.EXITED),
        (S.RUNNING, Intent.RUN, ended(R.SIGNALED, None, 9), S.FAILED, R.SIGNALED),
        (S.RUNNING, Intent.RUN, ended(R.OUT_OF_MEMORY, None, 9), S.FAILED, R.OUT_OF_MEMORY),
        (S.RUNNING, Intent.RUN, ended(R.TIME_LIMIT), S.FAILED, R.TIME_LIMIT),
        (S.STARTING, Intent.RUN, ended(R.START_FAILED), S.FAILED, R.START_FAILED),
        (S.PREPARING, Intent.RUN, ended(R.ENVIRONMENT_FAILED), S.FAILED, R.ENVIRONMENT_FAILED),
        (S.RUNNING, Intent.RUN, ended(R.SUPERVISOR_LOST), S.FAILED, R.SUPERVISOR_LOST),
        (S.RUNNING, Intent.RUN, ended(R.NODE_LOST), S.FAILED, R.NODE_LOST),
        # an exit code that nobody saw is not zero
        (S.RUNNING, Intent.RUN, ended(R.EXIT_UNKNOWN), S.FAILED, R.EXIT_UNKNOWN),
        (S.RUNNING, Intent.RUN, ended(None), S.FAILED, R.EXIT_UNKNOWN),
        (S.RUNNING, Intent.RUN, ended(None, 0), S.FAILED, R.EXIT_UNKNOWN),
        (S.RUNNING, Intent.RUN, ended(R.EXITED, None), S.FAILED, R.EXIT_UNKNOWN),
        # cancel: the wish ends it, or the truth was faster
        (S.RUNNING, Intent.CANCEL, ended(R.STOPPED, None, 15), S.CANCELED, R.STOPPED),
        (S.QUEUED, Intent.CANCEL, ended(R.STOPPED), S.CANCELED, R.STOPPED),
        (S.RUNNING, Intent.CANCEL, ended(R.EXITED, 0), S.COMPLETED, R.EXITED),
        (S.RUNNING, Intent.CANCEL, ended(R.EXITED, 3), S.FAILED, R.EXITED),
        (S.RUNNING, Intent.CANCEL, ended(R.SIGNALED, None, 9), S.FAILED, R.SIGNALED),
        (S.RUNNING, Intent.RUN, ended(R.STOPPED, None, 15), S.FAILED, R.STOPPED),
        # silence
        (S.RUNNING, Intent.RUN, LOST, S.NOT_RESPONDING, R.NO_CONTACT),
        (S.NOT_RESPONDING, Intent.RUN, LOST, None, None),
        (S.NOT_RESPONDING, Intent.RUN, QUEUED, S.QUEUED, R.WAITING_IN_QUEUE),
        (S.NOT_RESPONDING, Intent.RUN, RUNNING, S.RUNNING, R.STARTED),
        (S.NOT_RESPONDING, Intent.RUN, ended(R.EXITED, 0), S.COMPLETED, R.EXITED),
        (S.NOT_RESPONDING, Intent.CANCEL, ended(R.STOPPED), S.CANCELED, R.STOPPED),
        # a job that the target does not know, and that nobody wants any more
        (S.NOT_RESPONDING, Intent.CANCEL, LOST, S.CANCELED, R.STOPPED),
        (S.STARTING, Intent.CANCEL, LOST, S.CANCELED, R.STOPPED),
        # final is final
        (S.FAILED, Intent.RUN, ended(R.EXITED, 0), None, None),
        (S.COMPLETED, Intent.RUN, ended(R.EXITED, 1), None, None),
        (S.CANCELED, Intent.CANCEL, RUNNING, None, None),
        (S.COMPLETED, Intent.RUN, LOST, None, None),
    ],
)  # fmt: skip
def test_what_is_seen_decides(
    state: RunState, intent: Intent, seen: Observation, becomes: RunState | None, reason: Reason | None
) -> None:
    step = decide(make_run(state, intent), seen, NONE, PATIENCE)
    assert (step and step.state, step and step.reason) == (becomes, reason)
    if step and step.state in FINAL:
        assert (step.exit_code, step.signal) == (seen.exit_code, seen.signal)


@pytest.mark.parametrize(
    ("state", "silence", "becomes"),
    [
        (S.RUNNING, timedelta(0), None),
        (S.RUNNING, timedelta(seconds=44), None),
        (S.RUNNING, timedelta(seconds=45), S.NOT_RESPONDING),
        (S.NOT_RESPONDING, timedelta(hours=23), None),
        (S.NOT_RESPONDING, timedelta(hours=24), S.FAILED),
        (S.RUNNING, timedelta(days=9), S.FAILED),
        (S.STARTING, timedelta(seconds=45), S.NOT_RESPONDING),
        (S.FAILED, timedelta(days=9), None),
    ],
)
@pytest.mark.parametrize("intent", Intent)
def test_silence_is_shown_then_given_up(
    state: RunState, silence: timedelta, becomes: RunState | None, intent: Intent
) -> None:
    """Whatever the user wishes: who does not answer has not been stopped."""
    step = decide(make_run(state, intent), None, silence, PATIENCE)
    assert (step and step.state) == becomes
    if becomes is S.FAILED:
        assert step is not None and step.reason is R.GAVE_UP


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (ended(R.EXITED, 7), "exit code 7"),
        (ended(R.SIGNALED, None, 9), "killed by signal 9 (SIGKILL)"),
        (ended(R.SIGNALED, None, 250), "killed by signal 250"),
        (ended(R.SIGNALED), "killed by signal unknown"),
        (ended(R.OUT_OF_MEMORY, None, 9), "killed because the machine ran out of memory"),
        (ended(R.TIME_LIMIT), "stopped at its time limit"),
        (ended(R.EXIT_UNKNOWN), "ended, and its exit code is not known"),
        (ended(R.EXITED, None), "ended, and its exit code is not known"),
        (ended(R.REJECTED), "rejected"),
        (replace(ended(R.START_FAILED), message="train.py is not there"),
         "it could not be started: train.py is not there"),
        (QUEUED, "waiting in the target's queue"),
        (replace(QUEUED, message="3 jobs before it"), "3 jobs before it"),
        (PREPARING, "building the environment"),
        (LOST, "no folder of this run is there; the run may still be going on"),
    ],
)  # fmt: skip
def test_the_reason_is_told_in_one_sentence(seen: Observation, message: str) -> None:
    step = decide(make_run(S.STARTING), seen, NONE, PATIENCE)
    assert step is not None and step.message == message


def test_giving_up_says_how_long_and_why() -> None:
    silent = decide(make_run(S.RUNNING), None, timedelta(hours=25), PATIENCE)
    assert silent and silent.message == "gave up after 1 day, 1:00:00 without contact: the target does not answer"
    lost = decide(make_run(S.RUNNING), LOST, timedelta(hours=25), PATIENCE)
    assert lost and lost.message.endswith("without contact: no folder of this run is there")


def test_patience_of_attached_machines_is_a_day() -> None:
    assert decide(make_run(S.NOT_RESPONDING), None, timedelta(hours=23, minutes=59)) is None
    assert decide(make_run(S.NOT_RESPONDING), None, timedelta(hours=24)) is not None


states = st.sampled_from(RunState)
runs = st.builds(make_run, states, st.sampled_from(Intent))
seen = st.none() | instances(Observation)
silences = st.timedeltas(NONE, timedelta(days=3))


def step_of(run: Run, seen: Observation | None, silence: timedelta) -> Step | None:
    return decide(run, seen, silence, PATIENCE)


@given(run=runs, seen=seen, silence=silences)
def test_final_never_changes(run: Run, seen: Observation | None, silence: timedelta) -> None:
    if run.is_final:
        assert step_of(run, seen, silence) is None


@given(run=runs, seen=seen, silence=silences)
def test_a_step_is_allowed_by_the_table(run: Run, seen: Observation | None, silence: timedelta) -> None:
    step = step_of(run, seen, silence)
    assert step is None or may_become(run.state, step.state)


@given(run=runs, seen=seen, silence=silences)
def test_completed_needs_proof_of_exit_code_zero(run: Run, seen: Observation | None, silence: timedelta) -> None:
    step = step_of(run, seen, silence)
    if step and step.state is S.COMPLETED:
        assert seen and (seen.phase, seen.reason, seen.exit_code) == (Phase.ENDED, R.EXITED, 0)


@given(run=runs, seen=seen, silence=silences)
def test_canceled_needs_a_wish_and_an_answer(run: Run, seen: Observation | None, silence: timedelta) -> None:
    step = step_of(run, seen, silence)
    if step and step.state is S.CANCELED:
        assert run.intent is Intent.CANCEL
        assert seen and (seen.phase is Phase.LOST or (seen.phase, seen.reason) == (Phase.ENDED, R.STOPPED))


@given(run=runs, seen=seen, silence=silences)
def test_not_knowing_is_no_end_before_it_is_given_up(run: Run, seen: Observation | None, silence: timedelta) -> None:
    step = step_of(replace(run, intent=Intent.RUN), seen, silence)
    if step and step.state in FINAL and (seen is None or seen.phase is not Phase.ENDED):
        assert (step.state, step.reason) == (S.FAILED, R.GAVE_UP)
        assert silence >= PATIENCE.give_up_after


@given(run=runs, seen=seen, silence=silences)
def test_an_end_that_was_seen_ends_every_open_run(run: Run, seen: Observation | None, silence: timedelta) -> None:
    if seen and seen.phase is Phase.ENDED and not run.is_final:
        step = step_of(run, seen, silence)
        assert step is not None and step.state in FINAL


@given(run=runs, seen=seen, silence=silences)
def test_deciding_twice_changes_nothing_more(run: Run, seen: Observation | None, silence: timedelta) -> None:
    step = step_of(run, seen, silence)
    if step:
        assert step_of(replace(run, state=step.state), seen, silence) is None


@given(run=runs, seen=seen, silence=silences)
def test_every_step_has_a_word_for_people(run: Run, seen: Observation | None, silence: timedelta) -> None:
    step = step_of(run, seen, silence)
    if step and step.state is not S.RUNNING:
        assert step.message


FORWARD = [S.NOT_STARTED, S.STARTING, S.RUNNING, S.FINALIZING, S.COMPLETED]


@given(now=states, then=states)
def test_what_may_follow_what(now: RunState, then: RunState) -> None:
    expected = now is not then and now not in FINAL and then is not S.NOT_STARTED
    if expected and S.NOT_RESPONDING not in (now, then):
        expected = place(now) < place(then) or (now in WAITING and then in WAITING)
    assert may_become(now, then) is expected


def place(state: RunState) -> int:
    alike = {**dict.fromkeys(WAITING, S.STARTING), **dict.fromkeys(FINAL, S.COMPLETED)}
    return FORWARD.index(alike.get(state, state))


def test_every_state_is_waiting_active_or_final() -> None:
    assert ACTIVE | FINAL | {S.NOT_STARTED} == set(RunState)
    assert not ACTIVE & FINAL and WAITING < ACTIVE


@pytest.mark.parametrize(
    ("state", "intent", "status"),
    [
        (S.RUNNING, Intent.RUN, "Running"),
        (S.RUNNING, Intent.CANCEL, "CancelRequested"),
        (S.CANCELED, Intent.CANCEL, "Canceled"),
        (S.COMPLETED, Intent.CANCEL, "Completed"),
        (S.NOT_RESPONDING, Intent.RUN, "NotResponding"),
    ],
)
def test_a_wish_to_cancel_shows_until_it_is_fulfilled(state: RunState, intent: Intent, status: str) -> None:
    assert make_run(state, intent).status == status
