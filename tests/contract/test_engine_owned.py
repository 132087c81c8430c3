"""Jobs that an engine starts elsewhere: what the laws do not cover. The engine is a stand-in (stand_in_engine.py)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.client.fake_server import answer, serving
from tests.contract.harnesses import StandInEngineHarness
from tests.contract.stand_in_driver import ClaimingDriver, StandInDriver
from tests.contract.stand_in_engine import BOOT_ID, EngineClient
from tests.drivers.machine.test_relay import Server, echo
from windlass import drivers
from windlass.core.states import Observation, Phase, Reason, RunState
from windlass.drivers.base import Event, Handle, Job, JobChanged, ServerAddress
from windlass.drivers.machine.engine_driver import NativeState
from windlass.testing.harness import PATIENCE, wait_until
from windlass.testing.programs import ARGUMENTS, SLEEPS, Program

SECRET = "c4n4ry-of-the-run"
COUNTS = Program("import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StandInEngineHarness]:
    made = StandInEngineHarness(tmp_path)
    yield made
    made.close()


def native_of(handle: Handle) -> str:
    native = handle.data["native"]
    assert isinstance(native, str)
    return native


def folder_of(harness: StandInEngineHarness, handle: Handle) -> Path:
    return harness.root / "runs" / handle.native_id


def has_logged(harness: StandInEngineHarness, handle: Handle, log: bytes) -> bool:
    return harness.log(handle) == log


def executions(harness: StandInEngineHarness, handle: Handle) -> int:
    return (folder_of(harness, handle) / "events.jsonl").read_text().count('"exec"')


def test_the_supervisor_lives_on_another_machine(harness: StandInEngineHarness) -> None:
    handle = harness.start(SLEEPS)
    harness.wait_for_line(handle)
    story = (folder_of(harness, handle) / "events.jsonl").read_text()
    assert BOOT_ID in story
    assert harness.client().hello["boot_id"] not in (None, BOOT_ID)
    assert '"stand-in-node"' in (folder_of(harness, handle) / "heartbeat.json").read_text()
    assert harness.observe(handle).stage is RunState.RUNNING


# ---- restarts ----


def test_a_restart_of_server_and_host_loses_nothing(harness: StandInEngineHarness) -> None:
    handle = harness.start(COUNTS)
    harness.wait_for_line(handle)
    harness.kill_host()
    assert harness.observe(handle).phase is Phase.RUNNING  # by a new connection
    harness.restart()
    assert harness.observe(handle).phase is Phase.RUNNING  # by a new server
    harness.client().close()
    (folder_of(harness, handle) / "source" / "go").touch()  # while no host is there
    client = EngineClient(harness.engine.folder)
    wait_until(lambda: client.state(native_of(handle))["state"] == "ended", "the end in the engine")
    seen = harness.wait(handle)
    assert (seen.reason, seen.exit_code) == (Reason.EXITED, 0)
    assert executions(harness, handle) == 1


def test_events_go_on_after_the_host_was_killed(harness: StandInEngineHarness) -> None:
    heard: list[tuple[str, Event]] = []
    ended = threading.Event()

    def sink(job: str, event: Event) -> None:
        heard.append((job, event))
        if isinstance(event, JobChanged) and event.observation and event.observation.phase is Phase.ENDED:
            ended.set()

    driver = harness.driver()
    assert isinstance(driver, StandInDriver)
    driver.watch(sink)
    handle = harness.start(COUNTS)
    harness.wait_for_line(handle)
    harness.kill_host()
    assert harness.observe(handle).phase is Phase.RUNNING
    (folder_of(harness, handle) / "source" / "go").touch()
    assert ended.wait(PATIENCE)
    assert {job for job, _ in heard} == {handle.native_id}


def test_a_stop_is_carried_out_while_the_host_is_away(harness: StandInEngineHarness) -> None:
    handle = harness.start(SLEEPS)
    harness.wait_for_line(handle)
    harness.driver().stop(handle, timedelta(seconds=5))
    harness.cut()
    client = EngineClient(harness.engine.folder)
    wait_until(lambda: client.state(native_of(handle))["state"] == "ended", "the end in the engine")
    harness.heal()
    assert harness.observe(handle).reason is Reason.STOPPED


# ---- receipts and double starts ----


def test_a_job_that_waits_in_the_engine_is_queued_and_can_be_stopped(harness: StandInEngineHarness) -> None:
    harness.engine.hold()
    handle = harness.start(ARGUMENTS, "never")
    assert harness.observe(handle).phase is Phase.QUEUED
    harness.driver().stop(handle, timedelta(seconds=5))
    assert harness.observe(handle).reason is Reason.STOPPED
    client = EngineClient(harness.engine.folder)
    wait_until(lambda: client.state(native_of(handle))["state"] == "ended", "it is taken out of the queue")
    harness.engine.go_on()
    assert harness.log(handle) == b""


def test_one_whose_submission_was_not_noted_is_found_in_the_engine(harness: StandInEngineHarness) -> None:
    """The server died between the submission and the note of it."""
    plan = harness.driver().plan(harness.job(ARGUMENTS, "once"))
    harness.engine.hold()
    handle = harness.driver().start(plan)
    (folder_of(harness, handle) / "native.json").unlink()
    harness.restart()
    found = harness.driver().find(plan.job.id, plan.job.nonce)
    assert found is not None and native_of(found) == native_of(handle)
    assert harness.driver().start(plan) == handle
    harness.engine.go_on()
    assert harness.wait(handle).exit_code == 0
    assert len(list((harness.engine.folder / "queue").iterdir())) == 1


def test_one_that_was_placed_and_never_submitted_is_not_there(harness: StandInEngineHarness) -> None:
    job = harness.job(ARGUMENTS, "late")
    driver = harness.driver()
    assert isinstance(driver, StandInDriver)
    driver._deliver(job, is_prestaged=False)  # and the server dies
    harness.restart()
    assert harness.driver().find(job.id, job.nonce) is None
    handle = harness.driver().start(harness.driver().plan(job))
    assert harness.wait(handle).exit_code == 0


def test_starts_by_many_threads_are_one_job_in_the_engine(harness: StandInEngineHarness) -> None:
    plan = harness.driver().plan(harness.job(COUNTS))
    with ThreadPoolExecutor(8) as threads:
        handles = list(threads.map(lambda _: harness.driver().start(plan), range(16)))
    assert all(handle == handles[0] for handle in handles)
    harness.wait_for_line(handles[0])
    (folder_of(harness, handles[0]) / "source" / "go").touch()
    assert harness.wait(handles[0]).exit_code == 0
    assert executions(harness, handles[0]) == 1


def test_an_engine_that_starts_a_job_twice_executes_it_once(harness: StandInEngineHarness) -> None:
    handle = harness.start(COUNTS)
    harness.wait_for_line(handle)
    harness.engine.start_again(native_of(handle))
    said = "was started already; this start does nothing"
    wait_until(lambda: said in harness.engine.output(native_of(handle)), "the second instance steps back")
    assert harness.observe(handle).phase is Phase.RUNNING
    (folder_of(harness, handle) / "source" / "go").touch()
    assert harness.wait(handle).exit_code == 0
    assert executions(harness, handle) == 1
    assert harness.log(handle) == b"up\n"


# ---- death ----


def test_a_machine_that_was_switched_off_has_lost_its_jobs(harness: StandInEngineHarness) -> None:
    handle = harness.start(SLEEPS)
    harness.wait_for_line(handle)
    harness.engine.switch_off()
    seen = harness.wait(handle)
    assert (seen.reason, seen.exit_code) == (Reason.NODE_LOST, None)


HOST = {"phase": "running", "stage": "Running", "silent_seconds": 0.0}
PLACED = {"phase": "queued"}
ENDED = {"phase": "ended", "reason": "exited", "exit_code": 3}
RUNS, WAITS, GONE = NativeState(Phase.RUNNING), NativeState(Phase.QUEUED, "Resources"), NativeState(Phase.LOST)
OVER = NativeState(Phase.ENDED, "node fail", ended_at=0.0)


@pytest.mark.parametrize(
    ("folder", "engine", "expected"),
    [
        (ENDED, RUNS, Observation(Phase.ENDED, reason=Reason.EXITED, exit_code=3)),
        (ENDED, OVER, Observation(Phase.ENDED, reason=Reason.EXITED, exit_code=3)),
        (ENDED, GONE, Observation(Phase.ENDED, reason=Reason.EXITED, exit_code=3)),
        ({"phase": "lost"}, RUNS, Observation(Phase.LOST)),
        ({"phase": "lost"}, OVER, Observation(Phase.LOST)),
        (PLACED, WAITS, Observation(Phase.QUEUED, message="Resources")),
        (PLACED, RUNS, Observation(Phase.RUNNING, stage=RunState.STARTING)),
        (PLACED, GONE, Observation(Phase.LOST, message="the engine does not know it")),
        (PLACED, OVER, Observation(Phase.ENDED, reason=Reason.START_FAILED, message="node fail")),
        ({**PLACED, "is_stopping": True}, OVER, Observation(Phase.ENDED, reason=Reason.STOPPED, message="node fail")),
        (HOST, RUNS, Observation(Phase.RUNNING, stage=RunState.RUNNING)),
        (HOST, GONE, Observation(Phase.RUNNING, stage=RunState.RUNNING)),
        ({**HOST, "silent_seconds": 1e4}, RUNS, Observation(Phase.RUNNING, stage=RunState.RUNNING)),
        ({**HOST, "silent_seconds": 1e4}, OVER, Observation(Phase.ENDED, reason=Reason.NODE_LOST, message="node fail")),
    ],
)
def test_two_witnesses(
    harness: StandInEngineHarness, folder: dict[str, Any], engine: NativeState, expected: Observation
) -> None:
    driver = harness.driver()
    assert isinstance(driver, StandInDriver)
    assert driver._combine(folder, engine, 0.0) == expected


@pytest.mark.parametrize("engine", [GONE, WAITS])
def test_silence_without_a_word_of_the_engine_is_lost(harness: StandInEngineHarness, engine: NativeState) -> None:
    driver = harness.driver()
    assert isinstance(driver, StandInDriver)
    seen = driver._combine({**HOST, "silent_seconds": 1e4}, engine, 0.0)
    assert (seen.phase, seen.is_startable) == (Phase.LOST, False)


def test_an_end_in_the_engine_does_not_win_over_a_heartbeat(harness: StandInEngineHarness) -> None:
    driver = harness.driver()
    assert isinstance(driver, StandInDriver)
    assert driver._combine(HOST, OVER, 0.0).phase is Phase.RUNNING


# ---- secrets ----


def test_secrets_reach_the_script_and_no_file(harness: StandInEngineHarness) -> None:
    program = Program(
        "import json, os, time\n"
        "print(json.loads(os.pread(int(os.environ['WINDLASS_SECRETS_FD']), 9999, 0))['secrets']['key'][::-1])\n"
        "print('up', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
    )
    handle = harness.start(program, granted={"key": SecretStr(SECRET)})
    harness.wait_for_line(handle)
    assert harness.log(handle) == SECRET[::-1].encode() + b"\nup\n"
    for top in (harness.root, harness.engine.folder):
        for path in top.rglob("*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    (folder_of(harness, handle) / "source" / "go").touch()
    assert harness.wait(handle).exit_code == 0


# ---- instances on file systems that do not see each other ----


class ClaimingHarness(StandInEngineHarness):
    driver_class = ClaimingDriver


@pytest.fixture
def claiming(tmp_path: Path) -> Iterator[ClaimingHarness]:
    made = ClaimingHarness(tmp_path)
    yield made
    made.close()


def claiming_driver(harness: ClaimingHarness) -> ClaimingDriver:
    driver = harness.driver()
    assert isinstance(driver, ClaimingDriver)
    return driver


def is_waiting(harness: ClaimingHarness, handle: Handle, instance: str) -> bool:
    return claiming_driver(harness).waiting([handle]) == [(instance,)]


def test_an_instance_waits_until_the_server_has_decided(claiming: ClaimingHarness) -> None:
    handle = claiming.start(ARGUMENTS, "claimed")
    instance = f"{native_of(handle)}.0"
    wait_until(lambda: claiming_driver(claiming).waiting([handle]) == [(instance,)], "it waits")
    assert claiming.observe(handle).phase is Phase.RUNNING
    assert claiming.log(handle) == b""
    claiming.restart()
    claiming_driver(claiming).allow(handle, instance)
    claiming_driver(claiming).allow(handle, instance)
    assert claiming.wait(handle).exit_code == 0
    assert claiming.log(handle) == b'["claimed"]\n'
    assert claiming_driver(claiming).waiting([handle]) == [()]


def test_of_two_instances_in_one_folder_one_executes(claiming: ClaimingHarness) -> None:
    handle = claiming.start(ARGUMENTS, "one")
    first, second = (f"{native_of(handle)}.{number}" for number in range(2))
    wait_until(lambda: claiming_driver(claiming).waiting([handle]) == [(first,)], "the first waits")
    claiming.engine.start_again(native_of(handle))
    wait_until(lambda: claiming_driver(claiming).waiting([handle]) == [(first, second)], "both wait")
    claiming_driver(claiming).refuse(handle, first, second)
    claiming_driver(claiming).allow(handle, second)
    assert claiming.wait(handle).exit_code == 0
    said = f"is owned by the instance {second}; {first} executes nothing"
    wait_until(lambda: said in claiming.engine.output(native_of(handle)), "the first one ends")
    assert claiming.log(handle) == b'["one"]\n'


def test_of_two_instances_in_two_folders_one_executes(tmp_path: Path) -> None:
    """Two pods of one job, each with a file system and a host of its own."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    pods = [ClaimingHarness(folder) for folder in folders]
    try:
        job = pods[0].job(ARGUMENTS, "one")
        pods[1].jobs.append(job)
        handles = [pod.driver().start(pod.driver().plan(job)) for pod in pods]
        instances = [f"{native_of(handle)}.0" for handle in handles]
        for pod, handle, instance in zip(pods, handles, instances, strict=True):
            wait_until(partial(is_waiting, pod, handle, instance), "it waits")
        claiming_driver(pods[1]).allow(handles[1], instances[1])
        claiming_driver(pods[0]).refuse(handles[0], instances[0], instances[1])
        assert pods[1].wait(handles[1]).exit_code == 0
        client = EngineClient(pods[0].engine.folder)
        wait_until(lambda: client.state(native_of(handles[0]))["state"] == "ended", "the other one ends")
        assert [pod.log(handle) for pod, handle in zip(pods, handles, strict=True)] == [b"", b'["one"]\n']
        assert not (folder_of(pods[0], handles[0]) / "claim").exists()
    finally:
        for pod in pods:
            pod.close()


