"""What may go, and its going. Nothing that a kept run needs is ever a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things are kept after they were last needed; None keeps them for ever."""

    runs: timedelta | None = None  # after their end, with all that is theirs
    logs: timedelta | None = None  # of runs that ended
    snapshots: timedelta | None = timedelta(days=7)  # that no run has
    uploads: timedelta = timedelta(
        days=1
    )  # bytes that nothing refers to: younger ones may belong to a submit under way


@dataclass(frozen=True, slots=True)
class Item:
    kind: str  # "run", "log", "snapshot" or "blob"
    id: str
    bytes: int
    why: str


class Retention:
    def candidates(self, policy: Policy, now: datetime) -> list[Item]:
        raise NotImplementedError

    def apply(self, items: Sequence[Item]) -> int:
        """Remove those of `items` that still may go; returns how many bytes went."""
        raise NotImplementedError
