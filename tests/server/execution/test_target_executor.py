"""One target that hangs does not block the work for others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from windlass.server.execution.target_executor import FORGET_SECONDS, FRESH_SECONDS, TargetExecutor

PATIENCE = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def executor(clock: Clock) -> Iterator[TargetExecutor]:
    made = TargetExecutor("test", threads=8, at_once=2, clock=clock)
    yield made
    made.close()


class Hanging:
    """Work that hangs until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    def __call__(self) -> None:
        self.began.release()
        assert self.go.wait(PATIENCE)
        self.ended.release()


def test_a_target_that_hangs_takes_only_its_share(executor: TargetExecutor) -> None:
    hanging, other = Hanging(), threading.Event()
    executor.report("hanging", is_responsive=True)
    for _ in range(20):
        executor.submit("hanging", hanging)
    assert hanging.began.acquire(timeout=PATIENCE) and hanging.began.acquire(timeout=PATIENCE)
    executor.submit("well", other.set)
    assert other.wait(PATIENCE)
    assert not hanging.began.acquire(timeout=0.05), "a third one works for it"
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(20))


def test_who_was_not_heard_of_is_tried_by_one_and_the_others_follow(executor: TargetExecutor) -> None:
    hanging = Hanging()
    for _ in range(3):
        executor.submit("box", hanging)
    assert hanging.began.acquire(timeout=PATIENCE)
    assert not hanging.began.acquire(timeout=0.05), "a second one works for it"
    executor.report("box", is_responsive=True)
    assert hanging.began.acquire(timeout=PATIENCE)
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(3))


@pytest.mark.parametrize("trouble", ["new", "long ago", "broken"])
def test_many_that_fall_silent_at_once_keep_nobody_else_waiting(
    executor: TargetExecutor, clock: Clock, trouble: str
) -> None:
    hanging, others = Hanging(), [threading.Event() for _ in range(4)]
    for number in range(5):
        if trouble != "new":
            executor.report(number, is_responsive=True)
        if trouble == "broken":
            executor.mark_unknown(number)
    if trouble == "long ago":
        clock.now += FRESH_SECONDS + 1
    for number in range(5):
        for _ in range(8):
            executor.submit(number, hanging)
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(5))
    for number, other in enumerate(others):  # nobody has heard of these either
        executor.submit(f"well {number}", other.set)
        assert other.wait(PATIENCE)
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(40))


def test_who_was_heard_of_a_moment_ago_is_used_by_many(executor: TargetExecutor, clock: Clock) -> None:
    hanging = Hanging()
    for _ in range(3):
        executor.report("box", is_responsive=True)
        clock.now += FRESH_SECONDS - 1
    executor.submit("box", hanging)
    executor.submit("box", hanging)
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(2))
    hanging.go.set()


def test_who_is_not_spoken_of_any_more_is_forgotten(executor: TargetExecutor, clock: Clock) -> None:
    hanging = Hanging()
    executor.submit("busy", hanging)
    for number in range(10):
        executor.report(number, is_responsive=number % 2 == 1)
    clock.now += FORGET_SECONDS + 1
    executor.report("box", is_responsive=True)
    assert set(executor._queues) == {"busy", "box"}
    hanging.go.set()


def test_targets_that_become_unresponsive_leave_threads_for_others(executor: TargetExecutor) -> None:
    """More slow targets than half of the threads: with one thread each there is still room."""
    hanging, other = Hanging(), threading.Event()
    executor.report("well", is_responsive=True)
    for number in range(6):
        first = threading.Event()
        executor.submit(number, first.set)
        assert first.wait(PATIENCE)
        executor.submit(number, lambda n=number: executor.report(n, is_responsive=False) or hanging())  # type: ignore[misc,func-returns-value]
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(6))
    for number in range(6):
        executor.submit(number, hanging)
    executor.submit("well", other.set)
    assert other.wait(PATIENCE)
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(12))


def test_many_unresponsive_targets_have_half_of_the_threads(executor: TargetExecutor) -> None:
    """Many more than there are threads, and each with work for many."""
    hanging, others = Hanging(), [threading.Event() for _ in range(20)]
    for number in range(200):
        executor.report(number, is_responsive=False)
        for _ in range(2):
            executor.submit(number, hanging)
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(4))
    for number, other in enumerate(others):
        executor.submit(f"well {number}", other.set)
    assert all(other.wait(PATIENCE) for other in others)
    assert not hanging.began.acquire(timeout=0.05), "a fifth one hangs"
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(400))


