"""Who waits for whom at a target."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.scenarios.stage import TARGET, WORKSPACE, Stage, staged
from windlass.core.entities import Run
from windlass.core.errors import TargetQuarantined, TargetUnreachable
from windlass.core.states import RunState
from windlass.drivers.base import FileGrew, JobChanged
from windlass.drivers.kinds._dummy_backend import Backend
from windlass.server.execution.dispatcher import WORKERS, Workers
from windlass.server.execution.outcome import MAIN_LOG
from windlass.server.execution.tracked_run import Tracked

PLACE = (WORKSPACE, TARGET)
PATIENCE = 60.0


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage


@pytest.fixture
def workers(stage: Stage) -> Workers:
    return stage.reconciler._workers


def begin(workers: Workers, act: Callable[[], None], began: threading.Semaphore) -> None:
    """Have something begun that hangs. What was not begun when nobody waited any more is not done: it is asked anew."""
    while not began.acquire(blocking=False):
        with pytest.raises(TargetUnreachable, match="has not answered"):
            workers.within(0.05, PLACE, act)


def test_what_nobody_waits_for_any_more_is_not_done(workers: Workers) -> None:
    go, began, done = threading.Event(), threading.Semaphore(0), []

    def hang() -> None:
        began.release()
        go.wait(PATIENCE)

    workers.within(PATIENCE, PLACE, lambda: None)
    try:
        for _ in range(WORKERS):
            begin(workers, hang, began)
        for number in range(20):
            with pytest.raises(TargetUnreachable, match="Ask again"):
                workers.within(0.01, PLACE, lambda n=number: done.append(n))  # type: ignore[misc]
    finally:
        go.set()
    workers.within(PATIENCE, PLACE, lambda: done.append(99))
    assert done == [99]


def test_a_check_that_finds_another_machine_quarantines_the_target(stage: Stage, workers: Workers) -> None:
    workers.reach.driver(*PLACE)

    def check() -> None:
        raise TargetQuarantined("it has another key")

    with pytest.raises(TargetQuarantined):
        workers.within(PATIENCE, PLACE, check)
    assert stage.store.targets.get(*PLACE).quarantine == "it has another key"
    [entry] = stage.store.audit.list(WORKSPACE)
    assert (entry.principal, entry.act, entry.object) == ("server", "target.quarantine", TARGET)


def test_a_target_that_does_not_answer_has_one_thread_also_of_those_who_collect(workers: Workers) -> None:
    go, began = threading.Event(), threading.Semaphore(0)

    def fail() -> None:
        raise TargetUnreachable("it is off")

    def hang() -> None:
        began.release()
        go.wait(PATIENCE)

    with pytest.raises(TargetUnreachable, match="it is off"):
        workers.within(PATIENCE, PLACE, fail)
    try:
        for _ in range(3):
            workers.collect(cast(Tracked, SimpleNamespace(place=PLACE)), hang)
        assert began.acquire(timeout=PATIENCE)
        assert not began.acquire(timeout=0.05), "a second one hangs"
        workers.within(PATIENCE, PLACE, lambda: None)
        assert all(began.acquire(timeout=PATIENCE) for _ in range(2)), "it answers again"
    finally:
        go.set()


def going_on(stage: Stage, workers: Workers) -> Run:
    """A run, and nobody is at its target any more: who comes back from there says that it answers."""
    run = stage.until(stage.submit(sleep="1000"), lambda found: found.state is RunState.RUNNING)
    lane = workers._workers._lanes[PLACE]
    deadline = time.monotonic() + PATIENCE
    while not lane.is_idle:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return run


class Hanging:
    """Work for a target that hangs until it is let go."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.go, self.began = threading.Event(), threading.Semaphore(0)

    def submit(self, times: int) -> None:
        for _ in range(times):
            with pytest.raises(TargetUnreachable, match="has not answered"):
                self._workers.within(0.01, PLACE, self)

    def __call__(self) -> None:
        self.began.release()
        self.go.wait(PATIENCE)


def test_when_the_line_to_a_target_broke_one_goes_and_looks(stage: Stage, workers: Workers) -> None:
    run = going_on(stage, workers)
    hanging = Hanging(workers)
    with Backend(stage.folder).call():  # who looks gets no answer
        workers.hear(f"{run.id}.1", JobChanged())
        hanging.submit(2)
        assert not hanging.began.acquire(timeout=0.05), "a second one is in the lane"
    hanging.go.set()


def test_growth_is_read_at_once_for_a_stream_and_in_the_next_round_for_none(stage: Stage, workers: Workers) -> None:
    run = going_on(stage, workers)
    tracked, hub = workers.tracking.get(run.id), stage.reconciler._hub
    assert tracked is not None
    workers.hear(f"{run.id}.1", FileGrew(MAIN_LOG, 5))
    assert tracked.grown, "no thread reads it"
    workers.wake_due(time.monotonic() + 1)
    until(lambda: not tracked.grown)
    with hub.follow(run.id):
        workers.hear(f"{run.id}.1", FileGrew(MAIN_LOG, 6))
        until(lambda: not tracked.grown)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_who_asked_nobody_does_not_say_that_a_target_answers(stage: Stage, workers: Workers) -> None:
    run = going_on(stage, workers)
    tracked, hanging = workers.tracking.get(run.id), Hanging(workers)
    assert tracked is not None
    workers.note_answer(tracked, TargetUnreachable("it is off"))
    workers.wake(run.id)  # without any news
    try:
        begin(workers, hanging, hanging.began)
        hanging.submit(1)
        assert not hanging.began.acquire(timeout=0.05), "a second one is in the lane"
    finally:
        hanging.go.set()


def test_a_target_that_hangs_is_asked_once(stage: Stage, workers: Workers) -> None:
    run = going_on(stage, workers)
    tracked = workers.tracking.get(run.id)
    assert tracked is not None
    with Backend(stage.folder).call():
        for _ in range(WORKERS):
            workers.ask([tracked])
        workers.within(PATIENCE, PLACE, lambda: None)  # there is room for others
