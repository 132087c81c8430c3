"""Repetition of measurements: the contenders alternate, so that a noisy minute affects all of them."""

from __future__ import annotations

import math
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

median = statistics.median


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to repeat: enough for a median, or just enough to see that it works."""

    is_quick: bool = False

    def times(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full


def take_turns(rounds: int, *contenders: Callable[[], T], warm_up: int = 1) -> list[list[T]]:
    """Each contender's results, in the order given; the first rounds are thrown away."""
    results: list[list[T]] = [[] for _ in contenders]
    for count in range(warm_up + rounds):
        for contender, kept in zip(contenders, results, strict=True):
            result = contender()
            if count >= warm_up:
                kept.append(result)
    return results


def p99(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def milliseconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e3


def process_milliseconds(
    command: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> float:
    """From spawn to the end of a process that must succeed; its output goes nowhere."""

    def run() -> None:
        subprocess.run(
            command, env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    return milliseconds(run)
