"""The dummy does what its variables say, remembers, and insists on the contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.contract.harnesses import DummyHarness
from windlass.core.entities import Container, EnvironmentSpec
from windlass.core.errors import (
    Conflict,
    InternalError,
    InvalidRequest,
    NoCapacity,
    SpecNotSupported,
    TargetRejected,
    TargetUnreachable,
)
from windlass.core.states import Observation, Phase, Reason, RunState
from windlass.drivers.base import Handle
from windlass.testing.programs import MemoryBundle, Program


class Scene(DummyHarness):
    """A dummy target whose clock is ours."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.target.mkdir()
        self.at(0)

    def at(self, seconds: float) -> None:
        (self.target / "clock").write_text(str(1000 + seconds))

    def starts(self, **acts: str) -> Handle:
        return self.start(Program("", {f"DUMMY_{name.upper()}": value for name, value in acts.items()}))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.connections.close()


def test_a_job_queues_prepares_runs_and_ends_by_the_clock(scene: Scene) -> None:
    handle = scene.starts(queue="10", prepare="5", sleep="20", exit="3")
    life = []
    for second in (0, 9, 10, 14, 15, 34, 35, 1e9):
        scene.at(second)
        seen = scene.observe(handle)
        life.append((seen.phase, seen.stage, seen.exit_code))
    assert life == [
        *[(Phase.QUEUED, None, None)] * 2,
        *[(Phase.RUNNING, RunState.PREPARING, None)] * 2,
        *[(Phase.RUNNING, RunState.RUNNING, None)] * 2,
        *[(Phase.ENDED, None, 3)] * 2,
    ]


@pytest.mark.parametrize(
    ("acts", "reason", "exit_code", "signal"),
    [
        ({}, Reason.EXITED, 0, None),
        ({"exit": "7"}, Reason.EXITED, 7, None),
        ({"oom": "1"}, Reason.OUT_OF_MEMORY, None, 9),
        ({"signal": "11"}, Reason.SIGNALED, None, 11),
    ],
)
def test_it_ends_as_it_is_told(
    scene: Scene, acts: dict[str, str], reason: Reason, exit_code: int | None, signal: int | None
) -> None:
    seen = scene.observe(scene.starts(**acts))
    assert (seen.phase, seen.reason, seen.exit_code, seen.signal) == (Phase.ENDED, reason, exit_code, signal)


def test_the_end_tells_files_and_times(scene: Scene) -> None:
    bundle = MemoryBundle({"outputs/model.pkl": b"model", "train.py": b""})
    handle = scene.start(Program("", {"DUMMY_SLEEP": "2", "DUMMY_LOG": "hello\n"}), "x", bundle=bundle)
    scene.at(2)
    seen = scene.observe(handle)
    assert (seen.started_at, seen.ended_at) == (1000, 1002)
    assert [(path, size) for path, size, _ in seen.files] == [
        ("source/outputs/model.pkl", 5),
        ("user_logs/std_log.txt", 12),
    ]
    assert scene.log(handle) == b'["x"]\nhello\n'
    assert scene.driver().read(handle, "source/outputs/model.pkl") == b"model"


def test_nothing_is_to_be_read_before_it_began(scene: Scene) -> None:
    handle = scene.starts(queue="5", log="x")
    assert scene.log(handle) == b""
    assert list(scene.driver().files(handle)) == []


def test_grace_is_taken_only_by_one_that_ignores_the_wish(scene: Scene) -> None:
    polite, stubborn = scene.starts(sleep="99"), scene.starts(sleep="99", ignore_term="1")
    for handle in (polite, stubborn):
        scene.driver().stop(handle, timedelta(seconds=30))
    assert scene.observe(polite).reason is Reason.STOPPED
    scene.at(29)
    scene.driver().stop(stubborn, timedelta(seconds=30))  # a second wish begins no second grace
    assert scene.observe(stubborn).phase is Phase.RUNNING
    scene.at(30)
    assert scene.observe(stubborn).reason is Reason.STOPPED


def test_what_ended_before_the_wish_keeps_its_end(scene: Scene) -> None:
    handle = scene.starts(sleep="5", exit="4")
    scene.at(6)
    scene.driver().stop(handle, timedelta(0))
    assert scene.observe(handle).exit_code == 4


def test_a_vanished_job_is_lost(scene: Scene) -> None:
    handle = scene.starts(sleep="10", vanish="5")
    scene.at(4)
    assert scene.observe(handle).phase is Phase.RUNNING
    scene.at(5)
    assert scene.observe(handle) == Observation(Phase.LOST, message="there is no such job")
    assert scene.driver().find(handle.native_id, handle.nonce) is None


def test_starts_fail_as_they_are_told(scene: Scene) -> None:
    with pytest.raises(TargetRejected):
        scene.starts(start="rejected")
    with pytest.raises(NoCapacity):
        scene.starts(start="full")
    for way, is_taken in (("halfway", False), ("unanswered", True)):
        with pytest.raises(TargetUnreachable):
            scene.starts(start=way)
        job = scene.jobs[-1]
        assert (scene.driver().find(job.id, job.nonce) is not None) is is_taken
        handle = scene.driver().start(scene.driver().plan(job))
        assert scene.observe(handle).exit_code == 0


def test_the_target_may_say_what_its_jobs_do(scene: Scene) -> None:
    scene._defaults = {"DUMMY_EXIT": "5", "DUMMY_SLEEP": "1"}
    handle = scene.starts(sleep="0")
    assert scene.observe(handle).exit_code == 5


def test_an_act_that_is_not_known_is_refused_by_plan(scene: Scene) -> None:
    with pytest.raises(SpecNotSupported, match="DUMMY_DANCE"):
        scene.starts(dance="1")
    with pytest.raises(SpecNotSupported, match="DUMMY_SLEEP"):
        scene.starts(sleep="long")


def test_an_older_fence_is_refused(scene: Scene) -> None:
    job = replace(scene.job(Program("")), fence=5)
    scene.driver().start(scene.driver().plan(job))
    with pytest.raises(Conflict):
        scene.driver().start(scene.driver().plan(replace(job, fence=4)))


def test_it_insists_on_the_contract(scene: Scene) -> None:
    driver, handle = scene.driver(), scene.starts(sleep="9")
    job = scene.job(Program(""), secrets={"KEY": SecretStr("s3cr3t")})
    plan = driver.plan(job)
    for misuse in (
        lambda: driver.start(replace(plan, describe=lambda: "something else")),
        lambda: driver.observe([replace(handle, kind="local")]),
        lambda: driver.observe([replace(handle, version=2)]),
        lambda: driver.stop(handle, timedelta(seconds=-1)),
        lambda: driver.read(handle, "x", offset=-1),
        lambda: driver.read(handle, "x", limit=0),
        lambda: driver.clean(handle),
    ):
        with pytest.raises(InternalError, match="used wrongly"):
            misuse()
    with pytest.raises(InvalidRequest):
        driver.read(handle, "../x")
    with pytest.raises(SpecNotSupported):
        driver.plan(replace(job, container=Container(), environment=EnvironmentSpec(interpreter="python3")))
