"""The local driver beyond the laws: news, secrets, what travels once, and what a machine cannot get out of us."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePath
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from tests.contract.harnesses import LocalHarness
from windlass import drivers
from windlass.core.entities import EnvironmentSpec, Resources
from windlass.core.errors import Conflict, TargetRejected, TargetUnreachable
from windlass.core.states import Phase, Reason
from windlass.drivers.base import Event, FileGrew, Handle, JobChanged, Watcher
from windlass.drivers.containers.config import ContainerConfig
from windlass.drivers.kinds.local import LocalConfig
from windlass.drivers.machine.driver import MachineDriver
from windlass.drivers.machine.host_client import HostClient
from windlass.drivers.machine.subscriptions import Feed
from windlass.drivers.machine.transport import ChildProcess
from windlass.runner.environments import interpreters
from windlass.testing.harness import PATIENCE, GivenSecrets
from windlass.testing.programs import ARGUMENTS, SLEEPS, MemoryBundle, Program, exits

LOG = "user_logs/std_log.txt"
SECRET = "c4n4ry-of-the-run"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalHarness]:
    harness = LocalHarness(tmp_path)
    yield harness
    harness.close()


def client_of(local: LocalHarness) -> HostClient:
    return local.client()


# ---- news ----


class News:
    """Hears what the driver tells."""

    def __init__(self, local: LocalHarness) -> None:
        self._heard: queue.SimpleQueue[tuple[str, Event]] = queue.SimpleQueue()
        driver = local.driver()
        assert isinstance(driver, Watcher)
        driver.watch(lambda job, event: self._heard.put((job, event)))

    def wait_for_growth(self, job: str, path: str) -> FileGrew:
        while True:
            match self._heard.get(timeout=PATIENCE):
                case (heard, FileGrew() as event) if (heard, event.path) == (job, path):
                    return event

    def wait_for_change(self, job: str) -> None:
        while True:
            match self._heard.get(timeout=PATIENCE):
                case (heard, JobChanged()) if heard == job:
                    return


def test_a_line_is_told_when_it_is_printed_and_the_end_when_it_comes(local: LocalHarness) -> None:
    news = News(local)
    handle = local.start(SLEEPS)
    assert news.wait_for_growth(handle.native_id, LOG).size > 0
    local.driver().stop(handle, timedelta(0))
    while local.observe(handle).phase is not Phase.ENDED:
        news.wait_for_change(handle.native_id)


def test_jobs_of_an_earlier_server_are_told_of_once_they_were_observed(local: LocalHarness) -> None:
    handle = local.start(SLEEPS)
    local.wait_for_line(handle)
    local.restart()
    news = News(local)
    local.observe(handle)
    local.driver().stop(handle, timedelta(0))
    while local.observe(handle).phase is not Phase.ENDED:
        news.wait_for_change(handle.native_id)


def test_after_the_host_was_killed_news_go_on(local: LocalHarness) -> None:
    news = News(local)
    handle = local.start(SLEEPS)
    local.wait_for_line(handle)
    news.wait_for_growth(handle.native_id, LOG)
    local.kill_host()
    while True:  # told that something happened, the server asks, and by that a new pipe is opened
        news.wait_for_change(handle.native_id)
        try:
            assert local.observe(handle).phase is Phase.RUNNING
            break
        except TargetUnreachable:
            continue
    local.driver().stop(handle, timedelta(0))
    while local.observe(handle).phase is not Phase.ENDED:
        news.wait_for_change(handle.native_id)
    assert local.observe(handle).reason is Reason.STOPPED


# ---- what travels ----


def test_a_warm_start_is_one_request(local: LocalHarness) -> None:
    local.wait(local.start(ARGUMENTS, "first"))
    before = local.calls()
    local.start(ARGUMENTS, "second")
    assert local.calls() - before == 1


def test_one_changed_file_is_one_file_more(local: LocalHarness) -> None:
    files = {f"data/{number}": str(number).encode() for number in range(50)} | {"main.py": b""}
    local.wait(local.start(exits(0), bundle=MemoryBundle(files)))
    before = local.calls()
    handle = local.start(exits(0), bundle=MemoryBundle({**files, "data/7": b"changed"}))
    assert local.calls() - before == 2  # the file ahead of the start
    assert local.wait(handle).exit_code == 0


def test_files_of_all_sizes_arrive_whole(local: LocalHarness) -> None:
    files = {"empty": b"", "one": b"1", "piece": os.urandom(1 << 20), "more": os.urandom((2 << 20) + 7), "grüße": b"x"}
    code = """
