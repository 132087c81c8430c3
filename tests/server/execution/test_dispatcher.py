"""Who waits for whom at a target."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scenarios.stage import TARGET, WORKSPACE, Stage, staged
from windlass.core.entities import Run
from windlass.core.errors import TargetQuarantined, TargetUnreachable
from windlass.core.states import RunState
from windlass.drivers.base import FileGrew, JobChanged
from windlass.drivers.kinds._dummy_backend import Backend
from windlass.server.execution.dispatcher import THREADS_PER_TARGET, Dispatcher
from windlass.server.execution.outcome import MAIN_LOG

TARGET_KEY = (WORKSPACE, TARGET)
PATIENCE = 60.0


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage


@pytest.fixture
def dispatcher(stage: Stage) -> Dispatcher:
    return stage.dispatcher


def begin(dispatcher: Dispatcher, act: Callable[[], None], began: threading.Semaphore) -> None:
    """Have something begun that hangs. What was not begun when nobody waited any more is not done: it is asked anew."""
    while not began.acquire(blocking=False):
        with pytest.raises(TargetUnreachable, match="has not answered"):
            dispatcher.run_with_timeout(0.05, TARGET_KEY, act)


def test_what_nobody_waits_for_any_more_is_not_done(dispatcher: Dispatcher) -> None:
    go, began, done = threading.Event(), threading.Semaphore(0), []

    def hang() -> None:
        began.release()
        go.wait(PATIENCE)

    dispatcher.run_with_timeout(PATIENCE, TARGET_KEY, lambda: None)
    try:
        for _ in range(THREADS_PER_TARGET):
            begin(dispatcher, hang, began)
        for number in range(20):
            with pytest.raises(TargetUnreachable, match="Ask again"):
                dispatcher.run_with_timeout(0.01, TARGET_KEY, lambda n=number: done.append(n))  # type: ignore[misc]
    finally:
        go.set()
    dispatcher.run_with_timeout(PATIENCE, TARGET_KEY, lambda: done.append(99))
    assert done == [99]


def test_a_check_that_finds_another_machine_quarantines_the_target(stage: Stage, dispatcher: Dispatcher) -> None:
    dispatcher.drivers.driver(*TARGET_KEY)

    def check() -> None:
        raise TargetQuarantined("it has another key")

    with pytest.raises(TargetQuarantined):
        dispatcher.run_with_timeout(PATIENCE, TARGET_KEY, check)
    assert stage.store.targets.get(*TARGET_KEY).quarantine == "it has another key"
    [entry] = stage.store.audit.list(WORKSPACE)
    assert (entry.principal, entry.act, entry.object) == ("server", "target.quarantine", TARGET)


def test_a_target_that_does_not_answer_has_one_thread_also_of_those_who_collect(dispatcher: Dispatcher) -> None:
    go, began = threading.Event(), threading.Semaphore(0)

    def fail() -> None:
        raise TargetUnreachable("it is off")

    def hang() -> None:
        began.release()
        go.wait(PATIENCE)

    with pytest.raises(TargetUnreachable, match="it is off"):
        dispatcher.run_with_timeout(PATIENCE, TARGET_KEY, fail)
    try:
        for _ in range(3):
            dispatcher.run_in_background(TARGET_KEY, hang)
        assert began.acquire(timeout=PATIENCE)
        assert not began.acquire(timeout=0.05), "a second one hangs"
        dispatcher.run_with_timeout(PATIENCE, TARGET_KEY, lambda: None)
        assert all(began.acquire(timeout=PATIENCE) for _ in range(2)), "it answers again"
    finally:
        go.set()


def going_on(stage: Stage, dispatcher: Dispatcher) -> Run:
    """A run, and nobody is at its target any more: who comes back from there says that it answers."""
    run = stage.until(stage.submit(sleep="1000"), lambda found: found.state is RunState.RUNNING)
    lane = dispatcher._executor._queues[TARGET_KEY]
    deadline = time.monotonic() + PATIENCE
    while not lane.is_idle:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return run


class Hanging:
    """Work for a target that hangs until it is let go."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.go, self.began = threading.Event(), threading.Semaphore(0)

    def submit(self, times: int) -> None:
        for _ in range(times):
            with pytest.raises(TargetUnreachable, match="has not answered"):
                self._dispatcher.run_with_timeout(0.01, TARGET_KEY, self)

    def __call__(self) -> None:
        self.began.release()
        self.go.wait(PATIENCE)


def test_when_the_line_to_a_target_broke_one_goes_and_looks(stage: Stage, dispatcher: Dispatcher) -> None:
    run = going_on(stage, dispatcher)
    hanging = Hanging(dispatcher)
    with Backend(stage.folder).call():  # who looks gets no answer
        dispatcher.on_event(f"{run.id}.1", JobChanged())
        hanging.submit(2)
        assert not hanging.began.acquire(timeout=0.05), "a second one is in the lane"
    hanging.go.set()


def test_growth_is_read_at_once_for_a_stream_and_in_the_next_round_for_none(
    stage: Stage, dispatcher: Dispatcher
) -> None:
    run = going_on(stage, dispatcher)
    tracked, event_bus = dispatcher.tracked.get(run.id), stage.event_bus
    assert tracked is not None
    dispatcher.on_event(f"{run.id}.1", FileGrew(MAIN_LOG, 5))
    assert not tracked.inbox.is_empty, "no thread reads it"
    dispatcher.wake_expired(time.monotonic() + 1)
    until(lambda: tracked.inbox.is_empty)
    with event_bus.subscribe(run.id):
        dispatcher.on_event(f"{run.id}.1", FileGrew(MAIN_LOG, 6))
        until(lambda: tracked.inbox.is_empty)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_who_asked_nobody_does_not_say_that_a_target_answers(stage: Stage, dispatcher: Dispatcher) -> None:
    run = going_on(stage, dispatcher)
    tracked, hanging = dispatcher.tracked.get(run.id), Hanging(dispatcher)
    assert tracked is not None
    dispatcher.drivers.report_contact(TARGET_KEY, TargetUnreachable("it is off"))
    dispatcher.wake(run.id)  # without any news
    try:
        begin(dispatcher, hanging, hanging.began)
        hanging.submit(1)
        assert not hanging.began.acquire(timeout=0.05), "a second one is in the lane"
    finally:
        hanging.go.set()


def test_a_target_that_hangs_is_asked_once(stage: Stage, dispatcher: Dispatcher) -> None:
    run = going_on(stage, dispatcher)
    tracked = dispatcher.tracked.get(run.id)
    assert tracked is not None
    with Backend(stage.folder).call():
        for _ in range(THREADS_PER_TARGET):
            dispatcher.observe_target([tracked])
        dispatcher.run_with_timeout(PATIENCE, TARGET_KEY, lambda: None)  # there is room for others
