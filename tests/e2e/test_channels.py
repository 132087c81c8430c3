"""Shells and commands where runs are: on a machine that is reached by SSH, across lost connections and restarts."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from tests.cli.shell import Shell, Terminal
from tests.e2e.submitting import submit_script
from tests.faults.ssh_world import TARGET, SshWorld
from tests.faults.world import wait_for

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def world(ssh_world: SshWorld) -> SshWorld:
    ssh_world.start_server()
    return ssh_world


@pytest.fixture
def run(world: SshWorld) -> str:
    run_id = str(submit_script(world, SLEEPER)["id"])
    wait_for("it to be up", lambda: world.file(run_id, "user_logs/std_log.txt") == b"up\n")
    return run_id


def _sleeping(world: SshWorld) -> bool:
    return "sleep" in [process.name for process in world.host.processes()]


def test_commands_run_in_the_folder_of_the_run_and_on_the_machine(world: SshWorld, run: str) -> None:
    shell = Shell(world.home)
    done = shell("exec", run, "--", "sh", "-c", "uname -n; pwd; exit 7")
    assert (done.code, done.out) == (7, f"box\n{world.machine_there}/runs/{run}.1/source\n")
    done = shell("ssh", TARGET, "--", "sh", "-c", "uname -n; pwd")
    assert (done.code, done.out) == (0, f"box\n{world.host.inner_home}\n")


def test_fifty_megabytes_arrive_and_do_not_delay_another_run(world: SshWorld, run: str, tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * 50
    source = tmp_path / "source"
    source.write_bytes(data)
    shell = Shell(world.home)
    with source.open("rb") as stdin:
        done = shell.raw("exec", run, "--", "sha256sum", stdin=stdin)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_a_lost_connection_to_the_machine_ends_what_was_open_there(world: SshWorld, run: str, tmp_path: Path) -> None:
    shown = Terminal(Shell(world.home), "exec", run, "--", "sh", "-c", "echo there; sleep 600", cwd=tmp_path)
    shown.wait_for("there")
    assert _sleeping(world)
    os.kill(world.host_pid(), 9)
    assert shown.end() == 125
    assert "The connection to" in shown.text
    wait_for("its processes to end", lambda: not _sleeping(world))
    assert world.run(run)["state"] == "Running"


def test_a_server_that_is_killed_leaves_no_shell_there(world: SshWorld, run: str, tmp_path: Path) -> None:
    shown = Terminal(Shell(world.home), "exec", run, "--", "sh", "-c", "echo there; sleep 600", cwd=tmp_path)
    shown.wait_for("there")
    world.kill_server()
    wait_for("its processes to end", lambda: not _sleeping(world))
    world.start_server()
    assert shown.end() == 125
    assert "There is no such channel here" in shown.text
    assert world.run(run)["state"] == "Running"


@pytest.mark.slow
def test_a_client_that_is_killed_leaves_no_shell_there(world: SshWorld, run: str, tmp_path: Path) -> None:
    began = time.monotonic()
    shown = Terminal(Shell(world.home), "exec", run, "--", "sh", "-c", "echo there; sleep 600", cwd=tmp_path)
    shown.wait_for("there")
    shown.process.kill()
    shown.end()
    wait_for("its processes to end", lambda: not _sleeping(world), 60)
    assert time.monotonic() - began > 25, "a client may come back for 30 seconds"
