"""Rounds of the autoscaler that requests cause."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.stage import TARGET, WORKSPACE, Stage, staged
from windlass.core.entities import Target
from windlass.server.execution.reconciler import SCALE_PAUSE

ROUND = 0.02  # seconds


class Rounds:
    """Stands in for the autoscaler: when its rounds began."""

    def __init__(self) -> None:
        self.began: list[float] = []

    def on_queued(self, workspace: str, name: str, target: Target) -> None:
        assert (workspace, name, target.name) == (WORKSPACE, TARGET, TARGET)
        self.began.append(time.monotonic())
        time.sleep(ROUND)


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage


def test_a_burst_of_queued_runs_causes_few_rounds_of_the_autoscaler(stage: Stage) -> None:
    rounds = Rounds()
    stage.reconciler._autoscaler = rounds  # type: ignore[assignment]
    begin = time.monotonic()
    while time.monotonic() < begin + 0.5:
        last = time.monotonic()
        stage.reconciler.scale(WORKSPACE, TARGET)
        time.sleep(0.001)
    deadline = last + 60
    while not rounds.began or rounds.began[-1] < last:  # a round that sees the last run follows
        assert time.monotonic() < deadline
        time.sleep(0.001)
    pauses = [later - earlier for earlier, later in zip(rounds.began, rounds.began[1:], strict=False)]
    assert pauses and min(pauses) >= SCALE_PAUSE * ROUND