# ---- calls of scripts ----


class RelayedHarness(StandInEngineHarness):
    """Scripts there cannot reach the server: not even their network is ours."""

    def __init__(self, folder: Path, server: ServerAddress) -> None:
        super().__init__(folder)
        self.server = server
        self.restart()

    def restart(self) -> None:
        self.connections.close()
        self.connections = drivers.open_pool(self.server)
        driver = self.driver()
        assert isinstance(driver, StandInDriver)
        driver.watch(lambda job, event: None)

    def heal(self) -> None:
        (self.folder / "cut").unlink(missing_ok=True)

    def job(self, program: Program, *arguments: str, **more: Any) -> Job:
        job = super().job(program, *arguments, **more)
        own = {"RUN_ID": job.run, "WORKSPACE": "default", "EXPERIMENT": "demo", "RUN_TOKEN": "wr1:token"}
        own["URL"] = "http://127.0.0.1:9"
        made = replace(job, env={**job.env, **{f"WINDLASS_{name}": value for name, value in own.items()}})
        self.jobs[-1] = made
        return made


@contextmanager
def relayed(folder: Path, url: str) -> Iterator[RelayedHarness]:
    port = int(url.rpartition(":")[2])
    made = RelayedHarness(folder, ServerAddress("00112233aabbccdd", url, "127.0.0.1", port))
    try:
        yield made
    finally:
        made.close()


