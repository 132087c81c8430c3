"""Runs that an earlier version started end correctly under this one: same home, same database, same machine."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.faults.ssh_world import SshWorld
from tests.faults.waiter import SAID, Waiter
from tests.faults.world import World, wait_for

ROOT = Path(__file__).resolve().parents[2]
# The last one before the packages got their present names: its host and its supervisors have other modules.
EARLIER = "2b478c4b7cbd7eedf7632f3e97032b8b9306ad4d"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder that has `windlass` as it was."""
    packed = subprocess.run(["git", "archive", EARLIER, "src"], cwd=ROOT, capture_output=True, check=False)
    assert packed.returncode == 0, f"this needs the whole history: git fetch --unshallow\n{packed.stderr.decode()}"
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return str(folder / "src")


def test_on_this_computer(world: World, earlier: str) -> None:
    end_under_this_version(world, earlier)


def test_on_a_machine_by_ssh(ssh_world: SshWorld, earlier: str) -> None:
    end_under_this_version(ssh_world, earlier)


def end_under_this_version(world: World, earlier: str) -> None:
    world.wrapper = ("/usr/bin/env", f"PYTHONPATH={earlier}")
    world.start_server()
    goes_on, ends_meanwhile = Waiter.up(world), Waiter.up(world)
    is_queued = Waiter(world)
    wait_for("the third to wait or run", lambda: is_queued.state() in ("Queued", "Running"))
    world.kill_server()
    ends_meanwhile.let_go()
    world.wrapper = ()
    world.start_server()
    for waiter in (goes_on, is_queued):
        waiter.let_go()
    for waiter in (goes_on, ends_meanwhile, is_queued):
        run = world.wait_final(waiter.id, 60)
        assert (run["state"], run["exit_code"], waiter.starts()) == ("Failed", 7, 1), run
        assert world.file(waiter.id, "user_logs/std_log.txt") == SAID
        assert world.file(waiter.id, "outputs/done") == b"yes"
    wait_for("what they left to go", lambda: not world.processes_of_runs())
    assert Waiter.up(world).starts() == 1, "and new runs start"
