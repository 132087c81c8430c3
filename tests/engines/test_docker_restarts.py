"""An engine that goes away while it pulls or builds an image, and comes back: the run waits, and begins."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.engines.between import between, breaking_off
from tests.engines.box import Box
from tests.engines.images import BUSYBOX
from tests.engines.registry import gated, registry
from tests.engines.test_docker_images import UV, all_of, endless, packages, send_wheel
from tests.engines.test_docker_pull import push
from tests.runner.pipe import wait_for


def check(box: Box, job: str) -> None:
    assert box.result(job) == ("exited", 0, None), (box.wait(job)["message"], box.build_log(job))


def test_an_engine_that_is_killed_while_it_pulls(own_box: Box, tmp_path: Path) -> None:
    box = own_box
    with registry(tmp_path / "registry") as address, gated(address) as (way, gate):
        name = push(box, address).replace(address, way)
        box.sh("pull.1", "echo $FROM_AFAR", {"image": name})
        wait_for(lambda: "Pulling from team/" in box.build_log("pull.1"), 60)
        box.engine.kill()
        gate.set()
        box.engine.start()
        check(box, "pull.1")
    assert box.host.read("pull.1") == b"1\n"


def restart(box: Box, *options: str) -> None:
    """As an update of the engine does it, which ends its containers unless it was started with --live-restore."""
    box.engine.stop()
    box.engine.start(*options)


def test_an_engine_that_is_restarted_while_it_pulls(own_box: Box, tmp_path: Path) -> None:
    box = own_box
    with registry(tmp_path / "registry") as address, gated(address) as (way, gate):
        name = push(box, address).replace(address, way)
        box.sh("pull.1", "echo $FROM_AFAR", {"image": name})
        wait_for(lambda: "Pulling from team/" in box.build_log("pull.1"), 60)
        restart(box)
        gate.set()
        check(box, "pull.1")
    assert box.host.read("pull.1") == b"1\n"


def test_an_engine_that_is_restarted_while_it_builds(own_box: Box) -> None:
    """It says of the step that it ended that this has failed."""
    box = own_box
    text = f"FROM {BUSYBOX}\nRUN trap 'exit 1' TERM; echo be''gun; while true; do sleep 0.1; done"
    box.sh("build.1", "true", {"image": None, "dockerfile": text})
    wait_for(lambda: "begun" in box.build_log("build.1"), 60)
    restart(box)
    wait_for(lambda: box.build_log("build.1").count("begun") == 2, 60)
    box.host.ask("stop", job="build.1", grace=1)
    assert box.wait("build.1")["reason"] == "stopped"
    wait_for(lambda: not box.engine.containers(), 60)


@pytest.mark.parametrize("way", ["restarted", "killed"])
def test_an_engine_that_leaves_a_step_alive(own_box: Box, way: str) -> None:
    """It knows no more what for. The step is begun anew, and nothing of the first one is left."""
    box, mark = own_box, os.urandom(8).hex()
    restart(box, "--live-restore")
    box.sh("build.1", "true", {"image": None, "dockerfile": endless(mark)})
    wait_for(lambda: "begun" in box.build_log("build.1"), 60)
    [first] = all_of(box, mark)
    if way == "killed":
        box.engine.kill()
        box.engine.start("--live-restore")
    else:
        restart(box, "--live-restore")
    wait_for(lambda: box.build_log("build.1").count("begun") == 2, 60)
    assert first not in all_of(box, mark)
    box.host.ask("stop", job="build.1", grace=1)
    assert box.wait("build.1")["reason"] == "stopped"
    wait_for(lambda: not box.engine.containers(), 60)


def test_an_engine_that_is_restarted_while_it_runs_a_script(own_box: Box) -> None:
    box = own_box
    box.sh("run.1", "echo up; sleep 600")
    box.wait_for_line("run.1")
    wait_for((box.host.folder("run.1") / "usage.jsonl").exists)  # its supervisor has begun to look
    restart(box)
    ended = box.wait("run.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 143)
    assert "live-restore" in ended["message"]
    box.wait_until_gone("run.1")


def test_a_run_that_comes_while_an_engine_is_restarted(own_box: Box) -> None:
    """It has no socket while it waits for its containers to end."""
    box = own_box
    # The engine gives it three seconds of the twenty for which the other one waits.
    box.sh("deaf.1", "trap '' TERM; echo up; sleep 600", {"config": {"StopTimeout": 3}})
    box.wait_for_line("deaf.1")
    os.kill(box.engine.pid, signal.SIGTERM)
    wait_for(lambda: not box.engine.socket.exists())
    box.sh("late.1", "true")
    restart(box)
    check(box, "late.1")


@pytest.mark.parametrize(
    "told", [b"", b'{"status":"Pulling from x"}\r\n', b'{"status":"Pull'], ids=["at once", "between", "in"]
)
def test_a_pull_that_breaks_off_is_begun_anew(box: Box, tmp_path: Path, told: bytes) -> None:
    way = breaking_off(box.engine, tmp_path / "engine.sock", b"/images/create", told)
    with registry(tmp_path / "registry") as address, way as engine:
        box.sh("pull.1", "echo $FROM_AFAR", {"image": push(box, address), "engine": engine})
        check(box, "pull.1")
    assert box.host.read("pull.1") == b"1\n"


def test_a_build_that_breaks_off_is_begun_anew(box: Box, tmp_path: Path) -> None:
    text = f"FROM {BUSYBOX}\nENV UNIQUE={os.urandom(8).hex()}\n"
    with breaking_off(box.engine, tmp_path / "engine.sock", b"/build", b'{"stream":"Step 1/2"}\r\n') as engine:
        box.sh("build.1", "true", {"image": None, "dockerfile": text, "engine": engine})
        check(box, "build.1")


@pytest.mark.parametrize("told", [b"", b'{"StatusC'], ids=["at once", "in"])
def test_an_installation_that_breaks_off_is_begun_anew(box: Box, tmp_path: Path, told: bytes) -> None:
    name = f"tiny{os.urandom(4).hex()}"
    run: dict[str, Any] = {"environment": packages(send_wheel(box, tmp_path, name)), "tools": {"uv": UV}}
    with breaking_off(box.engine, tmp_path / "engine.sock", b"/wait", told) as engine:
        box.python("install.1", f"import {name}", {"engine": engine}, **run)
        check(box, "install.1")


def test_an_installation_that_an_engine_ends_as_it_goes_is_begun_anew(box: Box, tmp_path: Path) -> None:
    """It tells of the end first, and answers nothing more."""
    name = f"tiny{os.urandom(4).hex()}"
    last = [b"", b'HTTP/1.0 200 OK\r\n\r\n{"StatusCode": 137}\n']

    def instead(line: bytes) -> bytes | None:
        return last.pop() if last and (b"/wait" in line or b"/version" in line) else None

    run: dict[str, Any] = {"environment": packages(send_wheel(box, tmp_path, name)), "tools": {"uv": UV}}
    with between(box.engine, tmp_path / "engine.sock", instead) as engine:
        box.python("install.1", f"import {name}", {"engine": engine}, **run)
        check(box, "install.1")
    assert not last
