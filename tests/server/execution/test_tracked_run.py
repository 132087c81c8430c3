"""The inbox of a run is bounded, whatever its target sends; a run is processed by one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.makers import make_workspace, submit
from windlass.core.states import Observation, Phase, Reason, RunState
from windlass.drivers.base import FileGrew, JobChanged
from windlass.server.execution.tracked_run import (
    MANY_FILES,
    MOST_GROWN,
    MOST_GROWN_BYTES,
    Events,
    Inbox,
    RowChanged,
    TrackedRun,
    TrackedRuns,
)
from windlass.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/db.sqlite", tmp_path / "files")
    yield opened
    opened.close()


def tracked_run(store: Store) -> tuple[TrackedRuns, TrackedRun]:
    make_workspace(store)
    leased = submit(store, "r")[2]
    assert leased is not None
    runs = TrackedRuns()
    runs.track(leased, may_be_on_target=False)
    tracked = runs.find("r.1")
    assert tracked is not None
    return runs, tracked


def paths(inbox: Inbox) -> list[str]:
    return [event.path for event in inbox.take().grown]


def test_files_that_grow_without_end_take_bounded_memory() -> None:
    inbox = Inbox()
    for number in range(100_000):
        inbox.put(FileGrew(f"source/logs/{number}", 1))
    assert len(paths(inbox)) == MOST_GROWN
    for number in range(1000):
        inbox.put(FileGrew(f"source/logs/{number}/" + "x/" * 1000, 1))
    assert sum(map(len, paths(inbox))) <= MOST_GROWN_BYTES
    inbox.put(FileGrew("source/logs/a", 1))
    assert paths(inbox) == ["source/logs/a"]


def test_an_end_with_many_files_is_asked_for_when_it_is_needed() -> None:
    inbox = Inbox()
    files = tuple((f"source/outputs/{number}", 1, None) for number in range(MANY_FILES + 1))
    inbox.put(JobChanged(Observation(Phase.ENDED, 0, reason=Reason.EXITED, files=files)))
    assert inbox.take().job == JobChanged()


def test_events_of_the_same_file_and_kind_are_merged_and_taken_at_once() -> None:
    inbox = Inbox()
    running = JobChanged(Observation(Phase.RUNNING, stage=RunState.RUNNING))
    for event in (FileGrew("a", 1), JobChanged(), RowChanged(), FileGrew("b", 1), FileGrew("a", 2), running):
        inbox.put(event)
    assert inbox.take() == Events((FileGrew("a", 2), FileGrew("b", 1)), running, RowChanged())
    assert inbox.is_empty and inbox.take() == Events()


@pytest.mark.parametrize("later", [JobChanged(), JobChanged(Observation(Phase.LOST))], ids=["unknown", "lost"])
def test_an_end_is_never_overwritten(later: JobChanged) -> None:
    inbox = Inbox()
    end = JobChanged(Observation(Phase.ENDED, 0, reason=Reason.EXITED))
    inbox.put(end)
    inbox.put(later)
    assert inbox.take().job == end
    inbox.put(later)
    assert inbox.take().job == later


def test_a_run_that_may_be_on_its_target_is_observed_first(store: Store) -> None:
    runs, tracked = tracked_run(store)
    assert tracked.inbox.is_empty
    runs.track(tracked.leased, may_be_on_target=True)
    found = runs.get("r")
    assert found is not None and found.inbox.take().job == JobChanged()


def test_a_run_is_acquired_by_one_thread_which_makes_another_pass_if_asked(store: Store) -> None:
    runs, tracked = tracked_run(store)
    assert runs.acquire("r")
    assert not runs.acquire("r")
    assert not runs.release("r"), "another pass was asked for"
    assert runs.release("r")
    assert runs.acquire("r")
    assert runs.remove(tracked) and not runs.remove(tracked)
    assert runs.release("r") and not runs.acquire("r")


def test_what_an_ended_attempt_reports_does_not_reach_the_next_one(store: Store) -> None:
    runs, first = tracked_run(store)
    run = replace(first.run, attempt=2)
    runs.track(replace(first.leased, run=run, fence=2, nonce="second"), may_be_on_target=False)
    assert runs.find("r.1") is None
    second = runs.find("r.2")
    assert second is not None and second is runs.get("r") and second is not first
    assert not runs.remove(first), "it is tracked in its next attempt"
    assert runs.get("r") is second
