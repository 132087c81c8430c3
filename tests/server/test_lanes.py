"""One target that hangs keeps nobody else waiting."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from windlass.server.lanes import Lanes

PATIENCE = 10.0


@pytest.fixture
def lanes() -> Iterator[Lanes]:
    made = Lanes("test", threads=8, at_once=2)
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
    for _ in range(20):
        lanes.submit("hanging", hanging)
    assert hanging.began.acquire(timeout=PATIENCE) and hanging.began.acquire(timeout=PATIENCE)
    lanes.submit("well", other.set)
    assert other.wait(PATIENCE)
    assert not hanging.began.acquire(timeout=0.05), "a third one is in the lane"
    hanging.go.set()
    assert all(hanging.ended.acquire(timeout=PATIENCE) for _ in range(20))


def test_many_lanes_that_are_slow_leave_threads_for_others(lanes: Lanes) -> None:
    """More slow targets than half of the threads: with one thread each there is still room."""
    hanging, other = Hanging(), threading.Event()
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
    assert "ZeroDivisionError" in caplog.text


def test_what_waits_when_it_closes_is_not_done() -> None:
    lanes = Lanes("test", threads=4, at_once=1)
    hanging, never = Hanging(), threading.Event()
    lanes.submit("box", hanging)
    assert hanging.began.acquire(timeout=PATIENCE)
    lanes.submit("box", never.set)
    threading.Timer(0.05, hanging.go.set).start()
    lanes.close()
    lanes.submit("box", never.set)
    assert hanging.ended.acquire(timeout=PATIENCE) and not never.is_set()
