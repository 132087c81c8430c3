"""Autoscaling of clusters. Pure: nodes, queue and limits in; nodes to create and to remove out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence, Set, Tuple

from windlass.core.placement import Amount, Key, Room, Waiting, place

_ANY: Key = ("", "")


@dataclass(frozen=True)
class ScaleLimits:
    """Limits that the owner of a cluster has set."""

    min_nodes: int
    max_nodes: int
    idle_seconds: float


@dataclass(frozen=True)
class NodeStatus:
    """A node that exists or is being created. `free` is its unused capacity."""

    id: str
    is_ready: bool
    is_busy: bool
    idle_seconds: float  # since its last run, or since it was created
    free: Amount


@dataclass(frozen=True)
class Scaling:
    create: int = 0
    remove: Tuple[str, ...] = ()
    is_short: bool = False  # a run does not fit even with the maximum of nodes; it blocks the queue behind it


def wanted_nodes(nodes: Sequence[NodeStatus], waiting: Sequence[Waiting], size: Amount, limits: ScaleLimits) -> Scaling:
    """Decide which nodes to create or to remove.

    Nodes that the queue needs are created at once, up to the maximum. A node without runs that the queue does not need
    is removed when it has been idle for long enough, down to the minimum; above the maximum it is removed at once.
    """
    room = max(0, limits.max_nodes - len(nodes))
    known = [Room(node.id, size=size, free=node.free) for node in nodes]
    new = [Room(f"new {number}", size=size, free=size) for number in range(room)]
    queue = [Waiting(run.run, _ANY, run.nodes, run.amount) for run in waiting]
    found = place(None, {_ANY: known + new}, queue)
    needed = {share.room for _, shares in found.placed for share in shares}
    if found.blocked:  # the first run that does not fit needs more nodes than are possible: all are kept for it
        needed |= {each.id for each in known + new}
    create = max(sum(each.id in needed for each in new), min(room, limits.min_nodes - len(nodes)))
    is_short = bool(found.blocked)
    return Scaling(create, (), is_short) if create > 0 else Scaling(0, _idle(nodes, needed, limits), is_short)


def _idle(nodes: Sequence[NodeStatus], needed: Set[str], limits: ScaleLimits) -> Tuple[str, ...]:
    """The nodes to remove, the longest idle first."""
    idle = [node for node in nodes if node.is_ready and not node.is_busy]
    idle.sort(key=lambda node: (node.id in needed, -node.idle_seconds, node.id))
    above = max(0, len(nodes) - limits.max_nodes)
    old = [
        node.id
        for place, node in enumerate(idle)
        if place < above or (node.id not in needed and node.idle_seconds >= limits.idle_seconds)
    ]
    return tuple(old[: max(above, len(nodes) - limits.min_nodes)])