def test_unresponsive_targets_take_turns() -> None:
    executor = TargetExecutor("test", threads=2, at_once=2)
    order: list[str] = []
    hanging, done = Hanging(), threading.Event()
    for name in "abc":
        executor.report(name, is_responsive=False)
    executor.submit("a", hanging)
    assert hanging.began.acquire(timeout=PATIENCE)
    for name in "abcabc":
        executor.submit(name, lambda n=name: order.append(n))  # type: ignore[misc]
    executor.submit("a", done.set)
    hanging.go.set()
    assert done.wait(PATIENCE)
    executor.close()
    assert order == list("bcabca")


def test_a_waiting_target_that_is_healthy_again_waits_no_longer(executor: TargetExecutor) -> None:
    hanging, other = Hanging(), threading.Event()
    for number in range(4):
        executor.report(number, is_responsive=False)
        executor.submit(number, hanging)
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(4))
    executor.report("box", is_responsive=False)
    executor.submit("box", other.set)
    assert not other.wait(0.05)
    executor.report("box", is_responsive=True)
    assert other.wait(PATIENCE)
    hanging.go.set()


def test_a_target_that_is_always_busy_gives_way_to_others() -> None:
    executor = TargetExecutor("test", threads=1, at_once=1)
    other, ended = threading.Event(), threading.Event()

    def again() -> None:
        if other.is_set():
            ended.set()
        else:
            executor.submit("busy", again)

    executor.submit("busy", again)
    executor.submit("well", other.set)
    assert other.wait(PATIENCE)
    assert ended.wait(PATIENCE), "its own work goes on"
    executor.close()


def test_a_target_that_is_healthy_again_is_used_as_before(executor: TargetExecutor) -> None:
    hanging = Hanging()
    executor.submit("box", hanging)
    assert hanging.began.acquire(timeout=PATIENCE)
    executor.report("box", is_responsive=False)
    executor.submit("box", hanging)
    assert not hanging.began.acquire(timeout=0.05)
    executor.report("box", is_responsive=True)
    assert hanging.began.acquire(timeout=PATIENCE)
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(2))


def test_tasks_of_one_target_are_begun_in_order() -> None:
    executor = TargetExecutor("test", threads=4, at_once=1)
    order: list[int] = []
    done = threading.Event()
    for number in range(100):
        executor.submit("box", lambda n=number: order.append(n))  # type: ignore[misc]
    executor.submit("box", done.set)
    assert done.wait(PATIENCE)
    executor.close()
    assert order == list(range(100))


def test_an_urgent_task_is_begun_before_the_others_of_its_target(executor: TargetExecutor) -> None:
    executor.report("box", is_responsive=True)
    hanging, order, done = Hanging(), list[str](), threading.Event()
    for _ in range(2):
        executor.submit("box", hanging)
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(2))
    executor.submit("box", lambda: order.append("first"))
    executor.submit("box", lambda: order.append("urgent"), is_urgent=True)
    executor.submit("box", done.set)
    hanging.go.set()
    assert done.wait(PATIENCE)
    executor.close()
    assert order[0] == "urgent"


def test_a_task_that_fails_is_logged_and_the_next_one_runs(
    executor: TargetExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    done = threading.Event()
    with caplog.at_level(logging.ERROR):
        executor.submit("box", lambda: 1 / 0)  # type: ignore[arg-type]
        executor.submit("box", done.set)
        assert done.wait(PATIENCE)
        executor.close()  # so that both have ended
    assert "ZeroDivisionError" in caplog.text


def test_what_waits_when_it_closes_is_not_done() -> None:
    executor = TargetExecutor("test", threads=4, at_once=1)
    hanging, never = Hanging(), threading.Event()
    executor.submit("box", hanging)
    assert hanging.began.acquire(timeout=PATIENCE)
    executor.submit("box", never.set)
    closing = threading.Thread(target=executor.close)
    closing.start()
    while not executor._closed:  # else what waits would be begun
        time.sleep(0.001)
    hanging.go.set()
    closing.join()
    executor.submit("box", never.set)
    assert hanging.ended.acquire(timeout=PATIENCE) and not never.is_set()