import hashlib, json, os
names = [name for name in os.listdir(".") if os.path.isfile(name)]
print(json.dumps({name: hashlib.sha256(open(name, "rb").read()).hexdigest() for name in names}))
"""
    handle = local.start(exits(0), bundle=MemoryBundle({**files, "main.py": code.encode()}))
    assert local.wait(handle).exit_code == 0
    found = json.loads(local.log(handle))
    assert {name: found[name] for name in files} == {
        name: hashlib.sha256(data).hexdigest() for name, data in files.items()
    }


def test_a_read_may_be_larger_than_a_frame(local: LocalHarness) -> None:
    handle = local.start(Program("import sys; sys.stdout.write('x' * (9 << 20))"))
    local.wait(handle)
    assert len(local.driver().read(handle, LOG, limit=64 << 20)) == 9 << 20
    assert len(local.driver().read(handle, LOG, offset=1 << 20, limit=5 << 20)) == 5 << 20


@pytest.mark.parametrize("wish", [None, "3.8"])
def test_scripts_import_the_sdk_on_any_python(local: LocalHarness, wish: str | None) -> None:
    python = interpreters.nearest(wish).path  # the oldest one that is here
    code = "import windlass.core.codec, windlass.core.digests, windlass._version as v; print(v.__version__)"
    handle = local.start(Program(code), environment=EnvironmentSpec(interpreter=python))
    seen = local.wait(handle)
    assert (seen.exit_code, local.log(handle)) == (0, b"0.1.0\n")


# ---- secrets and rights ----


def test_a_secret_reaches_the_script_and_lies_in_one_closed_file(local: LocalHarness) -> None:
    code = f"import os; assert os.environ['KEY'] == {SECRET[:5]!r} + {SECRET[5:]!r}"
    handle = local.start(Program(code), secrets={"KEY": SecretStr(SECRET)})
    assert local.wait(handle).exit_code == 0
    holders = [path for path in local.root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert [path.name for path in holders] == ["run.json"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(local.root.stat().st_mode) == 0o700


def test_what_is_not_of_the_record_cannot_be_read(local: LocalHarness) -> None:
    outside = local.folder / "outside"
    outside.write_text("private")
    handle = local.start(Program(f"import os; os.symlink({str(outside)!r}, 'outputs/link')"))
    local.wait(handle)
    for path in ("source/outputs/link", "run.json", "../../runner.pyz", "/etc/passwd", "claim/lock"):
        assert local.driver().read(handle, path) == b""


def test_an_older_fence_is_refused(local: LocalHarness) -> None:
    job = replace(local.job(SLEEPS), fence=5)
    local.driver().start(local.driver().plan(job))
    with pytest.raises(Conflict, match="older than 5"):
        local.driver().start(local.driver().plan(replace(job, fence=4)))


# ---- refusals ----


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Resources(cpus=100_000), "cores; 100000 are asked for"),
        (Resources(gpus=1000), "gpus; 1000 are asked for"),
        (Resources(memory_mb=1 << 40), "memory_mb; .* are asked for"),
    ],
)
def test_more_than_the_machine_has_is_refused(local: LocalHarness, wish: Resources, words: str) -> None:
    with pytest.raises(TargetRejected, match=words):
        local.start(ARGUMENTS, resources=wish)
    assert local.leftovers() == []


def test_what_the_machine_has_is_granted(local: LocalHarness) -> None:
    assert local.wait(local.start(exits(0), resources=Resources(nodes=1, cpus=0.5, gpus=0, memory_mb=1))).exit_code == 0


def test_a_command_that_no_process_can_have_is_refused_at_once(local: LocalHarness) -> None:
    with pytest.raises(TargetRejected, match="NUL"):
        local.start(ARGUMENTS, "a\0b")


def test_check_tells_what_is_there(local: LocalHarness) -> None:
    health = local.driver().check()
    assert health.ok
    assert health.inventory["cores"] >= 1
    assert health.inventory["python"] == ".".join(map(str, sys.version_info[:3]))


def test_who_leaves_a_machine_keeps_nothing_of_it(local: LocalHarness) -> None:
    driver = local.driver()
    assert isinstance(driver, MachineDriver)
    client, subscriptions = driver._client(), driver._subscriptions()
    driver.leave()
    assert not client.is_open
    assert driver._subscriptions() is not subscriptions


def test_a_folder_that_is_relative_is_refused() -> None:
    with pytest.raises(ValidationError, match="absolute"):
        LocalConfig(root=Path("machine"))


def test_a_folder_that_cannot_be_made_is_answered_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    driver = drivers.load("local")
    connections = drivers.open_pool()
    config = LocalConfig(root=tmp_path / "file" / "machine")
    with pytest.raises(TargetUnreachable, match="Not a directory"):
        driver("local", config, GivenSecrets(), connections).check()
    connections.close()


# ---- a machine that is not what it should be ----


class BoxDriver(MachineDriver[ContainerConfig]):
    """A machine whose host is far_side.py."""

    kind = "box"
    config_model = ContainerConfig

    def _key(self) -> str:
        return "box"

    def _root(self) -> PurePath:
        return PurePath("/box")

    def _open(self, feed: Feed, handle: Handle | None = None) -> HostClient:
        far_side = Path(__file__).parents[1] / "far_side.py"
        argv = [sys.executable, "-I", "-S", str(far_side), self.name]
        return HostClient(ChildProcess("box", argv), on_event=feed.publish)


@pytest.fixture
def box() -> Iterator[Any]:
    connections = drivers.open_pool()
    yield lambda manners: BoxDriver(manners, ContainerConfig(), GivenSecrets(), connections)
    connections.close()


def test_a_machine_gets_no_file_that_is_not_of_the_job(box: Any, local: LocalHarness) -> None:
    driver = box("greedy")
    with pytest.raises(TargetRejected, match="not of this job"):
        driver.start(driver.plan(local.job(ARGUMENTS)))


def test_a_machine_that_never_has_enough_is_not_served_for_ever(box: Any, local: LocalHarness) -> None:
    driver = box("forgetful")
    with pytest.raises(TargetUnreachable, match="although they were sent"):
        driver.start(driver.plan(local.job(ARGUMENTS)))


def test_an_answer_about_other_jobs_is_none(box: Any) -> None:
    with pytest.raises(TargetUnreachable, match="asked about 2 jobs"):
        box("evasive").observe([Handle("box", "a.1", "n"), Handle("box", "b.1", "n")])


def test_of_jobs_that_it_was_not_given_a_machine_is_not_believed(box: Any, local: LocalHarness) -> None:
    driver, heard = box("gossip"), queue.SimpleQueue[tuple[str, str]]()
    driver.watch(lambda job, event: heard.put((job, type(event).__name__)))
    job = local.job(ARGUMENTS)
    driver.start(driver.plan(job))
    # The answer came after the news: all of them have been told by now. What ended tells nothing any more.
    assert [heard.get_nowait() for _ in range(heard.qsize())] == [(job.id, "FileGrew"), (job.id, "JobChanged")]


def test_what_a_machine_says_of_itself_is_kept_within_bounds(box: Any, local: LocalHarness) -> None:
    inventory = box("boastful").check().inventory
    assert set(inventory) == {"os", "gpu_names", "docker", "python", "problems"}
    assert inventory["python"] == "3.11.2" and set(inventory["docker"]) == {"version"}
    assert "Linux" in inventory["os"] and inventory["os"].isprintable()
    assert len(json.dumps(inventory, ensure_ascii=False, allow_nan=False).encode()) < 32 << 10
    with pytest.raises(TargetRejected, match="has 0 memory_mb"):
        driver = box("boastful")
        driver.start(driver.plan(replace(local.job(ARGUMENTS), resources=Resources(memory_mb=1))))
