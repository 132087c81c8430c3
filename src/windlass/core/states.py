"""States of a run, the observations of drivers, and `decide`: the only function that derives a run's next state.

    NotStarted ─> { Queued, Starting, Provisioning, Preparing } ─> Running ─> Finalizing ─> final
                                └────────────── NotResponding ──────────────┘  (from and to anything that is not final)

Within an attempt a run moves only forward; the four waiting states are one rank, since engines queue before or after
they prepare. A final state never changes. A request to cancel is an intent beside the state: the state stays true.
When an attempt ends, the run becomes final, or is queued again for the next attempt.
"""

from __future__ import annotations

import signal as signals
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

if TYPE_CHECKING:
    from windlass.core.entities import RetryPolicy, Run


class RunState(str, Enum):
    NOT_STARTED = "NotStarted"
    QUEUED = "Queued"
    STARTING = "Starting"
    PROVISIONING = "Provisioning"
    PREPARING = "Preparing"
    RUNNING = "Running"
    FINALIZING = "Finalizing"
    NOT_RESPONDING = "NotResponding"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"


class Intent(str, Enum):
    RUN = "run"
    CANCEL = "cancel"


class Reason(str, Enum):
    """Why a run waits, or why it ended. The reason of an end determines the final state."""

    # waiting
    ACCEPTED = "accepted"
    WAITING_FOR_SLOT = "waiting_for_slot"
    WAITING_FOR_TARGET = "waiting_for_target"
    WAITING_IN_QUEUE = "waiting_in_queue"
    BUILDING_ENVIRONMENT = "building_environment"
    COLLECTING_OUTPUTS = "collecting_outputs"
    NO_CONTACT = "no_contact"
    STARTED = "started"
    # ended
    EXITED = "exited"
    SIGNALED = "signaled"
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    STOPPED = "stopped"
    START_FAILED = "start_failed"
    ENVIRONMENT_FAILED = "environment_failed"
    EXIT_UNKNOWN = "exit_unknown"
    SUPERVISOR_LOST = "supervisor_lost"
    NODE_LOST = "node_lost"
    EVICTED = "evicted"
    GAVE_UP = "gave_up"
    REJECTED = "rejected"
    CLIENT = "client"


