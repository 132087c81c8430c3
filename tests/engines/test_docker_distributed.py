"""Runs of several processes, and runs with an allocation, in containers."""

from __future__ import annotations

import json
from typing import Any

from tests.engines.box import PATIENCE, Box
from tests.engines.images import PYTHON
from tests.runner.pipe import wait_for

RANKS = """
import os, sys, time
open(f"outputs/{os.environ['RANK']}", "w").close()
while len(os.listdir("outputs")) < 2: time.sleep(0.005)
print("rank", os.environ["RANK"], "on node", os.environ["NODE_RANK"])
if len(sys.argv) > 1 and os.environ["RANK"] == "1": sys.exit(5)
if len(sys.argv) > 1: time.sleep(600)
"""
PYTORCH = {"framework": "pytorch", "process_count": 2}


def allocation(memory_mb: int = 0, is_hard: bool = True, nodes: int = 1) -> dict[str, Any]:
    share = {"cores": 1.0, "memory_mb": memory_mb, "gpus": []}
    return {"shares": [{"node": f"n{i}", **share} for i in range(nodes)], "is_hard": is_hard, "hides_gpus": True}


def inspect(box: Box) -> Any:
    [found] = json.loads(box.engine.docker("inspect", box.name("a.1")).stdout)
    return found


def test_each_process_has_its_log(box: Box) -> None:
    box.python("a.1", RANKS, distribution=PYTORCH, allocation=allocation(nodes=2))
    assert box.result("a.1") == ("exited", 0, None), box.host.read("a.1")
    for rank in (0, 1):
        log = box.host.read("a.1", f"user_logs/std_log_process_{rank}.txt").decode()
        assert log.splitlines()[-1] == f"rank {rank} on node {rank}"


def test_the_rank_that_fails_is_named(box: Box) -> None:
    box.host.python(
        "a.1", RANKS, "fail", container=box.container(PYTHON), distribution=PYTORCH,
        environment={"interpreter": "python3"}, grace=10.0,
    )  # fmt: skip
    ended = box.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 5), box.host.read("a.1")
    assert ended["message"] == "Rank 1 exited with code 5."


def test_an_image_without_mpirun_is_refused_with_what_to_install(box: Box) -> None:
    box.python("a.1", RANKS, distribution={"framework": "mpi", "processes_per_node": 2})
    ended = box.wait("a.1")
    assert ended["reason"] == "start_failed"
    assert "no mpirun on the PATH of this container" in ended["message"]


def test_a_container_that_was_made_ready_gets_the_limits_of_its_start(box: Box) -> None:
    """Without being made again."""
    script = "while [ ! -e go ]; do sleep 0.05; done"
    box.sh("a.1", script, hold=True)
    wait_for(lambda: "ready" in box.host.event_names("a.1"), PATIENCE)
    made = inspect(box)["Id"]
    box.sh("a.1", script, allocation=allocation(128))
    wait_for(lambda: "running" in box.host.event_names("a.1"), PATIENCE)
    there = inspect(box)
    assert there["Id"] == made
    host = there["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (10**9, 128 << 20, 128 << 20)
    (box.host.folder("a.1") / "source/go").touch()
    assert box.result("a.1") == ("exited", 0, None)
    lines = (box.host.folder("a.1") / "events.jsonl").read_text().splitlines()
    [limits] = [event for event in map(json.loads, lines) if event["event"] == "limits"]
    assert (limits["cpu"], limits["memory_mb"]) == ("container", 128)


def test_a_soft_share_is_a_weight(box: Box) -> None:
    box.sh("a.1", "while [ ! -e go ]; do sleep 0.05; done", allocation=allocation(is_hard=False))
    host = inspect(box)["HostConfig"]
    assert (host["NanoCpus"], host["CpuShares"], host["Memory"]) == (0, 1024, 0)
    (box.host.folder("a.1") / "source/go").touch()
    assert box.result("a.1") == ("exited", 0, None)


def test_the_end_at_a_memory_limit_names_the_limit(box: Box) -> None:
    box.python("a.1", "x = bytearray(b'x') * (400 << 20)", allocation=allocation(96))
    ended = box.wait("a.1")
    assert ended["reason"] == "out_of_memory"
    assert "96 MB" in ended["message"]
