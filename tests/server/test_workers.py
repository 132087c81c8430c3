"""Who waits for whom at a target."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.scenarios.stage import TARGET, WORKSPACE, Stage, staged
from windlass.core.errors import TargetQuarantined, TargetUnreachable
from windlass.server.tracking import Tracked
from windlass.server.workers import WORKERS, Workers

PLACE = (WORKSPACE, TARGET)
PATIENCE = 10.0


@pytest.fixture
def stage(store_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(store_url, tmp_path) as stage:
        yield stage


@pytest.fixture
def workers(stage: Stage) -> Workers:
    return stage.reconciler._workers


def test_what_nobody_waits_for_any_more_is_not_done(workers: Workers) -> None:
    go, began, done = threading.Event(), threading.Semaphore(0), []

    def hang() -> None:
        began.release()
        go.wait(PATIENCE)

    try:
        for _ in range(WORKERS):
            with pytest.raises(TargetUnreachable, match="has not answered"):
                workers.within(0.01, PLACE, hang)
        assert all(began.acquire(timeout=PATIENCE) for _ in range(WORKERS))
        for number in range(20):
            with pytest.raises(TargetUnreachable, match="Ask again"):
                workers.within(0.01, PLACE, lambda n=number: done.append(n))  # type: ignore[misc]
    finally:
        go.set()
    workers.within(PATIENCE, PLACE, lambda: done.append(99))
    assert done == [99]


def test_a_check_that_finds_another_machine_quarantines_the_target(stage: Stage, workers: Workers) -> None:
    workers.reach.driver(*PLACE)

    def check() -> None:
        raise TargetQuarantined("it has another key")

    with pytest.raises(TargetQuarantined):
        workers.within(PATIENCE, PLACE, check)
    assert stage.store.targets.get(*PLACE).quarantine == "it has another key"
    [entry] = stage.store.audit.list(WORKSPACE)
    assert (entry.principal, entry.act, entry.object) == ("server", "target.quarantine", TARGET)


def test_a_target_that_does_not_answer_has_one_thread_also_of_those_who_collect(workers: Workers) -> None:
    go, began = threading.Event(), threading.Semaphore(0)

    def fail() -> None:
        raise TargetUnreachable("it is off")

    def hang() -> None:
        began.release()
        go.wait(PATIENCE)

    with pytest.raises(TargetUnreachable, match="it is off"):
        workers.within(PATIENCE, PLACE, fail)
    try:
        for _ in range(3):
            workers.collect(cast(Tracked, SimpleNamespace(place=PLACE)), hang)
        assert began.acquire(timeout=PATIENCE)
        assert not began.acquire(timeout=0.05), "a second one hangs"
        workers.within(PATIENCE, PLACE, lambda: None)
        assert all(began.acquire(timeout=PATIENCE) for _ in range(2)), "it answers again"
    finally:
        go.set()
