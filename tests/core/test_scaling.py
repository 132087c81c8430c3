"""How many nodes a cluster should have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.placement import Amount, Key, Waiting
from windlass.core.scaling import NodeStatus, ScaleLimits, Scaling, wanted_nodes

CLUSTER: Key = ("w", "cpu")
SIZE = Amount(2000, 4000)
FOUR = ScaleLimits(0, 4, 10.0)


def idle(id: str, seconds: float = 0.0) -> NodeStatus:
    return NodeStatus(id, True, False, seconds, SIZE)


def busy(id: str, free: Amount = Amount()) -> NodeStatus:  # noqa: B008
    return NodeStatus(id, True, True, 0.0, free)


def queue(*nodes: int) -> list[Waiting]:
    return [Waiting(number, CLUSTER, count) for number, count in enumerate(nodes)]


@pytest.mark.parametrize(
    ("nodes", "waiting", "limits", "wanted"),
    [
        ([], queue(), FOUR, Scaling()),
        ([], queue(1), FOUR, Scaling(1)),
        ([], queue(1, 1, 1, 1, 1, 1), FOUR, Scaling(4, is_short=True)),
        ([], queue(3), FOUR, Scaling(3)),
        ([idle("a")], queue(1), FOUR, Scaling()),
        ([busy("a")], queue(1, 1), FOUR, Scaling(2)),
        ([], queue(), ScaleLimits(2, 4, 10.0), Scaling(2)),
        ([idle("a", 99), idle("b", 5)], queue(), FOUR, Scaling(0, ("a",))),
        ([idle("a", 99), idle("b", 98)], queue(), ScaleLimits(1, 4, 10.0), Scaling(0, ("a",))),
        ([idle("a", 99), busy("b")], queue(4), FOUR, Scaling(2, is_short=True)),
        ([idle("a", 99), busy("b"), busy("c"), busy("d")], queue(2), FOUR, Scaling(is_short=True)),
        ([idle("a", 1), idle("b", 2), busy("c")], queue(), ScaleLimits(0, 1, 10.0), Scaling(0, ("b", "a"))),
        ([NodeStatus("a", False, False, 99.0, SIZE)], queue(), FOUR, Scaling()),
    ],
    ids=str,
)
def test_nodes(nodes: list[NodeStatus], waiting: list[Waiting], limits: ScaleLimits, wanted: Scaling) -> None:
    assert wanted_nodes(nodes, waiting, SIZE, limits) == wanted


def test_parts_that_fit_on_a_node_need_no_other() -> None:
    parts = [Waiting(number, CLUSTER, 1, Amount(500, 500)) for number in range(5)]
    assert wanted_nodes([busy("a", Amount(1000, 1000))], parts, SIZE, FOUR) == Scaling(1)


nodes_there = st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 100)), max_size=6)


@given(nodes_there, st.lists(st.integers(1, 4), max_size=8), st.integers(0, 3), st.integers(0, 5))
def test_limits_hold_and_no_busy_node_goes(
    there: list[tuple[bool, bool, float]], waiting: list[int], least: int, more: int
) -> None:
    nodes = [
        NodeStatus(str(number), is_ready, is_ready and is_busy, seconds, Amount() if is_busy else SIZE)
        for number, (is_ready, is_busy, seconds) in enumerate(there)
    ]
    limits = ScaleLimits(least, least + more, 10.0)
    wanted = wanted_nodes(nodes, queue(*waiting), SIZE, limits)
    after = len(nodes) + wanted.create - len(wanted.remove)
    assert wanted.create == 0 or after <= limits.max_nodes
    assert not wanted.remove or after >= min(limits.min_nodes, len(nodes)) or len(nodes) > limits.max_nodes
    assert not {node.id for node in nodes if node.is_busy or not node.is_ready} & set(wanted.remove)
    if len(nodes) < limits.min_nodes:
        assert after >= limits.min_nodes
