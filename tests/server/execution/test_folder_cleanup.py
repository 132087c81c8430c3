"""Targets are cleaned up side by side: what was cleaned is told once, and not lost."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from windlass.core.entities import Run, RunSpec
from windlass.core.errors import NotFound, TargetRejected, TargetUnreachable, WindlassError
from windlass.core.states import Observation, Phase, Reason, RunState
from windlass.drivers.base import Driver, Handle
from windlass.server.execution.folder_cleanup import AT_ONCE, SWEEP_EVERY, SWEEP_SOON, FolderCleanup
from windlass.server.execution.tracked_run import TargetKey
from windlass.store import Store, UncleanedAttempt

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

    def mark_cleaned(self, cleaned: Sequence[tuple[str, int, str]]) -> None:
        self.cleaned.extend((run, number) for run, number, _ in cleaned)


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
    cleanup = FolderCleanup(cast(Store, told), lambda workspace, target: machines, keep_days=0)
    noted = []
    with ThreadPoolExecutor(TARGETS) as pool:
        for turn, number, target in itertools.product(range(ROUNDS), range(RUNS), range(TARGETS)):
            run = ended(f"r{turn}.{target}.{number}", f"target{target}")
            noted.append((run.id, 1))
            cleanup.add(run, Handle("fake", run.id, "n", data={"is_last": number == RUNS - 1}))
            if len(noted) % (TARGETS * RUNS) == 0:
                list(pool.map(cleanup.clean_ended, cleanup.targets()))
    assert sorted(told.cleaned) == sorted(noted)


class Left(Told):
    """Also knows what is left to be cleaned up, oldest first."""

    def __init__(self, left: Sequence[Run]) -> None:
        super().__init__()
        self._left = left
        self.events: list[str] = []

    def given_up(self, limit: int, elsewhere: Sequence[TargetKey]) -> list[UncleanedAttempt]:
        return []

    def uncleaned_of_deleted(self, limit: int, elsewhere: Sequence[TargetKey]) -> list[UncleanedAttempt]:
        return []

    def uncleaned(self, before: datetime, limit: int, elsewhere: Sequence[TargetKey]) -> list[UncleanedAttempt]:
        return self.listed(limit, elsewhere)

    def append_event(self, run: str, kind: str, message: str) -> None:
        self.events.append(kind)

    def listed(self, limit: int, elsewhere: Sequence[TargetKey]) -> list[UncleanedAttempt]:
        left = [run for run in self._left if (run.workspace, run.target) not in elsewhere]
        return [attempt(run) for run in left if (run.id, 1) not in self.cleaned][:limit]


class Ended:
    """A machine whose runs have all ended."""

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        return [Observation(Phase.ENDED) for _ in handles]

    def clean(self, handle: Handle) -> None:
        pass


def attempt(run: Run) -> UncleanedAttempt:
    handle = {"kind": "fake", "native_id": f"{run.id}.1"}
    return UncleanedAttempt(run.workspace, run.target, run.id, 1, f"nonce of {run.id}", handle, run.reason)


@pytest.mark.parametrize("trouble", [TargetUnreachable, NotFound])
def test_many_runs_where_nothing_can_be_swept_keep_no_other_target_waiting(trouble: type[WindlassError]) -> None:
    """As behind a jump host that was detached."""
    asked = []

    def driver(workspace: str, target: str) -> Driver[Any]:
        asked.append(target)
        if target == "behind":
            raise trouble("There is no target gate.")
        return cast("Driver[Any]", Ended())

    left = [*(ended(f"r{number}", "behind") for number in range(2 * AT_ONCE)), ended("last", "box")]
    told = Left(left)
    FolderCleanup(cast(Store, told), driver, keep_days=0).sweep()
    assert told.cleaned == [("last", 1)]
    assert asked.count("behind") == 1


class Stubborn(Ended):
    """A machine that answers, and cleans up nothing of certain runs."""

    def __init__(self, trouble: Exception, stays: str) -> None:
        self._trouble = trouble
        self._stays = stays

    def clean(self, handle: Handle) -> None:
        if handle.native_id.startswith(self._stays):
            raise self._trouble


@pytest.mark.parametrize("trouble", [TargetRejected("It is still running."), OSError("Permission denied")])
def test_many_runs_that_cannot_be_cleaned_up_keep_no_other_waiting(trouble: Exception) -> None:
    machine = cast("Driver[Any]", Stubborn(trouble, stays="old"))
    left = [*(ended(f"old{number}", "box") for number in range(2 * AT_ONCE)), ended("last", "box"), ended("far", "bay")]
    told = Left(left)
    FolderCleanup(cast(Store, told), lambda workspace, target: machine, keep_days=0).sweep()
    assert sorted(told.cleaned) == [("far", 1), ("last", 1)]


def test_one_that_nobody_understands_keeps_no_other_waiting() -> None:
    class Odd(Ended):
        def observe(self, handles: Sequence[Handle]) -> list[Observation]:
            if handles[0].native_id == "odd.1":
                raise KeyError("phase")
            return super().observe(handles)

    machine = cast("Driver[Any]", Odd())
    told = Left([ended("odd", "box"), ended("last", "box")])
    FolderCleanup(cast(Store, told), lambda workspace, target: machine, keep_days=0).sweep()
    assert told.cleaned == [("last", 1)]


def test_all_that_were_given_up_are_looked_at_however_long_their_folders_are_kept() -> None:
    class Alive(Ended):
        def __init__(self) -> None:
            self.stopped: list[str] = []

        def observe(self, handles: Sequence[Handle]) -> list[Observation]:
            return [Observation(Phase.RUNNING) for _ in handles]

        def stop(self, handle: Handle, grace: timedelta) -> None:
            self.stopped.append(handle.native_id)

    class GivenUp(Left):
        given_up = Left.listed

        def spec(self, run: str) -> RunSpec:
            return RunSpec()

    machine = Alive()
    told = GivenUp([ended(f"r{number}", "box") for number in range(2 * AT_ONCE + 1)])
    FolderCleanup(cast(Store, told), lambda workspace, target: cast("Driver[Any]", machine), keep_days=None).sweep()
    assert len(set(machine.stopped)) == len(machine.stopped) == 2 * AT_ONCE + 1


def test_an_end_that_came_right_after_it_was_given_up_is_told_too() -> None:
    """Its target is back before anything was cleaned up there."""
    run = replace(ended("old", "box"), reason=Reason.GAVE_UP)
    told = Left([run])
    cleanup = FolderCleanup(cast(Store, told), lambda workspace, target: cast("Driver[Any]", Ended()), keep_days=0)
    cleanup.add(run, Handle("fake", "old.1", "n"))
    for place in cleanup.targets():
        cleanup.clean_ended(place)
    cleanup.sweep()
    assert (told.events, told.cleaned) == (["late_report"], [("old", 1)])


def test_an_end_that_came_late_is_told_once_though_its_folder_stays() -> None:
    run = replace(ended("old", "box"), reason=Reason.GAVE_UP)
    told = Left([run])
    machine = cast("Driver[Any]", Stubborn(TargetRejected("It is still running."), stays="old"))
    cleanup = FolderCleanup(cast(Store, told), lambda workspace, target: machine, keep_days=0)
    cleanup.sweep()
    cleanup.sweep()
    assert told.events == ["late_report"]


class Away(Ended):
    """A machine that cannot be reached at first."""

    def __init__(self) -> None:
        self.is_away = True

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        if self.is_away:
            raise TargetUnreachable("box cannot be reached.")
        return super().observe(handles)

    def clean(self, handle: Handle) -> None:
        self.observe([handle])


def test_what_could_not_be_cleaned_up_is_tried_again_soon() -> None:
    """Not a minute later, for a target whose line broke in the moment of the cleanup; nor ever more often, for one that
    stays away.
    """
    machine, run = Away(), ended("r", "box")
    told = Left([run])
    cleanup = FolderCleanup(cast(Store, told), lambda workspace, target: cast("Driver[Any]", machine), keep_days=0)
    waits = []
    for _ in range(8):
        cleanup.sweep()
        waits.append(wait_of(cleanup))
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (SWEEP_SOON, SWEEP_EVERY)
    cleanup.add(run, Handle("fake", "r.1", "n"))
    cleanup.clean_ended(("default", "box"))
    assert wait_of(cleanup) == SWEEP_SOON
    machine.is_away = False
    cleanup.sweep()
    assert (told.cleaned, wait_of(cleanup)) == ([("r", 1)], SWEEP_EVERY)


def wait_of(cleanup: FolderCleanup) -> float:
    """The shortest of some times after which a sweep is due, if the last one was just now."""
    now = time.monotonic()
    times: list[float] = [*(SWEEP_SOON * 2.0**n for n in range(5)), SWEEP_EVERY]
    return next(wait for wait in times if cleanup.is_due(now + wait))
