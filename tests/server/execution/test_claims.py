"""Which instance of a job executes, where a scheduler may start several."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from tests.scenarios.stage import WORKSPACE, Stage, staged
from windlass import drivers
from windlass.core.entities import Run
from windlass.core.errors import TargetUnreachable
from windlass.core.states import Observation, Phase, RunState
from windlass.drivers.base import Claims, Handle
from windlass.drivers.kinds.dummy import DummyDriver


class FakeSchedulerDriver(DummyDriver, Claims):
    """A dummy target with a scheduler: its file `instances` names those that were started, and each of them waits until
    it is allowed. Its job runs as soon as one is. What was decided is in the file `decided`, line by line.
    """

    kind = "fake_scheduler"

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        with open(self.config.folder / "observed", "a") as file:
            file.write(".")
        if not any(word == "allow" for word, _ in decided(self.config.folder)):
            return [Observation(Phase.QUEUED, message="waits for a node") for _ in handles]
        return super().observe(handles)

    def stop(self, handle: Handle, grace: timedelta) -> None:
        self._decide("stop", "")

    def waiting(self, handles: Sequence[Handle]) -> list[tuple[str, ...]]:
        gone = {instance for word, instance in decided(self.config.folder) if word == "refuse"}
        started = json.loads((self.config.folder / "instances").read_text())
        return [tuple(instance for instance in started if instance not in gone) for _ in handles]

    def allow(self, handle: Handle, instance: str) -> None:
        if (self.config.folder / "dies").exists():
            self._decide("unheard", instance)
            raise TargetUnreachable("The scheduler went away before it was told.")
        self._decide("allow", instance)

    def refuse(self, handle: Handle, instance: str, owner: str) -> None:
        self._decide("refuse", instance)

    def _decide(self, word: str, instance: str) -> None:
        with open(self.config.folder / "decided", "a") as file:
            file.write(json.dumps([word, instance]) + "\n")


def decided(folder: Path) -> list[tuple[str, str]]:
    file = folder / "decided"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(word, instance) for word, instance in map(json.loads, lines)]


@pytest.fixture
def stage(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    load = drivers.load
    monkeypatch.setattr(drivers, "load", lambda kind: FakeSchedulerDriver if kind == "fake_scheduler" else load(kind))
    with staged(store_url, tmp_path) as stage:
        config = {"folder": str(stage.folder)}
        stage.store.targets.ensure(WORKSPACE, "cluster", "fake_scheduler", config, None, True)
        yield stage


def start(stage: Stage, *instances: str) -> None:
    (stage.folder / "instances").write_text(json.dumps(instances))


def is_running(run: Run) -> bool:
    return run.state is RunState.RUNNING


def test_one_of_two_instances_executes_and_the_other_is_ended(stage: Stage) -> None:
    start(stage, "pod-a", "pod-b")
    run = stage.until(stage.submit("cluster", sleep="1000"), is_running)
    found = decided(stage.folder)
    assert {instance for word, instance in found if word == "allow"} == {"pod-a"}
    assert {instance for word, instance in found if word == "refuse"} == {"pod-b"}
    assert stage.store.runs.claim(run.id, 1, "pod-c", fence=1) == "pod-a"


def test_the_owner_stays_the_owner_when_the_server_dies_before_it_allows_it(stage: Stage) -> None:
    (stage.folder / "dies").touch()
    start(stage, "pod-a")
    run = stage.until(stage.submit("cluster", sleep="1000"), lambda _: ("unheard", "pod-a") in decided(stage.folder))
    start(stage, "pod-b", "pod-a")  # the scheduler has started another one meanwhile
    (stage.folder / "dies").unlink()
    stage.until(run, is_running)
    assert {instance for word, instance in decided(stage.folder) if word == "allow"} == {"pod-a"}


def test_a_canceled_run_is_not_allowed(stage: Stage) -> None:
    start(stage)
    run = stage.until(stage.submit("cluster", sleep="1000"), lambda found: "waits for a node" in found.message)
    stage.cancel(run)
    stage.until(run, lambda _: ("stop", "") in decided(stage.folder))
    start(stage, "pod-a")
    before = observed(stage)
    stage.until(run, lambda _: observed(stage) > before + 5)
    assert {word for word, _ in decided(stage.folder)} == {"stop"}


def observed(stage: Stage) -> int:
    return (stage.folder / "observed").stat().st_size
