"""One target that hangs keeps nobody else waiting."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from windlass.server.execution.target_executor import FORGET_SECONDS, FRESH_SECONDS, Lanes

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
def lanes(clock: Clock) -> Iterator[Lanes]:
    made = Lanes("test", threads=8, at_once=2, clock=clock)
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


def test_a_lane_that_hangs_takes_only_its_share(lanes: Lanes) -> None:
    hanging, other = Hanging(), threading.Event()
    lanes.tell("hanging", is_slow=False)
    for _ in range(20):
        lanes.submit("hanging", hanging)
    assert hanging.began.acquire(timeout=PATIENCE) and hanging.began.acquire(timeout=PATIENCE)
    lanes.submit("well", other.set)
    assert other.wait(PATIENCE)
    assert not hanging.began.acquire(timeout=0.05), "a third one is in the lane"
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(20))


def test_who_was_not_heard_of_is_tried_by_one_and_the_others_follow(lanes: Lanes) -> None:
    hanging = Hanging()
    for _ in range(3):
        lanes.submit("box", hanging)
    assert hanging.began.acquire(timeout=PATIENCE)
    assert not hanging.began.acquire(timeout=0.05), "a second one is in the lane"
    lanes.tell("box", is_slow=False)
    assert hanging.began.acquire(timeout=PATIENCE)
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(3))


@pytest.mark.parametrize("trouble", ["new", "long ago", "broken"])
def test_many_that_fall_silent_at_once_keep_nobody_else_waiting(lanes: Lanes, clock: Clock, trouble: str) -> None:
    hanging, others = Hanging(), [threading.Event() for _ in range(4)]
    for number in range(5):
        if trouble != "new":
            lanes.tell(number, is_slow=False)
        if trouble == "broken":
            lanes.doubt(number)
    if trouble == "long ago":
        clock.now += FRESH_SECONDS + 1
    for number in range(5):
        for _ in range(8):
            lanes.submit(number, hanging)
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(5))
    for number, other in enumerate(others):  # nobody has heard of these either
        lanes.submit(f"well {number}", other.set)
        assert other.wait(PATIENCE)
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(40))


def test_who_was_heard_of_a_moment_ago_is_used_by_many(lanes: Lanes, clock: Clock) -> None:
    hanging = Hanging()
    for _ in range(3):
        lanes.tell("box", is_slow=False)
        clock.now += FRESH_SECONDS - 1
    lanes.submit("box", hanging)
    lanes.submit("box", hanging)
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(2))
    hanging.go.set()


def test_who_is_not_spoken_of_any_more_is_forgotten(lanes: Lanes, clock: Clock) -> None:
    hanging = Hanging()
    lanes.submit("busy", hanging)
    for number in range(10):
        lanes.tell(number, is_slow=number % 2 == 0)
    clock.now += FORGET_SECONDS + 1
    lanes.tell("box", is_slow=False)
    assert set(lanes._lanes) == {"busy", "box"}
    hanging.go.set()


def test_lanes_that_become_slow_leave_threads_for_others(lanes: Lanes) -> None:
    """More slow targets than half of the threads: with one thread each there is still room."""
    hanging, other = Hanging(), threading.Event()
    lanes.tell("well", is_slow=False)
    for number in range(6):
        first = threading.Event()
        lanes.submit(number, first.set)
        assert first.wait(PATIENCE)
        lanes.submit(number, lambda n=number: lanes.tell(n, is_slow=True) or hanging())  # type: ignore[misc,func-returns-value]
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(6))
    for number in range(6):
        lanes.submit(number, hanging)
    lanes.submit("well", other.set)
    assert other.wait(PATIENCE)
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(12))


def test_many_slow_lanes_have_half_of_the_threads(lanes: Lanes) -> None:
    """Many more than there are threads, and each with work for many."""
    hanging, others = Hanging(), [threading.Event() for _ in range(20)]
    for number in range(200):
        lanes.tell(number, is_slow=True)
        for _ in range(2):
            lanes.submit(number, hanging)
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(4))
    for number, other in enumerate(others):
        lanes.submit(f"well {number}", other.set)
    assert all(other.wait(PATIENCE) for other in others)
    assert not hanging.began.acquire(timeout=0.05), "a fifth one hangs"
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(400))


def test_slow_lanes_take_turns() -> None:
    lanes = Lanes("test", threads=2, at_once=2)
    order: list[str] = []
    hanging, done = Hanging(), threading.Event()
    for name in "abc":
        lanes.tell(name, is_slow=True)
    lanes.submit("a", hanging)
    assert hanging.began.acquire(timeout=PATIENCE)
    for name in "abcabc":
        lanes.submit(name, lambda n=name: order.append(n))  # type: ignore[misc]
    lanes.submit("a", done.set)
    hanging.go.set()
    assert done.wait(PATIENCE)
    lanes.close()
    assert order == list("bcabca")


def test_a_lane_in_line_that_is_well_again_waits_no_longer(lanes: Lanes) -> None:
    hanging, other = Hanging(), threading.Event()
    for number in range(4):
        lanes.tell(number, is_slow=True)
        lanes.submit(number, hanging)
    assert all(hanging.began.acquire(timeout=PATIENCE) for _ in range(4))
    lanes.tell("box", is_slow=True)
    lanes.submit("box", other.set)
    assert not other.wait(0.05)
    lanes.tell("box", is_slow=False)
    assert other.wait(PATIENCE)
    hanging.go.set()


def test_a_lane_that_is_always_busy_lets_others_have_a_turn() -> None:
    lanes = Lanes("test", threads=1, at_once=1)
    other, ended = threading.Event(), threading.Event()

    def again() -> None:
        if other.is_set():
            ended.set()
        else:
            lanes.submit("busy", again)

    lanes.submit("busy", again)
    lanes.submit("well", other.set)
    assert other.wait(PATIENCE)
    assert ended.wait(PATIENCE), "its own work goes on"
    lanes.close()


def test_a_lane_that_is_well_again_is_used_as_before(lanes: Lanes) -> None:
    hanging = Hanging()
    lanes.submit("box", hanging)
    assert hanging.began.acquire(timeout=PATIENCE)
    lanes.tell("box", is_slow=True)
    lanes.submit("box", hanging)
    assert not hanging.began.acquire(timeout=0.05)
    lanes.tell("box", is_slow=False)
    assert hanging.began.acquire(timeout=PATIENCE)
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(2))


def test_work_of_one_lane_is_begun_in_order() -> None:
    lanes = Lanes("test", threads=4, at_once=1)
    order: list[int] = []
    done = threading.Event()
    for number in range(100):
        lanes.submit("box", lambda n=number: order.append(n))  # type: ignore[misc]
    lanes.submit("box", done.set)
    assert done.wait(PATIENCE)
    lanes.close()
    assert order == list(range(100))


def test_work_that_fails_is_told_and_the_lane_goes_on(lanes: Lanes, caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()
    with caplog.at_level(logging.ERROR):
        lanes.submit("box", lambda: 1 / 0)  # type: ignore[arg-type]
        lanes.submit("box", done.set)
        assert done.wait(PATIENCE)
        lanes.close()  # so that both have ended
    assert "ZeroDivisionError" in caplog.text


def test_what_waits_when_it_closes_is_not_done() -> None:
    lanes = Lanes("test", threads=4, at_once=1)
    hanging, never = Hanging(), threading.Event()
    lanes.submit("box", hanging)
    assert hanging.began.acquire(timeout=PATIENCE)
    lanes.submit("box", never.set)
    closing = threading.Thread(target=lanes.close)
    closing.start()
    while not lanes._closed:  # else what waits would be begun
        time.sleep(0.001)
    hanging.go.set()
    closing.join()
    lanes.submit("box", never.set)
    assert hanging.ended.acquire(timeout=PATIENCE) and not never.is_set()
