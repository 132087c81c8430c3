"""Capacity of targets for runs: their slots or nodes, and the computer that these are on."""

from __future__ import annotations

from typing import Any

from windlass import drivers
from windlass.core.entities import Target
from windlass.core.errors import WindlassError
from windlass.drivers.base import Driver, Scalable
from windlass.store import Capacity, ComputerCapacity


class Capacities:
    """Computes the capacity of a target from its row. Pure, since it is called within transactions."""

    def __init__(self, computer: ComputerCapacity) -> None:
        self.computer = computer

    def __call__(self, workspace: str, target: Target) -> Capacity:
        try:
            kind: type[Driver[Any]] = drivers.load(target.kind)
        except WindlassError:  # of a package that is not installed any more
            return Capacity(slots=0)
        if issubclass(kind, Scalable):
            return Capacity(None, self.computer, True, kind.has_low_priority(target.config))
        if kind.is_this_computer:
            return Capacity(target.slots, self.computer)
        return Capacity(target.slots, _of_inventory(workspace, target))


def _of_inventory(workspace: str, target: Target) -> ComputerCapacity | None:
    """The size of a machine from its inventory; None if that has no size."""
    found = target.inventory or {}
    cores, memory_mb, gpus = (found.get(name) for name in ("cores", "memory_mb", "gpus"))
    if not isinstance(cores, (int, float)) or not isinstance(memory_mb, (int, float)):
        return None
    devices = gpus if isinstance(gpus, int) else 0
    return ComputerCapacity(f"{workspace}/{target.name}", round(cores * 1000), int(memory_mb), devices)
