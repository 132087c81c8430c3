"""Runs for tests, with everything that does not matter filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.entities import Run, RunSpec
from windlass.core.states import Reason, RunState, Step
from windlass.store import Capacity, CapacityOf, Ending, Leased, NewRun, Store

OWNER = "server-1"
LEASE = 3600.0


def make_workspace(store: Store, name: str = "default") -> None:
    """With the targets `local` and `other`."""
    store.workspaces.create(name)
    for target in ("local", "other"):
        store.targets.ensure(name, target, "local", {}, None, True)


def new_run(
    id: str,
    *,
    workspace: str = "default",
    experiment: str = "demo",
    target: str = "local",
    priority: int = 0,
    **rest: Any,
) -> NewRun:
    spec = RunSpec(script="train.py", arguments=("--alpha", "0.1"), target=target, priority=priority)
    return NewRun(id, workspace, experiment, "azureml.scriptrun", spec=spec, nonce=f"nonce of {id}", **rest)


def with_slots(slots: int | None) -> CapacityOf:
    """Every target takes so many runs at a time."""
    return lambda workspace, target: Capacity(slots)


def submit(
    store: Store, id: str, *, slots: int | None = None, owner: str = OWNER, lease: float = LEASE, **rest: Any
) -> tuple[Run, bool, Leased | None]:
    return store.runs.submit(new_run(id, **rest), owner, with_slots(slots), lease)


def interactive(id: str, **rest: Any) -> NewRun:
    return NewRun(id, "default", "demo", "interactive", **rest)


def running(store: Store, id: str, fence: int | None = 1) -> Run:
    step = Step(RunState.RUNNING, Reason.STARTED, "")
    return store.runs.advance(id, expect=RunState.STARTING, step=step, fence=fence)


def ended(exit_code: int = 0) -> Step:
    state = RunState.COMPLETED if exit_code == 0 else RunState.FAILED
    return Step(state, Reason.EXITED, f"exit code {exit_code}", exit_code)


def finish(
    store: Store,
    id: str,
    *,
    exit_code: int = 0,
    expect: RunState = RunState.STARTING,
    fence: int | None = 1,
    slots: int | None = None,
    ending: Ending | None = None,
) -> tuple[Run, list[Leased]]:
    return store.runs.finish(
        id,
        expect=expect,
        step=ended(exit_code),
        fence=fence,
        ending=ending,
        owner=OWNER,
        capacity_of=with_slots(slots),
        lease_seconds=LEASE,
    )


def evicted(message: str = "evicted: the node leaves; attempt 2 of at most 4 waits") -> Step:
    return Step(RunState.QUEUED, Reason.EVICTED, message, is_retry=True)


def requeue(
    store: Store,
    id: str,
    *,
    expect: RunState = RunState.STARTING,
    fence: int = 1,
    nonce: str = "second",
    slots: int | None = 0,
    ending: Ending | None = None,
    step: Step | None = None,
    handle: Mapping[str, Any] | None = None,
) -> tuple[Run, list[Leased]]:
    """End an attempt by an eviction, on a target that has no free slot unless it is given."""
    return store.runs.requeue(
        id,
        expect=expect,
        step=step or evicted(),
        fence=fence,
        nonce=nonce,
        ending=ending or Ending(),
        owner=OWNER,
        capacity_of=with_slots(slots),
        lease_seconds=LEASE,
        handle=handle,
    )


def line(name: str, value: Any, at: float = 0.0, **rest: Any) -> Mapping[str, Any]:
    return {"n": name, "v": value, "t": at, **rest}


def replayed(store: Store, id: str) -> tuple[RunState | None, Reason | None, str]:
    """What a run's events say of its state; fails if their numbers have a gap."""
    events = store.runs.events(id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    last = [event for event in events if event.state is not None][-1]
    return last.state, last.reason, last.message