class Phase(str, Enum):
    """Phase of a job, as a driver observes it."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True)
class Observation:
    """A driver's report on one job. `stage` is the runner's state of a running job (Starting, Preparing, Running).

    For an ended job it includes its files (path, size, digest), its resource usage and times, which saves requests.
    `left_out` are files whose names are not valid, and `unlisted` counts files that did not fit into the list.
    """

    phase: Phase
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    reason: Optional[Reason] = None
    message: str = ""
    stage: Optional[RunState] = None
    files: Tuple[Tuple[str, int, Optional[str]], ...] = ()
    left_out: Tuple[str, ...] = ()
    unlisted: int = 0
    usage: Optional[Dict[str, Any]] = None
    started_at: Optional[float] = None
    ended_at: Optional[float] = None
    # With LOST: the backend has the job and certainly never started it, so the same job may be started.
    is_startable: bool = False


@dataclass(frozen=True)
class Step:
    """Next state of a run. `is_retry`: the attempt ended, by `reason`, and the run is queued for the next one."""

    state: RunState
    reason: Reason
    message: str
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    is_retry: bool = False


@dataclass(frozen=True)
class Retries:
    """Retry policy of a run, and how many attempts it was applied to so far."""

    policy: "RetryPolicy"
    evicted: int = 0  # attempts that ended by an eviction
    retried: int = 0  # attempts that ended in another way and were retried


@dataclass(frozen=True)
class Patience:
    """Timeouts without contact to a job: until the run is shown as NotResponding, and until it is given up."""

    show_after: timedelta = timedelta(seconds=45)
    give_up_after: timedelta = timedelta(hours=24)


_DEFAULT_PATIENCE = Patience()

_LOSSES = frozenset({Reason.NODE_LOST, Reason.SUPERVISOR_LOST})
_EVICTIONS = _LOSSES | {Reason.STOPPED}

FINAL = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.CANCELED})
WAITING = frozenset({RunState.QUEUED, RunState.STARTING, RunState.PROVISIONING, RunState.PREPARING})
ACTIVE = frozenset(RunState) - FINAL - {RunState.NOT_STARTED}

_RANK = {
    RunState.NOT_STARTED: 0,
    RunState.QUEUED: 1,
    RunState.STARTING: 1,
    RunState.PROVISIONING: 1,
    RunState.PREPARING: 1,
    RunState.RUNNING: 2,
    RunState.FINALIZING: 3,
    RunState.COMPLETED: 4,
    RunState.FAILED: 4,
    RunState.CANCELED: 4,
}


def may_become(now: RunState, then: RunState) -> bool:
    """Whether an attempt may move from one state to another."""
    if now in FINAL or now is then:
        return False
    if RunState.NOT_RESPONDING in (now, then):
        return then is not RunState.NOT_STARTED
    return _RANK[then] > _RANK[now] or (now in WAITING and then in WAITING)


def decide(
    run: "Run",
    seen: Optional[Observation],
    silence: timedelta,
    patience: Patience = _DEFAULT_PATIENCE,
    why: str = "the target does not answer",
    retries: Optional[Retries] = None,
) -> Optional[Step]:
    """The next state of a run, or None, given the last observation of its job.

    `seen` is None if the target could not be reached, and `why` is the reason. `silence` is the time since the last
    contact, by a monotonic clock. A missing answer ends no run: only evidence, the user or `give_up_after` does.
    Without `retries`, the end of the attempt is the end of the run.
    """
    if run.is_final:
        return None
    if seen is None or seen.phase is Phase.LOST:
        step = _without_contact(run, seen, silence, patience, why)
    else:
        step = _observed(run, seen, retries)
    if step is None or not (step.is_retry or may_become(run.state, step.state)):
        return None
    return step


def _without_contact(
    run: "Run", seen: Optional[Observation], silence: timedelta, patience: Patience, why: str
) -> Optional[Step]:
    word = seen.message if seen is not None and seen.message else why
    if seen is not None and run.intent is Intent.CANCEL:
        return Step(RunState.CANCELED, Reason.STOPPED, f"canceled; {word}")
    if silence >= patience.give_up_after:
        return Step(RunState.FAILED, Reason.GAVE_UP, f"gave up after {silence} without contact: {word}")
    if silence >= patience.show_after or seen is not None:
        return Step(RunState.NOT_RESPONDING, Reason.NO_CONTACT, f"{word}; the run may still be going on")
    return None


def _observed(run: "Run", seen: Observation, retries: Optional[Retries]) -> Optional[Step]:
    if seen.phase is Phase.QUEUED:
        return Step(RunState.QUEUED, Reason.WAITING_IN_QUEUE, seen.message or "waiting in the target's queue")
    if seen.phase is Phase.RUNNING:
        if seen.stage is RunState.PREPARING:
            return Step(RunState.PREPARING, Reason.BUILDING_ENVIRONMENT, seen.message or "building the environment")
        if seen.stage is RunState.STARTING:
            return Step(RunState.STARTING, Reason.ACCEPTED, seen.message)
        return Step(RunState.RUNNING, Reason.STARTED, seen.message)
    reason = seen.reason or Reason.EXIT_UNKNOWN
    if reason is Reason.EXITED and seen.exit_code is None:
        reason = Reason.EXIT_UNKNOWN
    state = _final_state(run, reason, seen.exit_code)
    step = Step(state, reason, end_message(reason, seen), seen.exit_code, seen.signal)
    if state is not RunState.FAILED or run.intent is Intent.CANCEL or retries is None:
        return step
    if run.eviction is not None and reason in _EVICTIONS:
        return _evicted(run, step, run.eviction, retries)
    return _retried(run, step, retries)


def _evicted(run: "Run", step: Step, why: str, retries: Retries) -> Step:
    if retries.evicted < retries.policy.evictions:
        return _next_attempt(run, replace(step, reason=Reason.EVICTED, message=f"evicted: {why}"), retries)
    used = f"after {retries.evicted} of at most {retries.policy.evictions} further attempts"
    return replace(step, reason=Reason.EVICTED, message=f"evicted: {why}; it is not queued again {used}")


def _retried(run: "Run", step: Step, retries: Retries) -> Step:
    count = retries.policy.count
    if not _is_retried(retries.policy, step.reason, step.exit_code):
        return step
    if retries.retried < count:
        return _next_attempt(run, step, retries)
    return replace(step, message=f"{step.message}; {retries.retried} of {count} retries are used") if count else step


def _is_retried(policy: "RetryPolicy", reason: Reason, exit_code: Optional[int]) -> bool:
    """Whether the policy covers this end of an attempt, whatever is left of its count."""
    names = {"failure"}
    if reason in _LOSSES:
        names.add("node-loss")
    if reason is Reason.EXITED:
        names.add(f"exit:{exit_code}")
    return not names.isdisjoint(policy.on)


def _next_attempt(run: "Run", step: Step, retries: Retries) -> Step:
    most = 1 + retries.policy.evictions + retries.policy.count
    message = f"{step.message}; attempt {run.attempt + 1} of at most {most} waits"
    return replace(step, state=RunState.QUEUED, message=message, is_retry=True)


def _final_state(run: "Run", reason: Reason, exit_code: Optional[int]) -> RunState:
    """Completed needs proof of exit code 0; Canceled needs a request to cancel, and that it ended the job."""
    if reason is Reason.EXITED and exit_code == 0:
        return RunState.COMPLETED
    if reason is Reason.STOPPED and run.intent is Intent.CANCEL:
        return RunState.CANCELED
    return RunState.FAILED


def end_message(reason: Reason, seen: Observation) -> str:
    """One sentence on how a job ended."""
    words = {
        Reason.EXITED: f"exit code {seen.exit_code}",
        Reason.SIGNALED: f"killed by signal {_signal_name(seen.signal)}",
        Reason.OUT_OF_MEMORY: "killed because the machine ran out of memory",
        Reason.TIME_LIMIT: "stopped at its time limit",
        Reason.STOPPED: "stopped on request",
        Reason.START_FAILED: "it could not be started",
        Reason.ENVIRONMENT_FAILED: "the environment could not be built",
        Reason.EXIT_UNKNOWN: "ended, and its exit code is not known",
        Reason.SUPERVISOR_LOST: "its supervisor was killed",
        Reason.NODE_LOST: "its machine was restarted",
        Reason.EVICTED: "it was evicted",
    }
    word = words.get(reason, reason.value.replace("_", " "))
    return f"{word}: {seen.message}" if seen.message else word


def _signal_name(number: Optional[int]) -> str:
    if number is None:
        return "unknown"
    try:
        return f"{number} ({signals.Signals(number).name})"
    except ValueError:
        return str(number)
