"""Environments on a machine that is reached by SSH and has nothing but Python: what is needed travels there, once."""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.channels import small_channel
from tests.e2e.submitting import submit_script
from tests.faults.ssh_world import SshWorld
from tests.faults.world import wait_for
from tests.hosts.network import Network
from tests.runner.environments.test_broken_builds import Gate, make_sdist
from tests.wheels import make_wheel
from windlass.core.codec import to_wire
from windlass.core.entities import EnvironmentSpec, RunSpec

BUILD_LOG = "azureml-logs/20_image_build_log.txt"
SCRIPT = b"import sys, tiny; print(tiny.version, sys.prefix)"


def submit(world: SshWorld, wheel: Path) -> dict[str, Any]:
    """As the SDK does it: the wheel stands beside the snapshot's files, and the environment names it by content."""
    files = []
    for path, data in (("main.py", SCRIPT), (f".windlass/wheels/{wheel.name}", wheel.read_bytes())):
        digest = hashlib.sha256(data).hexdigest()
        world.ask("PUT", f"/workspaces/default/blobs/{digest}", data)
        files.append({"path": path, "digest": digest, "size": len(data), "executable": False})
    line = f"wheel:{files[1]['digest']}/{files[1]['size']}/{wheel.name}"
    spec = RunSpec(script="main.py", target=world.target, environment=environment(line))
    body = {"experiment": "e2e", "spec": to_wire(spec), "files": files}
    run = world.ask("POST", "/workspaces/default/runs", body, {"Idempotency-Key": secrets.token_hex(8)})
    return world.wait_final(run["id"])


def environment(line: str) -> EnvironmentSpec:
    return EnvironmentSpec(pip=(line,), pip_options=("--no-index",), python_version="3.5.2")


def test_a_wheel_and_the_installer_travel_once(ssh_world: SshWorld, tmp_path: Path) -> None:
    world = ssh_world
    world.start_server()
    wheel = make_wheel(tmp_path, "tiny", "3.5")
    first = submit(world, wheel)
    assert first["state"] == "Completed", world.file(first["id"], BUILD_LOG).decode()
    [prefix] = [path.name for path in (world.machine / "environments").iterdir() if path.is_dir()]
    said = f"3.5 {world.machine_there}/environments/{prefix}\n"
    assert world.file(first["id"], "user_logs/std_log.txt").decode() == said
    assert "tiny==3.5" in world.file(first["id"], BUILD_LOG).decode()
    assert [path.name.partition("-")[0] for path in (world.machine / "tools").iterdir()] == ["uv"]
    second = submit(world, wheel)
    assert second["state"] == "Completed"
    listed = world.ask("GET", f"/workspaces/default/runs/{second['id']}/files")["files"]
    assert BUILD_LOG not in [file["path"] for file in listed]
    for run in (first, second):
        assert run["properties"]["replaced.python"].startswith("python 3.5.2 → 3.")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    wish = environment(f"wheel:{digest}/{wheel.stat().st_size}/{wheel.name}")
    asked = {"spec": to_wire(RunSpec(target=world.target, environment=wish))}
    assert world.ask("POST", "/workspaces/default/prepared", asked) == {"prepared": True}


@pytest.mark.slow
def test_conda_packages_and_their_installer_travel_once(network: Network, tmp_path: Path) -> None:
    """The machine reaches no package index; it has a channel, and the Python of the tests, which the channel is of."""
    look = "import os, sys, tinyconda; print(tinyconda.version, sys.prefix == os.environ['CONDA_PREFIX'])"
    with SshWorld.made(tmp_path, network, python_prefix=Path(sys.base_prefix)) as world:
        world.python = f"{sys.base_prefix}/bin/python3"
        world.start_server()
        channel = small_channel(world.ledger / "channel")
        channel.add_module("other", depends=("tinyconda",))

        def submit(package: str) -> dict[str, Any]:
            wish = EnvironmentSpec(conda=("python", package), channels=(channel.url,))
            run = world.wait_final(submit_script(world, look, environment=wish)["id"])
            assert run["state"] == "Completed", world.file(run["id"], BUILD_LOG).decode()
            assert world.file(run["id"], "user_logs/std_log.txt") == b"1.2 True\n"
            return run

        def large() -> list[Path]:
            return [path for path in (world.machine / "files").iterdir() if path.stat().st_size > 1 << 20]

        assert (
            "Getting rattler-0.28 for this machine, once." in world.file(submit("tinyconda")["id"], BUILD_LOG).decode()
        )
        assert sorted(path.name for path in (world.machine / "tools").iterdir() if path.is_dir()) == ["rattler-0.28"]
        listed = world.ask("GET", f"/workspaces/default/runs/{submit('tinyconda')['id']}/files")["files"]
        assert BUILD_LOG not in [file["path"] for file in listed], "it is used as it is"
        [uv, rattler] = sorted(large(), key=lambda path: path.stat().st_size, reverse=True)
        rattler.unlink()
        assert b"Getting" not in world.file(submit("other")["id"], BUILD_LOG)
        assert large() == [uv], "rattler was not sent again"


def test_a_building_that_takes_too_long_fails_its_run(ssh_world: SshWorld, tmp_path: Path) -> None:
    world = ssh_world
    world.environment["WINDLASS_BUILD_HOURS"] = "0.000001"
    world.start_server()
    run = submit(world, make_wheel(tmp_path, "tiny", "3.5"))
    assert (run["state"], run["reason"]) == ("Failed", "environment_failed")
    assert "not ready within 1e-06 h" in run["message"] and "build_hours" in run["message"]


@pytest.mark.parametrize("is_killed", [False, True], ids=["canceled", "killed and canceled"])
def test_a_building_that_is_not_wanted_any_more_leaves_nothing_running_there(
    ssh_world: SshWorld, is_killed: bool
) -> None:
    """Sources whose building hangs, and has left a daemon. Supervisor and connection may be killed before."""
    world = ssh_world
    world.start_server()
    gate = Gate(world.ledger, python="python3")
    line = f"tiny @ file://{make_sdist(world.ledger, 'tiny', '1.0', gate)}"
    run = submit_script(world, "print('ran')", environment=environment(line))["id"]
    gate.wait()

    def left() -> list[tuple[str, ...]]:
        return [process.argv for process in world.host.processes() if f"{gate.folder}/hang.py" in process.argv]

    assert len(left()) == 2
    if is_killed:
        os.kill(world.pid_of(run, "supervisor"), signal.SIGKILL)
        world.kill_ssh()
    world.cancel(run)
    assert world.wait_final(run)["state"] == "Canceled"
    wait_for("all of it to end", lambda: not left())
    assert world.file(run, "user_logs/std_log.txt") == b""
