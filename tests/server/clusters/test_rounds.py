"""When rounds of the autoscaler are made."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import migrated_sqlite
from tests.scenarios.stage import TARGET, WORKSPACE, Stage, staged
from windlass.server.execution.reconciler import SCALE_PAUSE
from windlass.testing import wait_until


class CountingScaler:
    """Makes no nodes, and says whether it did."""

    def __init__(self, changes: bool) -> None:
        self.rounds = 0
        self._changes = changes

    def scale(self, workspace: str, name: str) -> bool:
        self.rounds += 1
        return self._changes


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(migrated_sqlite(tmp_path), tmp_path) as stage:
        yield stage


def scaler_of(stage: Stage, changes: bool) -> CountingScaler:
    scaler = CountingScaler(changes)
    stage.reconciler._autoscaler = scaler  # type: ignore[assignment]
    return scaler


def test_runs_that_are_queued_after_a_round_without_effect_share_the_next_one(stage: Stage) -> None:
    scaler = scaler_of(stage, changes=False)
    stage.reconciler.on_queued(WORKSPACE, TARGET)
    wait_until(lambda: bool(stage.reconciler._pauses), "the first round is made at once")
    for _ in range(20):
        stage.reconciler.on_queued(WORKSPACE, TARGET)
    assert scaler.rounds == 1
    stage.reconciler._end_pauses(time.monotonic() + SCALE_PAUSE)
    wait_until(lambda: scaler.rounds == 2, "they have a round")
    wait_until(lambda: bool(stage.reconciler._pauses), "the pause begins anew")
    stage.reconciler._end_pauses(time.monotonic() + SCALE_PAUSE)
    assert not stage.reconciler._to_scale and scaler.rounds == 2  # nothing was queued meanwhile


def test_a_round_with_effect_is_followed_by_others_at_once(stage: Stage) -> None:
    scaler = scaler_of(stage, changes=True)
    for count in (1, 2, 3):
        stage.reconciler.on_queued(WORKSPACE, TARGET)
        wait_until(lambda count=count: scaler.rounds == count, "a round is made at once")  # type: ignore[misc]


class HangingScaler:
    """Has two clusters; the source of the first one hangs."""

    def __init__(self) -> None:
        self.rounds = {"slow": 0, "quick": 0}
        self.go = threading.Event()

    def clusters(self) -> list[tuple[str, str]]:
        return [(WORKSPACE, name) for name in self.rounds]

    def scale(self, workspace: str, name: str) -> bool:
        self.rounds[name] += 1
        return name == "quick" or self.go.wait(60)


def test_the_timer_serves_each_cluster_by_itself(stage: Stage) -> None:
    scaler = HangingScaler()
    stage.reconciler._autoscaler = scaler  # type: ignore[assignment]
    try:
        for count in (1, 2, 3):
            stage.reconciler._scale_all()
            wait_until(lambda count=count: scaler.rounds["quick"] == count, "a round is made")  # type: ignore[misc]
            wait_until(lambda: ("maintenance", ("scale", WORKSPACE, "quick")) not in under_way(stage), "it ends")
        assert scaler.rounds["slow"] == 1
    finally:
        scaler.go.set()


def under_way(stage: Stage) -> set[object]:
    return set(stage.dispatcher._under_way)
