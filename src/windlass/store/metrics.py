"""Series of metrics: appended exactly once, packed in chunks, summed up for the list of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Series:
    """Values as logged, in order: (value, unix time, step or None). `kind` is "scalar" unless the line named one."""

    kind: str
    count: int
    values: list[tuple[Any, float, int | None]]
    description: str = ""


class Metrics:
    def append(
        self, run_id: str, writer: str, offset: int, next_offset: int, lines: Sequence[Mapping[str, Any]]
    ) -> bool:
        raise NotImplementedError

    def cursor(self, run_id: str, writer: str) -> int:
        raise NotImplementedError

    def counts(self, run_id: str) -> dict[str, int]:
        raise NotImplementedError

    def read(self, run_id: str, names: Sequence[str] | None = None, start: int = 0) -> dict[str, Series]:
        raise NotImplementedError

    def thin(self, run_id: str, name: str, max_points: int) -> list[tuple[int, int | None, float, float]]:
        """(index, step, time, value) of at most about `max_points` points; minima and maxima stay."""
        raise NotImplementedError
