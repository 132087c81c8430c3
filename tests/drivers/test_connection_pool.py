"""Connections are shared, remade when broken, and not asked for in vain."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from windlass.core.errors import LoginRefused, TargetUnreachable
from windlass.drivers.connection_pool import BackoffPool, TrackedPool


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Connection:
    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


class Target:
    """Something to connect to; counts who tries."""

    def __init__(self) -> None:
        self.is_up = True
        self.refuses = False
        self.tries = 0

    def connect(self) -> Connection:
        self.tries += 1
        if self.refuses:
            raise LoginRefused("box does not let us in: Permission denied")
        if not self.is_up:
            raise TargetUnreachable("box cannot be reached: no route")
        return Connection()


def ask_in_vain(
    connections: BackoffPool,
    target: Target,
    clock: Clock,
    times: int,
    seconds: float,
    word: str | None = None,
    error: type[TargetUnreachable] = TargetUnreachable,
) -> list[int]:
    """So often, at such intervals. How often the target itself was tried by then, each time."""
    tries = []
    for _ in range(times):
        with pytest.raises(error, match=word):
            connections.get("a", target.connect)
        clock.now += seconds
        tries.append(target.tries)
    return tries


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def connections(clock: Clock) -> BackoffPool:
    return BackoffPool(clock)


def test_one_key_is_one_connection(connections: BackoffPool) -> None:
    target = Target()
    assert connections.get("a", target.connect) is connections.get("a", target.connect)
    assert connections.get("a", target.connect) is not connections.get("b", target.connect)
    assert target.tries == 2


def test_threads_that_come_at_once_share_the_connection(connections: BackoffPool) -> None:
    target, gate = Target(), threading.Barrier(8)

    def ask() -> object:
        gate.wait()
        return connections.get("a", target.connect)

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask) for _ in range(8)]
        assert len({id(one.result()) for one in asked}) == 1
    assert target.tries == 1


def test_what_goes_wrong_on_this_side_is_told_too(connections: BackoffPool) -> None:
    """Whoever waits for the target waits on, and hears why."""

    def connect() -> Connection:
        raise OSError(28, "No space left on device")

    line = TrackedPool(connections)
    for _ in range(3):
        with pytest.raises(TargetUnreachable, match="can be made here: .*No space left on device"):
            line.get("a", connect)
    assert line.is_cut_off


class SlowTarget:
    """Connects when it is let go on."""

    def __init__(self) -> None:
        self.under_way, self.go_on = threading.Event(), threading.Event()

    def connect(self) -> Connection:
        self.under_way.set()
        self.go_on.wait(20)
        return Connection()


def test_a_slow_target_holds_nobody_else(connections: BackoffPool) -> None:
    target = SlowTarget()
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(connections.get, "slow", target.connect)
        target.under_way.wait(20)
        assert connections.get("quick", Connection).is_open
        target.go_on.set()
        assert slow.result().is_open


def test_nobody_waits_for_who_tries_again_what_has_failed(connections: BackoffPool) -> None:
    target, later = Target(), SlowTarget()
    target.is_up = False
    with pytest.raises(TargetUnreachable):
        connections.get("a", target.connect)
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(connections.get, "a", later.connect)
        later.under_way.wait(20)
        with pytest.raises(TargetUnreachable, match="no route") as told:
            connections.get("a", target.connect)
        assert told.value.details == {"tries": 2, "again_in": None}
        later.go_on.set()
        assert slow.result().is_open
    assert target.tries == 1
    assert connections.get("a", target.connect) is slow.result()


def test_a_broken_connection_is_closed_and_made_again(connections: BackoffPool) -> None:
    first = connections.get("a", Connection)
    first.is_open = False
    second = connections.get("a", Connection)
    assert second is not first and second.is_open


def test_who_is_refused_does_not_knock_until_he_is_shut_out(connections: BackoffPool, clock: Clock) -> None:
    """Machines commonly shut out who fails five times in ten minutes."""
    target = Target()
    target.refuses = True
    tries = ask_in_vain(
        connections, target, clock, times=3600, seconds=1, word="does not let us in", error=LoginRefused
    )
    assert all(later - before < 5 for before, later in zip(tries, tries[600:], strict=False))
    assert target.tries > 10
    target.refuses = False
    with pytest.raises(LoginRefused) as told:
        connections.get("a", target.connect)
    assert 0 < told.value.details["again_in"] < 400
    connections.reset_backoff("a")
    assert connections.get("a", target.connect).is_open


def test_one_that_answers_again_is_not_taken_for_one_that_refuses(connections: BackoffPool, clock: Clock) -> None:
    target = Target()
    target.refuses = True
    ask_in_vain(connections, target, clock, times=600, seconds=1)
    target.refuses, target.is_up = False, False
    clock.now += 400
    with pytest.raises(TargetUnreachable, match="no route"):
        connections.get("a", target.connect)
    target.is_up = True
    clock.now += 20
    assert connections.get("a", target.connect).is_open


def test_an_unreachable_target_is_left_alone_longer_and_longer(connections: BackoffPool, clock: Clock) -> None:
    target = Target()
    target.is_up = False
    ask_in_vain(connections, target, clock, times=600, seconds=0.1, word="no route")
    assert 8 <= target.tries <= 16


def test_a_target_that_came_back_is_found_within_the_longest_wait(connections: BackoffPool, clock: Clock) -> None:
    target = Target()
    target.is_up = False
    ask_in_vain(connections, target, clock, times=50, seconds=60)
    target.is_up = True
    clock.now += 60
    assert connections.get("a", target.connect).is_open


def test_the_first_failure_may_be_tried_again_at_once(connections: BackoffPool) -> None:
    target = Target()
    target.is_up = False
    with pytest.raises(TargetUnreachable):
        connections.get("a", target.connect)
    target.is_up = True
    assert connections.get("a", target.connect).is_open


def test_connections_that_break_at_once_are_failures_too(connections: BackoffPool, clock: Clock) -> None:
    target = Target()
    for _ in range(100):
        try:
            connections.get("a", target.connect).is_open = False
        except TargetUnreachable:
            pass
        clock.now += 0.1
    assert target.tries < 20


def test_one_that_lived_long_is_replaced_at_once(connections: BackoffPool, clock: Clock) -> None:
    target = Target()
    for _ in range(20):
        connections.get("a", target.connect).is_open = False
        clock.now += 60
    assert target.tries == 20


def test_drop_closes_and_forgets_the_failures(connections: BackoffPool) -> None:
    target = Target()
    connection = connections.get("a", target.connect)
    connections.drop("a")
    connections.drop("a")
    assert not connection.is_open
    target.is_up = False
    for _ in range(4):
        with pytest.raises(TargetUnreachable):
            connections.get("a", target.connect)
    connections.drop("a")
    target.is_up = True
    assert connections.get("a", target.connect).is_open


def test_after_close_nothing_is_open_and_nothing_is_made(connections: BackoffPool) -> None:
    opened = [connections.get(key, Connection) for key in "abc"]
    connections.close()
    connections.close()
    assert not any(connection.is_open for connection in opened)
    with pytest.raises(TargetUnreachable, match="stopping"):
        connections.get("a", Connection)


def test_a_connection_made_while_the_links_are_closed_is_closed_too(connections: BackoffPool) -> None:
    made: list[Connection] = []

    def make() -> Connection:
        connections.close()
        made.append(Connection())
        return made[0]

    with pytest.raises(TargetUnreachable):
        connections.get("a", make)
    assert not made[0].is_open


def test_who_could_not_even_connect_was_cut_off(connections: BackoffPool) -> None:
    line, target = TrackedPool(connections), Target()
    assert not line.is_cut_off, "who asks for no link may send in another way"
    target.is_up = False
    with pytest.raises(TargetUnreachable):
        line.get("a", target.connect)
    assert line.is_cut_off
    target.is_up = True
    line.get("a", target.connect)
    assert not line.is_cut_off


def test_who_had_a_connection_was_not_cut_off_when_it_broke(connections: BackoffPool) -> None:
    line, target = TrackedPool(connections), Target()
    line.get("a", target.connect).is_open = False
    target.is_up = False
    with pytest.raises(TargetUnreachable):
        line.get("a", target.connect)
    assert not line.is_cut_off


def test_what_is_had_on_the_way_to_a_connection_sends_nothing(connections: BackoffPool) -> None:
    line, target = TrackedPool(connections), Target()
    target.is_up = False

    def connect() -> Connection:
        line.get("a watch", Connection)
        return target.connect()

    with pytest.raises(TargetUnreachable):
        line.get("a", connect)
    assert line.is_cut_off
