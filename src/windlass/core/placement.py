"""Placement: which waiting runs start now, and on which nodes. Pure; called by the admission transaction.

Runs of one target start in the order of their queue: the first one that does not fit keeps the others of its target
waiting. Targets that share a computer are served by priority, then in the order in which their runs came. A run for
which the computer has no room yet reserves what it needs, so that runs of other targets do not starve it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

Key = Tuple[str, str]  # the workspace and name of a target


@dataclass(frozen=True)
class Amount:
    """Amount of resources: cores in thousandths, memory in MB, and a number of GPUs."""

    millicores: int = 0
    memory_mb: int = 0
    gpus: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.millicores + other.millicores, self.memory_mb + other.memory_mb, self.gpus + other.gpus)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.millicores - other.millicores, self.memory_mb - other.memory_mb, self.gpus - other.gpus)

    def __mul__(self, times: int) -> Amount:
        return Amount(self.millicores * times, self.memory_mb * times, self.gpus * times)

    def covers(self, other: Amount) -> bool:
        return self.millicores >= other.millicores and self.memory_mb >= other.memory_mb and self.gpus >= other.gpus


@dataclass(frozen=True)
class Computer:
    """Free resources of a computer, and the device numbers of its free GPUs."""

    free: Amount
    devices: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Room:
    """Place for runs: a node of a cluster, or a whole target without nodes.

    A node has a size, of which `free` is unused. A target without nodes has `slots` instead, and its runs use resources
    of the computer only.
    """

    id: str = ""
    slots: Optional[int] = None  # free ones; None: no limit
    size: Optional[Amount] = None
    free: Optional[Amount] = None


@dataclass(frozen=True)
class Waiting:
    """A run in the queue of a target. It needs `nodes` rooms, and `amount` of each; None: a whole node."""

    run: int
    target: Key
    nodes: int = 1
    amount: Optional[Amount] = None


@dataclass(frozen=True)
class Share:
    """Share of one room that a run gets."""

    room: str
    amount: Amount
    devices: Tuple[int, ...] = ()


class Lack(Enum):
    """What the first run of a target's queue waits for."""

    ROOMS = "rooms"  # free slots, or nodes of its cluster
    COMPUTER = "computer"  # free resources of the computer that its target is on


@dataclass(frozen=True)
class Blocked:
    run: int
    lack: Lack
    needs: Amount  # of the computer, in all


@dataclass
class Placement:
    placed: List[Tuple[int, Tuple[Share, ...]]] = field(default_factory=list)
    blocked: Dict[Key, Blocked] = field(default_factory=dict)


def place(computer: Optional[Computer], rooms: Mapping[Key, Sequence[Room]], waiting: Sequence[Waiting]) -> Placement:
    """Place runs, which are given in the order of priority and arrival. Without a computer only rooms count."""
    result = Placement()
    left = {key: list(found) for key, found in rooms.items()}
    free = computer.free if computer is not None else None
    devices = list(computer.devices) if computer is not None else []
    for run in waiting:
        if run.target in result.blocked:
            continue
        chosen = _choose(left.get(run.target, []), run)
        if chosen is None:
            result.blocked[run.target] = Blocked(run.run, Lack.ROOMS, _least(left.get(run.target, []), run))
            continue
        amounts = [_amount(room, run) for room in chosen]
        needed = sum(amounts, Amount())
        if free is not None and not (free.covers(needed) and len(devices) >= needed.gpus):
            result.blocked[run.target] = Blocked(run.run, Lack.COMPUTER, needed)
            free -= needed  # reserved: later runs must fit beside it
            continue
        if free is not None:
            free -= needed
        shares = []
        for room, amount in zip(chosen, amounts):
            taken, devices = (tuple(devices[: amount.gpus]), devices[amount.gpus :]) if free is not None else ((), [])
            shares.append(Share(room.id, amount, taken))
            _take(left[run.target], room, amount)
        result.placed.append((run.run, tuple(shares)))
    return result


def _amount(room: Room, run: Waiting) -> Amount:
    if run.amount is not None:
        return run.amount
    return room.size if room.size is not None else Amount()


def _choose(rooms: Sequence[Room], run: Waiting) -> Optional[List[Room]]:
    """As many rooms as the run needs, all different, the fullest that fit first; None if there are not enough."""
    fitting = [room for room in rooms if _fits(room, run)]
    if len(fitting) < run.nodes:
        return None
    if run.amount is not None:
        fitting.sort(key=lambda room: room.free.millicores if room.free is not None else 0)
    return fitting[: run.nodes]


def _fits(room: Room, run: Waiting) -> bool:
    if room.slots is not None and room.slots < 1:
        return False
    if room.size is None or room.free is None:
        return True
    if run.amount is None:
        return room.free == room.size
    return room.free.covers(run.amount)


def _take(rooms: List[Room], room: Room, amount: Amount) -> None:
    slots = None if room.slots is None else room.slots - 1
    free = None if room.free is None else room.free - amount
    rooms[rooms.index(room)] = replace(room, slots=slots, free=free)


def _least(rooms: Sequence[Room], run: Waiting) -> Amount:
    """Resources of the computer that the run needs, as far as that is known without rooms."""
    one = run.amount or next((room.size for room in rooms if room.size is not None), Amount())
    return one * run.nodes


def newest_until(shortage: Amount, candidates: Sequence[Tuple[str, Amount]], taken: Set[str]) -> List[str]:
    """The low-priority nodes to evict to meet a shortage, from candidates with the newest first. None of them if all
    together would not suffice.

    `taken` are nodes that are being evicted already: they count, and are not returned again.
    """
    chosen: List[str] = []
    freed = Amount()
    for node, amount in candidates:
        if freed.covers(shortage):
            break
        freed += amount
        if node not in taken:
            chosen.append(node)
    return chosen if freed.covers(shortage) else []
