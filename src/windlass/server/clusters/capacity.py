"""What targets may give to runs: their slots or nodes, and the computer that they take from."""

from __future__ import annotations

from typing import Any

from windlass import drivers
from windlass.core.entities import Target
from windlass.core.errors import WindlassError
from windlass.drivers.base import Driver, Scalable
from windlass.store import Account, Capacity


class Capacities:
    """Tells the capacity of a target from its row. Pure, since it is called within transactions."""

    def __init__(self, computer: Account) -> None:
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


def _of_inventory(workspace: str, target: Target) -> Account | None:
    """A machine by what it reported when it was checked; None if that says nothing of its size."""
    found = target.inventory or {}
    cores, memory_mb, gpus = (found.get(name) for name in ("cores", "memory_mb", "gpus"))
    if not isinstance(cores, (int, float)) or not isinstance(memory_mb, (int, float)):
        return None
    devices = gpus if isinstance(gpus, int) else 0
    return Account(f"{workspace}/{target.name}", round(cores * 1000), int(memory_mb), devices)
