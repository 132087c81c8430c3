"""Targets are cleaned up side by side: what was cleaned is told once, and not lost."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from windlass.core.entities import Run
from windlass.core.states import RunState
from windlass.drivers.base import Driver, Handle
from windlass.server.cleaning import Cleaning
from windlass.store import Store

TARGETS, RUNS, ROUNDS = 8, 50, 20


class Machines:
    """Clean at once, and all of them are done with their last run at the same moment."""

    def __init__(self) -> None:
        self._meeting = threading.Barrier(TARGETS)

    def clean(self, handle: Handle) -> None:
        if handle.data["is_last"]:
            self._meeting.wait(20)


class Told:
    """A store that hears what was cleaned."""

    def __init__(self) -> None:
        self.cleaned: list[tuple[str, int]] = []
        self.runs = self
        self.logs = SimpleNamespace(drop=lambda run, attempt: None)

    def mark_cleaned(self, cleaned: Sequence[tuple[str, int]]) -> None:
        self.cleaned.extend(cleaned)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """They take turns so often that they meet everywhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def ended(id: str, target: str) -> Run:
    now = datetime.now(UTC)
    return Run(id, "default", "demo", 1, "x", RunState.COMPLETED, now, now, target=target)


@pytest.mark.usefixtures("hasty_threads")
def test_what_is_cleaned_on_several_targets_at_once_is_told_once_each() -> None:
    told = Told()
    machines = cast("Driver[Any]", Machines())
    cleaning = Cleaning(cast(Store, told), lambda run: machines, keep_days=0)
    noted = []
    with ThreadPoolExecutor(TARGETS) as pool:
        for turn, number, target in itertools.product(range(ROUNDS), range(RUNS), range(TARGETS)):
            run = ended(f"r{turn}.{target}.{number}", f"target{target}")
            noted.append((run.id, 1))
            cleaning.note(run, Handle("fake", run.id, data={"is_last": number == RUNS - 1}))
            if len(noted) % (TARGETS * RUNS) == 0:
                list(pool.map(cleaning.clean_ended, cleaning.places()))
    assert sorted(told.cleaned) == sorted(noted)
