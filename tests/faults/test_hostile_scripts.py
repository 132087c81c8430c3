"""Scripts that stop their supervisor, leave daemons or fill the disk of their machine: each run ends with the truth, or
when it is cancelled, and nothing of it is alive afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.ssh_world import SshWorld
from tests.faults.world import World, is_alive, wait_for
from tests.hosts.network import Network

STOPS_SUPERVISORS = b"""
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
first = os.getppid()
while True:
    try:
        with open(os.environ["WINDLASS_RUN_FOLDER"] + "/claim/supervisor.json") as file: pid = json.load(file)["pid"]
        os.kill(pid, signal.SIGSTOP)
    except (OSError, ValueError): pass
    if pid == first: open(sys.argv[1] + "/stopped", "w").close()
    time.sleep(0.001)
"""
LEAVES_A_DAEMON = b"""
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "100001"], {})
    os._exit(0)
os.wait()
time.sleep(0.5)  # not before this does the first supervisor look around
os.kill(os.getppid(), signal.SIGKILL)
while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.01)
sys.exit(3)
"""
FILLS_THE_DISK = b"""
import os, sys, time
with open(os.path.expanduser("~/filler"), "wb", buffering=0) as file:
    for size in (1 << 20, 4096, 1):
        try:
            while file.write(bytes(size)): pass
        except OSError: pass
open(sys.argv[1] + "/full", "w").close()
while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.01)
sys.exit(6)
"""


@pytest.fixture(params=["local", "ssh"])
def any_world(request: pytest.FixtureRequest) -> World:
    world: World = request.getfixturevalue("world" if request.param == "local" else "ssh_world")
    world.start_server()
    return world


@pytest.fixture
def small_world(tmp_path: Path, network: Network) -> Iterator[SshWorld]:
    """Its machine has a disk of its own, of 120 MB."""
    with SshWorld.made(tmp_path, network, disk_kb=120_000) as world:
        world.start_server()
        yield world


def submit(world: World, script: bytes) -> str:
    run_id: str = world.submit_script("key", script, str(world.ledger))["id"]
    return run_id


def daemons() -> list[int]:
    """Those of the script above, whose environment is empty."""
    found = [Path(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(entry.name) for entry in found if _command(entry) == b"sleep\x00100001\x00"]


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_run_that_stops_its_supervisors_is_cancelled(any_world: World) -> None:
    run_id = submit(any_world, STOPS_SUPERVISORS)
    wait_for("the supervisor to be stopped", (any_world.ledger / "stopped").exists, 60)
    script = any_world.pid_of(run_id, "process")
    any_world.cancel(run_id)
    assert any_world.wait_final(run_id, 90)["state"] == "Canceled"
    assert not is_alive(script)


def test_a_daemon_does_not_outlive_its_run(any_world: World) -> None:
    others = set(daemons())
    run_id = submit(any_world, LEAVES_A_DAEMON)
    story = any_world.folder(run_id) / "events.jsonl"
    wait_for("the next supervisor", lambda: story.exists() and b'"adopted"' in story.read_bytes(), 60)
    [daemon] = set(daemons()) - others
    (any_world.ledger / "go").touch()
    run = any_world.wait_final(run_id)
    assert (run["state"], run["exit_code"]) == ("Failed", 3)
    wait_for("the daemon to be ended", lambda: not is_alive(daemon))


def test_a_run_that_fills_the_disk_of_its_machine_ends(small_world: SshWorld) -> None:
    (small_world.ledger / "go").touch()
    run_id = submit(small_world, FILLS_THE_DISK)
    run = small_world.wait_final(run_id)
    assert (run["state"], run["exit_code"]) == ("Failed", 6)
    wait_for("its folder to go, though the disk is full", lambda: not small_world.folder(run_id).exists(), 90)


def test_a_run_on_a_full_disk_is_cancelled(small_world: SshWorld) -> None:
    run_id = submit(small_world, FILLS_THE_DISK)
    wait_for("the disk to be full", (small_world.ledger / "full").exists, 60)
    small_world.cancel(run_id)
    assert small_world.wait_final(run_id)["state"] == "Canceled"
