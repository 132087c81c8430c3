"""Which ends of an attempt are followed by another one, and which end the run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_states import LOST, NONE, PATIENCE, R, S, ended, make_run, runs, seen, silences
from tests.core.values import instances
from windlass.core.entities import RetryPolicy, Run
from windlass.core.states import FINAL, Intent, Observation, Phase, Reason, Retries, RunState, Step, decide

WHY = "a dedicated run needs the node"
EVICTED = replace(make_run(S.RUNNING), eviction=WHY)
ANY_FAILURE = RetryPolicy(count=2, on=("failure",))
NODE_LOSS = RetryPolicy(count=2)
EXIT_75 = RetryPolicy(count=1, on=("exit:75", "exit:76"))


def decided(run: Run, seen: Observation, policy: RetryPolicy | None = None, evicted: int = 0, retried: int = 0) -> Step:
    step = decide(run, seen, NONE, PATIENCE, retries=Retries(policy or RetryPolicy(), evicted, retried))
    assert step is not None
    return step


@pytest.mark.parametrize("seen", [ended(R.STOPPED, None, 15), ended(R.STOPPED, 0), ended(R.NODE_LOST)])
@pytest.mark.parametrize("state", [S.QUEUED, S.STARTING, S.PREPARING, S.RUNNING, S.FINALIZING, S.NOT_RESPONDING])
def test_an_evicted_run_is_queued_again(state: RunState, seen: Observation) -> None:
    step = decided(replace(EVICTED, state=state), seen)
    assert (step.state, step.reason, step.is_retry) == (S.QUEUED, R.EVICTED, True)
    assert step.message == f"evicted: {WHY}; attempt 2 of at most 4 waits"
    assert (step.exit_code, step.signal) == (seen.exit_code, seen.signal)


def test_the_last_eviction_fails_the_run_with_the_numbers() -> None:
    assert decided(replace(EVICTED, attempt=3), ended(R.STOPPED), evicted=2).is_retry
    step = decided(replace(EVICTED, attempt=4), ended(R.STOPPED), evicted=3)
    assert (step.state, step.reason, step.is_retry) == (S.FAILED, R.EVICTED, False)
    assert step.message == f"evicted: {WHY}; it is not queued again after 3 of at most 3 further attempts"
    assert not decided(EVICTED, ended(R.STOPPED), RetryPolicy(evictions=0)).is_retry


@pytest.mark.parametrize(
    ("end", "state", "reason"),
    [
        (ended(R.EXITED, 0), S.COMPLETED, R.EXITED),
        (ended(R.EXITED, 3), S.FAILED, R.EXITED),
        (ended(R.SIGNALED, None, 9), S.FAILED, R.SIGNALED),
        (ended(R.TIME_LIMIT), S.FAILED, R.TIME_LIMIT),
    ],
)
def test_an_end_before_the_eviction_took_effect_counts(end: Observation, state: RunState, reason: Reason) -> None:
    step = decided(EVICTED, end)
    assert (step.state, step.reason, step.is_retry) == (state, reason, False)


def test_a_cancel_wins_over_an_eviction_and_a_retry() -> None:
    canceled = replace(EVICTED, intent=Intent.CANCEL)
    assert decided(canceled, ended(R.STOPPED)).state is S.CANCELED
    assert decided(canceled, ended(R.NODE_LOST), NODE_LOSS).state is S.FAILED
    assert decided(canceled, ended(R.EXITED, 1), ANY_FAILURE).state is S.FAILED


@pytest.mark.parametrize(
    ("policy", "end", "is_retry"),
    [
        (NODE_LOSS, ended(R.NODE_LOST), True),
        (NODE_LOSS, ended(R.SUPERVISOR_LOST), True),
        (NODE_LOSS, ended(R.EXITED, 1), False),
        (NODE_LOSS, ended(R.STOPPED), False),
        (RetryPolicy(), ended(R.NODE_LOST), False),
        (ANY_FAILURE, ended(R.EXITED, 1), True),
        (ANY_FAILURE, ended(R.NODE_LOST), True),
        (ANY_FAILURE, ended(R.OUT_OF_MEMORY, None, 9), True),
        (ANY_FAILURE, ended(R.EXIT_UNKNOWN), True),
        (EXIT_75, ended(R.EXITED, 75), True),
        (EXIT_75, ended(R.EXITED, 76), True),
        (EXIT_75, ended(R.EXITED, 1), False),
        (EXIT_75, ended(R.STOPPED, 75), False),
        (EXIT_75, ended(R.NODE_LOST), False),
    ],
)
def test_retries_follow_the_ends_that_the_policy_names(policy: RetryPolicy, end: Observation, is_retry: bool) -> None:
    step = decided(make_run(S.RUNNING), end, policy)
    assert step.is_retry is is_retry
    assert step.reason is end.reason
    assert step.state is (S.QUEUED if is_retry else S.FAILED)


def test_retries_are_counted_apart_from_evictions() -> None:
    run = replace(make_run(S.RUNNING), attempt=5)
    step = decided(run, ended(R.NODE_LOST), NODE_LOSS, evicted=3, retried=1)
    assert step.message == "its machine was restarted; attempt 6 of at most 6 waits"
    step = decided(run, ended(R.NODE_LOST), NODE_LOSS, evicted=3, retried=2)
    assert (step.state, step.message) == (S.FAILED, "its machine was restarted; 2 of 2 retries are used")
    assert decided(run, ended(R.NODE_LOST)).message == "its machine was restarted"


def test_a_success_is_no_failure_to_retry() -> None:
    assert decided(make_run(S.RUNNING), ended(R.EXITED, 0), ANY_FAILURE).state is S.COMPLETED


retries = st.builds(Retries, instances(RetryPolicy), st.integers(0, 4), st.integers(0, 4))


@given(run=runs, eviction=st.none() | st.just(WHY), seen=seen, silence=silences, retries=retries)
def test_a_retry_needs_proof_that_the_attempt_has_ended(
    run: Run, eviction: str | None, seen: Observation | None, silence: object, retries: Retries
) -> None:
    """What is not known to have ended may still run: another attempt beside it would be a second one."""
    step = decide(replace(run, eviction=eviction), seen, silence, PATIENCE, retries=retries)  # type: ignore[arg-type]
    if step and step.is_retry:
        assert seen is not None and seen.phase is Phase.ENDED
        assert run.intent is Intent.RUN and run.state not in FINAL
        assert step.state is S.QUEUED


def test_a_run_that_was_given_up_is_not_retried() -> None:
    for silence_of in (None, LOST):
        step = decide(EVICTED, silence_of, PATIENCE.give_up_after, PATIENCE, retries=Retries(ANY_FAILURE))
        assert step is not None and (step.state, step.reason, step.is_retry) == (S.FAILED, R.GAVE_UP, False)


@pytest.mark.parametrize(
    ("intent", "eviction", "is_stopping"),
    [(Intent.RUN, None, False), (Intent.CANCEL, None, True), (Intent.RUN, WHY, True)],
)
def test_a_run_stops_for_a_cancel_or_an_eviction(intent: Intent, eviction: str | None, is_stopping: bool) -> None:
    assert replace(make_run(S.RUNNING, intent), eviction=eviction).is_stopping is is_stopping
