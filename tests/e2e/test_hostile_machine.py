"""A machine behind a real sshd that lies in every field of the protocol, and a server on a small disk."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.disks import fill, small_disk
from tests.e2e.submitting import submit_script
from tests.faults.ssh_world import TARGET, SshWorld
from tests.faults.world import wait_for
from tests.hosts import hostile_host
from tests.hosts.network import Network

MB = 1 << 20
RESERVE = 64 * MB
MOST_MEMORY_MB = 200
ENDS_BY_ITSELF = ("growth", "repeats", "digests", "paths", "names", "counts")
NEEDS_CANCEL = ("logs", "uploads", "texts", "metrics", "sizes")


@pytest.fixture
def world(tmp_path: Path, network: Network) -> Iterator[SshWorld]:
    program = network.folder / f"hostile-{os.getpid()}.py"
    shutil.copy(hostile_host.__file__, program)
    program.chmod(0o755)
    state = network.folder / f"hostile-{os.getpid()}.jobs"
    state.touch()
    state.chmod(0o666)
    command = f"python3 -I -S {program} {state}"
    with small_disk(tmp_path, 300) as disk, SshWorld.made(disk, network, forced_command=command) as made:
        made.environment["WINDLASS_DISK_RESERVE_BYTES"] = str(RESERVE)
        made.start_server()
        made.ask("PATCH", f"/workspaces/default/targets/{TARGET}", {"slots": 16})
        yield made


def events(world: SshWorld, run_id: str) -> str:
    told = world.ask("GET", f"/workspaces/default/runs/{run_id}/events")["events"]
    return "\n".join(event["message"] for event in told)


def peak_memory_mb(world: SshWorld) -> float:
    status = Path(f"/proc/{world.server.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def free_bytes(world: SshWorld) -> int:
    return shutil.disk_usage(world.home).free


def check_server(world: SshWorld) -> None:
    """It is small, keeps its reserve, serves other targets, writes no file elsewhere and a log that can be read."""
    run = submit_script(world, "print('fine')", target="local")
    assert world.wait_final(run["id"], 120)["state"] == "Completed"
    memory = peak_memory_mb(world)
    assert memory < MOST_MEMORY_MB
    assert free_bytes(world) > RESERVE
    for folder in (world.home.parent.parent, Path("/etc/cron.d"), Path("/tmp")):
        # os.walk passes over folders that a server removes meanwhile.
        is_tmp = folder == Path("/tmp")  # others write there: only its own entries
        below = [next(os.walk(folder))] if is_tmp else os.walk(folder)
        found = [name for _, folders, files in below for name in (*folders, *files)]
        assert not [name for name in found if ("canary" if is_tmp else hostile_host.CANARY) in name]
    log = (world.home / "server.log").read_bytes()
    assert len(log) < 2 * MB and b"\x1b" not in log and b"Traceback" not in log
    assert not [line for line in log.splitlines() if line.startswith(b" WARNING forged line")]


def test_a_machine_that_lies_in_every_field(world: SshWorld) -> None:
    runs = {lie: submit_script(world, "", (lie,))["id"] for lie in (*ENDS_BY_ITSELF, *NEEDS_CANCEL, "missing")}
    ended = {lie: world.wait_final(runs[lie], 300) for lie in (*ENDS_BY_ITSELF, "missing")}
    assert {lie: run["state"] for lie, run in ended.items()} == {
        **dict.fromkeys(ENDS_BY_ITSELF, "Completed"),
        "missing": "Failed",
    }
    assert "asks for a file that is not of this job" in ended["missing"]["message"]
    assert "delivered other bytes than it had listed" in ended["digests"]["message"]
    assert "10000 files are not kept, because the run has more files than" in ended["counts"]["message"]
    assert "20000 files are not kept, because of the name" in ended["names"]["message"]
    assert "a name cannot be a file and a folder: 'outputs/a/inner'" in events(world, runs["paths"])
    check_server(world)

    wait_for("the logs to be stopped", lambda: "nearly full" in world.run(runs["logs"])["message"], 120)
    wait_for("the outputs to wait", lambda: "no room for its outputs" in world.run(runs["sizes"])["message"], 120)
    wait_for("the upload to be refused", lambda: "more than 3 bytes" in events(world, runs["uploads"]), 120)
    check_server(world)
    for lie in NEEDS_CANCEL:
        world.cancel(runs[lie])
    canceled = {lie: world.wait_final(runs[lie], 300) for lie in NEEDS_CANCEL}
    # Whether the refused upload or the cancel ends that run depends on which of them comes first.
    assert canceled.pop("uploads")["state"] in {"Completed", "Canceled"}
    assert {lie: (run["state"], run["exit_code"]) for lie, run in canceled.items()} == {
        "logs": ("Completed", 0),
        "texts": ("Failed", None),
        "metrics": ("Completed", 0),
        "sizes": ("Canceled", 0),
    }
    assert "nearly full" in canceled["logs"]["message"]
    assert all(len(json.dumps(run)) < 20_000 for run in canceled.values())
    check_server(world)


def test_a_machine_whose_frames_are_as_large_as_they_may_be(world: SshWorld) -> None:
    runs = [submit_script(world, "", ("frames",))["id"] for _ in range(4)]
    wait_for("them to run", lambda: all(world.run(run_id)["state"] == "Running" for run_id in runs), 120)
    check_server(world)
    filler = fill(world.home)
    canceled = world.ask("POST", f"/workspaces/default/runs/{runs[0]}/cancel")
    assert canceled["intent"] == "cancel"
    detached: dict[str, Any] = world.ask("DELETE", f"/workspaces/default/targets/{TARGET}?force=true")
    assert set(runs[1:]) <= set(detached["left"]) <= set(runs)
    wait_for("the runs to end", lambda: not any(world.run(run)["state"] == "Running" for run in runs))
    filler.unlink()
    assert {world.run(run_id)["state"] for run_id in runs[1:]} == {"Failed"}
    check_server(world)
