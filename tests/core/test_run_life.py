"""A run's life against a small model: whatever the order of things, what is shown is true, or says that it is unknown.

The machine plays the world (a job that queues, runs and ends; a network that breaks; a user who cancels; time) and a
server that looks now and then and does what `decide` says. The model knows the truth, which the server does not.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.sampling import examples
from windlass.core.entities import Run
from windlass.core.states import Intent, Observation, Patience, Phase, Reason, RunState, decide, may_become

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PATIENCE = Patience()

ENDS = {
    "exit 0": Observation(Phase.ENDED, reason=Reason.EXITED, exit_code=0),
    "exit 7": Observation(Phase.ENDED, reason=Reason.EXITED, exit_code=7),
    "killed": Observation(Phase.ENDED, reason=Reason.SIGNALED, signal=9),
    "out of memory": Observation(Phase.ENDED, reason=Reason.OUT_OF_MEMORY, signal=9),
    "too long": Observation(Phase.ENDED, reason=Reason.TIME_LIMIT, signal=15),
    "supervisor killed": Observation(Phase.ENDED, reason=Reason.EXIT_UNKNOWN),
    "machine restarted": Observation(Phase.ENDED, reason=Reason.NODE_LOST),
}
STOPPED = Observation(Phase.ENDED, reason=Reason.STOPPED, signal=15)
QUEUED = Observation(Phase.QUEUED)
PREPARING = Observation(Phase.RUNNING, stage=RunState.PREPARING)
RUNNING = Observation(Phase.RUNNING)
LOST = Observation(Phase.LOST, message="not in the queue")


class RunLife(RuleBasedStateMachine):
    run: Run

    def __init__(self) -> None:
        super().__init__()
        self.job = QUEUED  # the truth
        self.reachable = True
        self.listed = True  # queues and network disks lag: a target may not know of a job that is there
        self.silence = timedelta(0)
        self.story: list[tuple[int, RunState]] = []  # (attempt, state), as the store keeps events
        self.proof: Observation | timedelta | None = None  # what was seen of the end, or how long nothing was seen
        self.asked_to_cancel = False

    # --- the user

    @initialize()
    def submit(self) -> None:
        self.run = Run(
            id="demo_1_ab", workspace="default", experiment="demo", number=1, type="azureml.scriptrun",
            state=RunState.NOT_STARTED, state_at=NOW, created_at=NOW,
        )  # fmt: skip
        self.advance(RunState.STARTING)

    @rule()
    def cancel(self) -> None:
        """A wish is written down even if nobody can be reached; on a run that ended it changes nothing."""
        self.asked_to_cancel = True
        if not self.run.is_final:
            self.run = replace(self.run, intent=Intent.CANCEL)

    # --- the world

    @property
    def is_alive(self) -> bool:
        return self.job.phase is not Phase.ENDED

    @precondition(lambda self: self.job is QUEUED)
    @rule(to=st.sampled_from([PREPARING, RUNNING]))
    def begin(self, to: Observation) -> None:
        self.job = to

    @precondition(lambda self: self.job is PREPARING)
    @rule()
    def script_starts(self) -> None:
        self.job = RUNNING

    @precondition(lambda self: self.is_alive)
    @rule(end=st.sampled_from(list(ENDS)))
    def job_ends(self, end: str) -> None:
        self.job = ENDS[end]

    @precondition(lambda self: self.is_alive and self.reachable and self.run.intent is Intent.CANCEL)
    @rule()
    def stop_is_obeyed(self) -> None:
        self.job = STOPPED

    @rule()
    def network_breaks(self) -> None:
        self.reachable = False

    @rule()
    def network_heals(self) -> None:
        self.reachable = True

    @rule()
    def target_forgets(self) -> None:
        self.listed = False

    @rule()
    def target_remembers(self) -> None:
        self.listed = True

    @rule(duration=st.sampled_from([timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=11)]))
    def time_passes(self, duration: timedelta) -> None:
        if not (self.reachable and self.listed):
            self.silence += duration

    # --- the server

    @rule()
    def look(self) -> None:
        """What the reconcile loop does, whenever it comes to it: ask, decide, write."""
        seen = (self.job if self.listed else LOST) if self.reachable else None
        self.silence = timedelta(0) if seen is self.job else self.silence
        before, was_final = self.run.state, self.run.is_final
        step = decide(self.run, seen, self.silence, PATIENCE)
        if step:
            assert may_become(before, step.state)
            self.advance(step.state)
            self.proof = self.silence if step.reason is Reason.GAVE_UP else seen
        assert not (was_final and step)
        self.assert_shown_is_what_was_seen(seen)

    @precondition(lambda self: self.job is ENDS["machine restarted"] and self.reachable and self.listed)
    @precondition(lambda self: not self.run.is_final)
    @rule()
    def try_again(self) -> None:
        """A policy may ask for a new attempt, which needs proof that the old one is dead."""
        self.run = replace(self.run, attempt=self.run.attempt + 1, state=RunState.NOT_STARTED)
        self.job, self.silence = QUEUED, timedelta(0)
        self.advance(RunState.STARTING)

    def advance(self, state: RunState) -> None:
        self.run = replace(self.run, state=state, version=self.run.version + 1)
        self.story.append((self.run.attempt, state))

    def assert_shown_is_what_was_seen(self, seen: Observation | None) -> None:
        if self.run.is_final:
            return
        if seen is None:
            assert (self.run.state is RunState.NOT_RESPONDING) or self.silence < PATIENCE.show_after
        elif seen is LOST:
            assert self.run.state is RunState.NOT_RESPONDING
        else:
            assert seen.phase is not Phase.ENDED
            assert (self.run.state is RunState.RUNNING) == (seen is RUNNING)

    # --- what holds always

    @invariant()
    def completed_is_true(self) -> None:
        if self.state_is(RunState.COMPLETED):
            assert self.proof is self.job is ENDS["exit 0"]

    @invariant()
    def canceled_was_asked_for_and_done(self) -> None:
        if self.state_is(RunState.CANCELED):
            assert self.asked_to_cancel and (self.proof is LOST or self.proof is self.job is STOPPED)

    @invariant()
    def failed_is_true_or_was_given_up(self) -> None:
        if self.state_is(RunState.FAILED):
            if isinstance(self.proof, timedelta):
                assert self.proof >= PATIENCE.give_up_after
            else:
                assert self.proof is self.job and self.job not in (ENDS["exit 0"], STOPPED)

    @invariant()
    def the_story_is_complete(self) -> None:
        """The state is the replay of the events; within an attempt each was allowed to follow the one before."""
        if not self.story:
            return
        assert self.story[-1] == (self.run.attempt, self.run.state)
        assert self.run.version == 1 + len(self.story)
        for (attempt, before), (next_attempt, after) in zip(self.story, self.story[1:], strict=False):
            assert may_become(before, after) if attempt == next_attempt else next_attempt == attempt + 1

    def state_is(self, state: RunState) -> bool:
        return bool(self.story) and self.run.state is state

    def teardown(self) -> None:
        """However it went: once the job has ended and can be reached, one look is enough to know how."""
        if not self.story:
            return
        if self.is_alive:
            self.job = ENDS["exit 7"]
        self.reachable = self.listed = True
        self.look()
        assert self.run.is_final
        self.completed_is_true()
        self.canceled_was_asked_for_and_done()
        self.the_story_is_complete()


TestRunLife = RunLife.TestCase
TestRunLife.settings = settings(max_examples=examples(500), stateful_step_count=40, deadline=None)
