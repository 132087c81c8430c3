"""EngineDriver: base class of the kinds whose jobs are started by an engine: a queue, a cluster, a cloud service.

The runner's host only creates the folder of a job, and reads it (docs/dev/runner.md, "Jobs that an engine starts"). The
engine starts a stand-alone supervisor on a machine that shares that folder. So there are two sources for the state of a
job, the run folder and the engine:

- an exit code in the run folder wins over the engine's;
- an end in the engine wins over silence in the folder, but not over a heartbeat;
- a job that neither of them knows is LOST, never ENDED.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, TypeVar

from windlass.core.errors import TargetUnreachable
from windlass.core.states import Observation, Phase, Reason, RunState
from windlass.drivers.base import Handle, Job, Plan
from windlass.drivers.containers.config import ContainerConfig
from windlass.drivers.machine import protocol
from windlass.drivers.machine.driver import MachineDriver, job_fields
from windlass.drivers.machine.framing import Body
from windlass.failpoints import reach

C = TypeVar("C", bound=ContainerConfig)

_LONGEST_SILENCE = 90.0  # seconds; as runner/shared_folder/heartbeat.py has it
_MOST_INSTANCES = 100
_LONGEST_INSTANCE = 200


@dataclass(frozen=True, slots=True)
class NativeState:
    """State of a job in the engine. LOST: the engine does not know the id, or no longer."""

    phase: Phase
    message: str = ""  # as the engine has it
    reason: Reason | None = None  # with ENDED, if the engine knows it: OUT_OF_MEMORY, TIME_LIMIT, NODE_LOST
    ended_at: float | None = None  # by the server's clock


_UNKNOWN = NativeState(Phase.LOST)


class EngineDriver(MachineDriver[C]):
    """A subclass starts its host with `--engine-owned`, and implements the four abstract methods below.

    If its scheduler may start a job twice on file systems that do not see each other, it adds `Claims` to its bases,
    whose methods are implemented here.
    """

    # How long after the end in the engine the files of the run may still change, on a slow shared file system.
    settle_time: ClassVar[timedelta] = timedelta(seconds=15)
    _start_request = "place"

    @abstractmethod
    def submit_native(self, plan: Plan, command: Sequence[str]) -> str:
        """Submit a job to the engine, on machines that share the folder. Returns the engine's id.

        `command` has the arguments for a Python of 3.8 or newer. Store the job's id and nonce where find_native() finds
        them: in a name, a label or a comment.
        """

    @abstractmethod
    def find_native(self, job_id: str, nonce: str) -> str | None:
        """The engine's id of the job that was submitted with this id and nonce. None promises that there is none."""

    @abstractmethod
    def cancel_native(self, native_id: str) -> None:
        """Cancel a job in the engine, also a queued one. Cancelling a job that has ended or is unknown is no error."""

    @abstractmethod
    def native_states(self, native_ids: Sequence[str]) -> list[NativeState]:
        """The states of many jobs in the engine, by one request, in the order of the ids."""

    def start(self, plan: Plan) -> Handle:
        job = plan.job
        handle = Handle(self.kind, job.id, job.nonce)
        answer = self._deliver(job, is_prestaged=False)
        native = _text(answer.get("native")) or self._submit(plan, handle, answer)
        reach("F09")
        return replace(handle, data={"fence": job.fence, "native": native})

    def _submit(self, plan: Plan, handle: Handle, answer: Body) -> str | None:
        """Submit a job unless that was done already, and note the engine's id in its folder. The first id stays."""
        native = self.find_native(plan.job.id, plan.job.nonce)
        if native is None:
            if answer.get("is_started") is True:
                return None  # and forgotten by the engine: its folder says what became of it
            native = self.submit_native(plan, _command(answer))
        body, _ = self._call("submitted", handle, **job_fields(handle), native=native)
        kept = _text(body.get("native"))
        if kept is not None and kept != native:
            self.cancel_native(native)  # another thread or server was quicker; ours executes nothing
        return kept or native

    def prepare(self, plan: Plan) -> None:
        """Nothing to do: the engine's queue decides where and when a job starts."""

    def _check_resources(self, job: Job) -> None:
        """Nothing to check: jobs do not run on the machine of the host, and the engine knows its resources."""

    def find(self, job_id: str, nonce: str) -> Handle | None:
        handle = Handle(self.kind, job_id, nonce)
        [answer] = self._ask_host([handle], "observe")
        seen = protocol.observation(answer)
        if seen.phase is Phase.LOST:
            return None
        native = _text(answer.get("native")) or self.find_native(job_id, nonce)
        if native is None and seen.phase is Phase.QUEUED:
            return None  # placed, and never submitted
        return replace(handle, data={"native": native})

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        if not handles:
            return []
        # Ask the engine first: a job that ends in between has written its end when its folder is read.
        states = self._states(handles)
        return self._by_connection(handles, partial(self._observe_with, states))

    def _states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        ids = list(dict.fromkeys(native for handle in handles if (native := _native_of(handle))))
        return dict(zip(ids, self.native_states(ids), strict=True)) if ids else {}

    def _observe_with(self, states: Mapping[str, NativeState], handles: Sequence[Handle]) -> list[Observation]:
        first = handles[0]
        known = [states.get(_native_of(handle) or "", _UNKNOWN) for handle in handles]
        try:
            with self._client(first).list_lock:
                answers = self._ask_host(handles, "observe")
                skew = self._feed(first).skew
                seen = [self._combine(*each, skew) for each in zip(answers, known, strict=True)]
        except TargetUnreachable:
            if self.connection_key(first) == self.connection_key():
                raise
            return [self._from_engine(state) for state in known]  # a host that ends with its job
        self._update_subscriptions(handles, seen)
        return seen

    def _combine(self, answer: Any, state: NativeState, skew: float) -> Observation:
        """Combine the state in the run folder with the state in the engine."""
        seen = protocol.observation(answer, skew)
        if seen.phase in (Phase.ENDED, Phase.LOST):
            return seen
        silence = _seconds(answer.get("silent_seconds"))
        if state.phase is Phase.ENDED:
            is_still = silence is None or silence >= self.settle_time.total_seconds()
            if is_still and self._is_settled(state):
                return self._ended(state, seen.phase, answer.get("is_stopping") is True)
            return replace(seen, phase=Phase.RUNNING, message="the engine has ended it; waiting for its record")
        if seen.phase is Phase.QUEUED:  # no supervisor has begun
            stage = RunState.STARTING if state.phase is Phase.RUNNING else None
            unknown = "the engine does not know it" if state.phase is Phase.LOST else ""
            return Observation(state.phase, message=seen.message or state.message or unknown, stage=stage)
        if state.phase is not Phase.RUNNING and silence is not None and silence >= _LONGEST_SILENCE:
            return Observation(Phase.LOST, message=f"no sign of life for {silence:.0f} s, and not in the engine")
        return seen

    def _from_engine(self, state: NativeState) -> Observation:
        """Observation from the engine alone, for a job whose host cannot be reached."""
        if state.phase is Phase.ENDED:
            if self._is_settled(state):
                return self._ended(state, Phase.RUNNING, is_stopping=False)
            return Observation(Phase.RUNNING, message="the engine has ended it; waiting for its record")
        return Observation(state.phase, message=state.message)

    def _is_settled(self, state: NativeState) -> bool:
        return state.ended_at is None or time.time() - state.ended_at >= self.settle_time.total_seconds()

    def _ended(self, state: NativeState, seen: Phase, is_stopping: bool) -> Observation:
        """Observation of a job that ended without a record in its folder."""
        by_us = Reason.STOPPED if is_stopping else None
        otherwise = Reason.START_FAILED if seen is Phase.QUEUED else Reason.NODE_LOST
        message = state.message or "the engine ended it, and it left no record of its end"
        return Observation(Phase.ENDED, reason=by_us or state.reason or otherwise, message=message)

    def stop(self, handle: Handle, grace: timedelta) -> None:
        fence = handle.data.get("fence")
        known = {} if fence is None else {"fence": fence}
        body, _ = self._call("stop", handle, **job_fields(handle), grace=grace.total_seconds(), **known)
        native = self._native(handle) if body.get("cancel") is True else None
        if native is not None:
            self.cancel_native(native)

    def clean(self, handle: Handle) -> None:
        native = self._native(handle)
        state = self.native_states([native])[0] if native is not None else _UNKNOWN
        self._feed(handle).remove([handle.native_id])
        is_gone = state.phase in (Phase.ENDED, Phase.LOST)
        self._call("clean", handle, **job_fields(handle), gone=is_gone)
        if native is not None and state.phase is Phase.QUEUED:
            self.cancel_native(native)
        self._release(handle)

    def _native(self, handle: Handle) -> str | None:
        return _native_of(handle) or self.find_native(handle.native_id, handle.nonce)

    # ---- Claims ----

    def waiting(self, handles: Sequence[Handle]) -> list[tuple[str, ...]]:
        return self._by_connection(handles, self._waiting)

    def _waiting(self, handles: Sequence[Handle]) -> list[tuple[str, ...]]:
        return [_instances(each) for each in self._ask_host(handles, "waiting")]

    def allow(self, handle: Handle, instance: str) -> None:
        self._call("allow", handle, **job_fields(handle), instance=instance)

    def refuse(self, handle: Handle, instance: str, owner: str) -> None:
        self._call("refuse", handle, **job_fields(handle), instance=instance, owner=owner)


def _native_of(handle: Handle) -> str | None:
    return _text(handle.data.get("native"))


def _text(said: Any) -> str | None:
    return said if isinstance(said, str) and said else None


def _seconds(said: Any) -> float | None:
    return float(said) if isinstance(said, (int, float)) and said >= 0 else None


def _command(answer: Body) -> tuple[str, ...]:
    words = answer.get("command")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise TargetUnreachable("The host did not say how its jobs are started.")
    return tuple(words)


def _instances(said: Any) -> tuple[str, ...]:
    names = said if isinstance(said, list) else []
    return tuple(name for name in names[:_MOST_INSTANCES] if isinstance(name, str) and len(name) <= _LONGEST_INSTANCE)