VIEW = {"id": "law_1", "status": "Running", "tags": {"phase": "one"}, "properties": {}, "message": ""}

ASKS = Program(
    """
import os, sys, time
from windlass import Run
run = Run.get_context()
print("up", flush=True)
for number in range(int(sys.argv[1])):
    while not os.path.exists(f"go {number}"):
        time.sleep(0.01)
    print(run.get_tags(), run.get_status(), flush=True)
"""
)


def test_a_script_asks_the_server_through_the_folder(tmp_path: Path) -> None:
    with serving(reply=lambda target: answer(VIEW)) as server, relayed(tmp_path, server.url) as harness:
        handle = harness.start(ASKS, "1")
        harness.wait_for_line(handle)
        (folder_of(harness, handle) / "source" / "go 0").touch()
        assert harness.wait(handle).exit_code == 0, harness.log(handle)
        assert harness.log(handle) == b"up\n{'phase': 'one'} Running\n"
        assert {request.headers["host"] for request in server.requests} == {server.url.removeprefix("http://")}
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer wr1:token"}


def test_a_script_asks_again_when_host_and_server_were_restarted(tmp_path: Path) -> None:
    with serving(reply=lambda target: answer(VIEW)) as server, relayed(tmp_path, server.url) as harness:
        handle = harness.start(ASKS, "3")
        harness.wait_for_line(handle)
        log = [b"up\n", *[b"{'phase': 'one'} Running\n"] * 3]
        for number, disturb in enumerate((harness.kill_host, harness.restart, harness.restart)):
            disturb()
            (folder_of(harness, handle) / "source" / f"go {number}").touch()  # it asks while no host is there
            assert harness.observe(handle).phase in (Phase.RUNNING, Phase.ENDED)
            whole = b"".join(log[: number + 2])
            wait_until(partial(has_logged, harness, handle, whole), "the answer")
        assert harness.wait(handle).exit_code == 0


POURS = Program(
    """
import hashlib, os, socket, sys, threading
def exchange(number):
    payload = os.urandom(3_000_000 + number)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(os.environ["WINDLASS_RELAY"])
    sender = threading.Thread(target=made.sendall, args=(payload,))
    sender.start()
    heard = bytearray()
    while len(heard) < len(payload):
        data = made.recv(1 << 16)
        if not data:
            break
        heard += data
    sender.join()
    same.append(bytes(heard) == payload)
same = []
threads = [threading.Thread(target=exchange, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(same)
"""
)


def test_megabytes_go_both_ways_through_the_folder(tmp_path: Path) -> None:
    server = Server(echo)
    try:
        with relayed(tmp_path, server.address().url) as harness:
            handle = harness.start(POURS)
            assert harness.wait(handle).exit_code == 0
            assert harness.log(handle) == b"[True, True, True, True]\n"
    finally:
        server.close()
