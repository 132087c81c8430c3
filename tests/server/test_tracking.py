"""What a server remembers of the runs that it holds is bounded, whatever their targets say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.makers import make_workspace, submit
from windlass.core.states import Observation, Phase, Reason
from windlass.drivers.base import FileGrew, JobChanged
from windlass.server.execution.tracked_run import MANY_FILES, MOST_GROWN, MOST_GROWN_BYTES, Tracked, Tracking
from windlass.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/db.sqlite", tmp_path / "files")
    yield opened
    opened.close()


def tracked_run(store: Store) -> tuple[Tracking, Tracked]:
    make_workspace(store)
    leased = submit(store, "r")[2]
    assert leased is not None
    tracking, tracked = Tracking(), Tracked(leased.run, leased.spec, leased.fence, leased.nonce, None, False)
    tracking.add(tracked)
    return tracking, tracked


def test_files_that_grow_without_end_take_bounded_memory(store: Store) -> None:
    tracking, tracked = tracked_run(store)
    for number in range(100_000):
        tracking.hear("r.1", FileGrew(f"source/logs/{number}", 1))
    assert len(tracking.take_news(tracked).grown) == MOST_GROWN
    for number in range(1000):
        tracking.hear("r.1", FileGrew(f"source/logs/{number}/" + "x/" * 1000, 1))
    assert sum(map(len, tracking.take_news(tracked).grown)) <= MOST_GROWN_BYTES
    tracking.hear("r.1", FileGrew("source/logs/a", 1))
    assert tracking.take_news(tracked).grown == ["source/logs/a"]


def test_an_end_with_many_files_is_asked_for_when_it_is_needed(store: Store) -> None:
    tracking, tracked = tracked_run(store)
    files = tuple((f"source/outputs/{number}", 1, None) for number in range(MANY_FILES + 1))
    tracking.hear("r.1", JobChanged(Observation(Phase.ENDED, 0, reason=Reason.EXITED, files=files)))
    news = tracking.take_news(tracked)
    assert news.is_changed and news.told is None
