"""Which waiting runs start, and where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.placement import Amount, Computer, Key, Lack, Room, Share, Waiting, newest_until, place

LOCAL: Key = ("w", "local")
CLUSTER: Key = ("w", "cpu")
NODE = Amount(2000, 4000, 0)


def computer(cores: float, memory_mb: int = 10_000, gpus: int = 0) -> Computer:
    return Computer(Amount(round(cores * 1000), memory_mb, gpus), tuple(range(gpus)))


def node(id: str, free: Amount = NODE) -> Room:
    return Room(id, size=NODE, free=free)


def test_slots_are_taken_in_the_order_of_the_queue() -> None:
    queue = [Waiting(number, LOCAL, 1, Amount(500)) for number in (1, 2, 3)]
    found = place(computer(4), {LOCAL: [Room(slots=2)]}, queue)
    assert [run for run, _ in found.placed] == [1, 2]
    assert found.blocked[LOCAL].run == 3 and found.blocked[LOCAL].lack is Lack.ROOMS


def test_a_run_without_a_declared_part_takes_a_whole_node_which_must_be_empty() -> None:
    rooms = [node("a", NODE - Amount(500)), node("b")]
    found = place(computer(8), {CLUSTER: rooms}, [Waiting(1, CLUSTER), Waiting(2, CLUSTER)])
    assert found.placed == [(1, (Share("b", NODE),))]
    assert found.blocked[CLUSTER].needs == NODE


def test_parts_share_a_node_and_the_fullest_one_is_filled_first() -> None:
    rooms = [node("a"), node("b", Amount(1000, 1000))]
    found = place(computer(8), {CLUSTER: rooms}, [Waiting(1, CLUSTER, 1, Amount(1000, 500))])
    assert found.placed == [(1, (Share("b", Amount(1000, 500)),))]


def test_several_nodes_are_given_all_or_none() -> None:
    found = place(computer(8), {CLUSTER: [node("a"), node("b")]}, [Waiting(1, CLUSTER, 3), Waiting(2, CLUSTER)])
    assert found.placed == [] and found.blocked[CLUSTER].run == 1
    both = place(computer(8), {CLUSTER: [node("a"), node("b")]}, [Waiting(1, CLUSTER, 2)])
    assert [share.room for share in both.placed[0][1]] == ["a", "b"]


def test_a_run_that_the_computer_has_no_room_for_reserves_what_it_needs() -> None:
    rooms = {CLUSTER: [node("a")], LOCAL: [Room(slots=4)]}
    queue = [Waiting(1, CLUSTER), Waiting(2, LOCAL, 1, Amount(500))]
    found = place(computer(1.5), rooms, queue)
    assert found.placed == [] and {each.lack for each in found.blocked.values()} == {Lack.COMPUTER}


def test_one_that_waits_for_nodes_of_its_own_cluster_reserves_nothing_of_the_computer() -> None:
    queue = [Waiting(1, CLUSTER), Waiting(2, LOCAL, 1, Amount(500))]
    found = place(computer(1), {LOCAL: [Room(slots=4)]}, queue)
    assert [run for run, _ in found.placed] == [2]
    assert found.blocked[CLUSTER].lack is Lack.ROOMS


def test_devices_are_given_once() -> None:
    queue = [Waiting(number, LOCAL, 1, Amount(100, 0, 1)) for number in (1, 2, 3)]
    found = place(computer(4, gpus=2), {LOCAL: [Room()]}, queue)
    assert [share.devices for _, (share,) in found.placed] == [(0,), (1,)]
    assert found.blocked[LOCAL].lack is Lack.COMPUTER


def test_without_a_computer_only_rooms_count() -> None:
    found = place(None, {LOCAL: [Room(slots=1)]}, [Waiting(1, LOCAL, 1, Amount(9_000_000))])
    assert found.placed == [(1, (Share("", Amount(9_000_000)),))]
    whole = place(None, {LOCAL: [Room(slots=1)]}, [Waiting(1, LOCAL)])
    assert whole.placed == [(1, (Share("", Amount()),))]


@pytest.mark.parametrize(
    ("shortage", "taken", "chosen"),
    [
        (Amount(1000), set(), ["new"]),
        (Amount(1500), set(), ["new", "old"]),
        (Amount(1500), {"new"}, ["old"]),
        (Amount(9000), set(), []),
        (Amount(), set(), []),
    ],
)
def test_the_newest_nodes_of_low_priority_go_first(shortage: Amount, taken: set[str], chosen: list[str]) -> None:
    candidates = [("new", Amount(1000)), ("old", Amount(1000))]
    assert newest_until(shortage, candidates, taken) == chosen


amounts = st.builds(Amount, st.integers(0, 4000), st.integers(0, 4000), st.integers(0, 2))
keys = st.sampled_from([LOCAL, CLUSTER])


@given(
    whole=st.builds(Amount, st.integers(0, 8000), st.integers(0, 8000), st.integers(0, 4)),
    slots=st.integers(0, 4),
    nodes=st.integers(0, 4),
    wanted=st.lists(st.tuples(keys, st.integers(1, 3), st.none() | amounts), max_size=12),
)
def test_nothing_is_given_twice_and_queues_keep_their_order(
    whole: Amount, slots: int, nodes: int, wanted: list[tuple[Key, int, Amount | None]]
) -> None:
    rooms = {LOCAL: [Room(slots=slots)], CLUSTER: [node(str(number)) for number in range(nodes)]}
    queue = [
        Waiting(number, key, count if key == CLUSTER else 1, amount or (None if key == CLUSTER else Amount()))
        for number, (key, count, amount) in enumerate(wanted)
    ]
    found = place(Computer(whole, tuple(range(whole.gpus))), rooms, queue)
    shares = [share for _, given_to in found.placed for share in given_to]
    assert whole.covers(sum((share.amount for share in shares), Amount()))
    devices = [device for share in shares for device in share.devices]
    assert len(devices) == len(set(devices))
    for number in range(nodes):
        assert NODE.covers(sum((share.amount for share in shares if share.room == str(number)), Amount()))
    placed = {run for run, _ in found.placed}
    for key in (LOCAL, CLUSTER):
        started = [run.run in placed for run in queue if run.target == key]
        assert started == sorted(started, reverse=True)  # none overtakes another of its queue
