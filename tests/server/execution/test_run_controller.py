"""The controller acts on one run at a time, and leaves it to its scheduler when the others are acted on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scenarios.stage import TARGET, WORKSPACE, Stage, staged
from windlass.core.entities import Run
from windlass.core.states import RunState
from windlass.drivers.base import JobChanged
from windlass.drivers.kinds._dummy_backend import Backend
from windlass.server.execution import run_controller
from windlass.server.execution.ingest import RunIngest
from windlass.server.execution.run_controller import RunController
from windlass.server.execution.tracked_run import RowChanged, TargetKey, TrackedRun


class FakeScheduler:
    """Remembers what it was asked for, and does nothing."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.later: dict[str, float] = {}
        self.background: list[Callable[[], None]] = []

    def wake(self, run_id: str) -> None:
        self.woken.append(run_id)

    def wake_after(self, run_id: str, seconds: float) -> None:
        self.later[run_id] = seconds

    def run_in_background(self, target: TargetKey, act: Callable[[], None]) -> None:
        self.background.append(act)


class Controlled:
    """A controller whose passes are made by the test."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.scheduler = stage, FakeScheduler()
        dispatcher = stage.dispatcher
        ingest = RunIngest.for_settings(stage.store, stage.event_bus, stage.settings)
        self._controller = RunController(
            stage.store, stage.event_bus, stage.jobs, dispatcher.drivers, dispatcher.tracked, dispatcher.prefetcher,
            ingest, dispatcher.cleanup, self.scheduler, stage.reconciler.owner, dispatcher.capacity_of, stage.settings,
        )  # fmt: skip

    def submit(self, **acts: str) -> Run:
        run, leased = self.stage.insert(TARGET, **acts)
        if leased is not None:
            self.stage.dispatcher.tracked.track(leased, may_be_on_target=False)
        return run

    def tracked(self, run: Run) -> TrackedRun:
        found = self.stage.dispatcher.tracked.get(run.id)
        assert found is not None
        return found

    def reconcile(self, run: Run) -> Run:
        self._controller.reconcile(self.tracked(run))
        return self.stage.run(run)


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage


@pytest.fixture
def controlled(stage: Stage) -> Controlled:
    return Controlled(stage)


def is_on_target(stage: Stage, run: Run) -> bool:
    return Backend(stage.folder).any_record(f"{run.id}.1") is not None


def test_no_run_is_started_on_the_stack_of_another_ones_end(stage: Stage, controlled: Controlled) -> None:
    stage.store.targets.update(WORKSPACE, TARGET, slots=1)
    stage.set_clock(1000)
    first, second = controlled.submit(sleep="100"), controlled.submit()
    controlled.reconcile(first)
    stage.dispatcher.prefetcher.prefetch(WORKSPACE, TARGET)
    assert stage.dispatcher.prefetcher.is_ready(second.id)
    stage.set_clock(2000)
    controlled.tracked(first).inbox.put(JobChanged())
    assert controlled.reconcile(first).state is RunState.COMPLETED
    assert controlled.scheduler.woken == [second.id]
    assert stage.run(second).state is RunState.STARTING and not is_on_target(stage, second)
    controlled.reconcile(second)
    assert is_on_target(stage, second)


def test_a_pass_without_events_asks_nothing(stage: Stage, controlled: Controlled) -> None:
    run = controlled.submit(sleep="1000")
    controlled.reconcile(run)
    stage.cut()  # any question would fail
    controlled.reconcile(run)
    assert controlled.scheduler.later == {} and controlled.tracked(run).inbox.is_empty


def test_the_events_of_a_pass_that_failed_are_not_lost(stage: Stage, controlled: Controlled) -> None:
    run = controlled.submit(sleep="1000")
    controlled.reconcile(run)
    stage.cut()
    controlled.tracked(run).inbox.put(JobChanged())
    controlled.reconcile(run)
    assert run.id in controlled.scheduler.later
    events = controlled.tracked(run).inbox.take()
    assert (events.job, events.row) == (JobChanged(), RowChanged())
    stage.heal()
    controlled.tracked(run).inbox.put(JobChanged())
    assert controlled.reconcile(run).state is RunState.RUNNING


def test_the_controller_does_not_know_the_dispatcher() -> None:
    assert run_controller.__file__ is not None
    tree = ast.parse(Path(run_controller.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any("dispatcher" in str(name) or "reconciler" in str(name) for name in imported)
