"""Runs of several processes: each has its log, the first that fails decides, and none is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from windlass.runner.system.cgroup import Groups

from ..conftest import Hosts
from ..pipe import Host, is_alive, make_zip, wait_for

PYTORCH = {"framework": "pytorch", "process_count": 4}
MPI = {"framework": "mpi", "processes_per_node": 2}
needs_mpi = pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun: tools/setup system")

# Rank 0 listens at MASTER_ADDR:MASTER_PORT, adds what the others send, and tells them the sum.
RENDEZVOUS = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(place) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
        total = sum(int(other.recv(10)) for other in others)
        for other in others: other.sendall(str(total).encode())
else:
    while True:
        try: other = socket.create_connection(place); break
        except ConnectionRefusedError: time.sleep(0.01)
    other.sendall(str(rank).encode())
    total = int(other.recv(10))
print(f"rank {rank} on node {os.environ['NODE_RANK']} has {total}")
"""
WAIT = """
import os, signal, sys, time
def end(number, frame):
    print("noticed", number)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
open(f"outputs/{os.getpid()}", "w").close()
while True: time.sleep(0.01)
"""
C_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on node %s has %d\n", rank, size, getenv("NODE_RANK"), sum);
    MPI_Finalize();
    return 0;
}
"""


def nodes(count: int) -> dict[str, Any]:
    shares = [{"node": f"n{i}", "cores": 1.0, "memory_mb": 0, "gpus": []} for i in range(count)]
    return {"shares": shares, "is_hard": False, "hides_gpus": True}


def log(host: Host, rank: int | None = None) -> list[str]:
    name = "std_log.txt" if rank is None else f"std_log_process_{rank}.txt"
    return host.read("a.1", f"user_logs/{name}").decode().splitlines()


def logs(ended: dict[str, Any]) -> list[str]:
    return [path for path, *_ in ended["files"] if path.startswith("user_logs/")]


def started(host: Host, count: int) -> list[int]:
    """The numbers of the processes, once all have begun."""
    folder = host.folder("a.1") / "source" / "outputs"

    def names() -> list[str]:
        return os.listdir(folder) if folder.exists() else []

    return [int(name) for name in wait_for(lambda: len(names()) == count and names())]


def assert_nothing_left(host: Host, pids: list[int]) -> None:
    assert host.file("a.1", "status.json")["left_behind"] == 0
    assert not [pid for pid in pids if is_alive(pid)]
    group = json.loads((host.root / "started/a.1").read_text().splitlines()[0])["group"]
    assert group is None or not os.path.exists(group)


def test_a_rendezvous_on_two_nodes(host: Host) -> None:
    host.python("a.1", RENDEZVOUS, distribution=PYTORCH, allocation=nodes(2))
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"], ended["message"]) == ("exited", 0, "")
    for rank in range(4):
        assert log(host, rank)[-1] == f"rank {rank} on node {rank // 2} has 6"
    assert log(host)[-1] == "rank 0 on node 0 has 6"
    assert log(host)[0].startswith("windlass: starting 4 processes on 2 nodes (pytorch).")
    assert logs(ended) == ["user_logs/std_log.txt", *(f"user_logs/std_log_process_{n}.txt" for n in range(4))]


def test_several_processes_on_a_machine_without_nodes(hosts: Hosts, tmp_path: Path) -> None:
    """Also by the runner as it travels."""
    host = hosts(program=make_zip(tmp_path / "runner.pyz"))
    host.python("a.1", RENDEZVOUS, distribution=PYTORCH)
    assert host.wait("a.1")["exit_code"] == 0
    assert log(host, 3) == ["rank 3 on node 0 has 6"]


def test_a_job_that_was_made_ready_is_launched_on_the_nodes_of_its_start(host: Host) -> None:
    host.python("a.1", RENDEZVOUS, distribution=PYTORCH, hold=True)
    wait_for(lambda: "ready" in host.event_names("a.1"))
    host.python("a.1", RENDEZVOUS, distribution=PYTORCH, allocation=nodes(4))
    assert host.wait("a.1")["exit_code"] == 0
    assert log(host, 3) == ["rank 3 on node 3 has 6"]


@pytest.mark.parametrize("distribution", [None, PYTORCH, pytest.param(MPI, marks=needs_mpi)])
def test_the_first_rank_that_fails_decides(host: Host, distribution: dict[str, Any] | None) -> None:
    """The others wait for ever, and are ended."""
    script = """
import os, sys, time
open(f"outputs/{os.getpid()}", "w").close()
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("RANK") or os.environ["NODE_RANK"]
while len(os.listdir("outputs")) < int(sys.argv[1]): time.sleep(0.005)
if rank == "1":
    print("it is full")
    sys.exit(5)
time.sleep(600)
"""
    count = 2 if distribution is None else 4
    host.python("a.1", script, str(count), distribution=distribution, allocation=nodes(2), grace=10.0)
    pids = started(host, count)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 5)
    node = 1 if distribution is None else 0
    assert ended["message"] == f"Rank 1 on the node n{node} exited with code 5."
    _, reported, *tail = log(host)
    assert reported.startswith(f"windlass: Rank 1 on the node n{node} exited with code 5.")
    assert tail == ["it is full"]
    assert_nothing_left(host, pids)


def test_a_rank_that_a_signal_ended(host: Host) -> None:
    script = "import os, time\nif os.environ['RANK'] == '2': os.abort()\ntime.sleep(600)"
    host.python("a.1", script, distribution=PYTORCH, grace=10.0)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("signaled", signal.SIGABRT)
    assert ended["message"] == "Rank 2 was ended by signal 6 (SIGABRT)."


def test_ranks_that_do_not_listen_are_killed_after_the_grace(host: Host) -> None:
    script = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"outputs/{os.getpid()}", "w").close()
while len(os.listdir("outputs")) < 4: time.sleep(0.005)
if os.environ["RANK"] == "0": sys.exit(5)
time.sleep(600)
"""
    host.python("a.1", script, distribution=PYTORCH, grace=0.2)
    pids = started(host, 4)
    assert host.wait("a.1")["exit_code"] == 5
    assert_nothing_left(host, pids)


@pytest.mark.parametrize("distribution", [PYTORCH, pytest.param(MPI, marks=needs_mpi)])
def test_a_stop_reaches_every_rank_once(host: Host, distribution: dict[str, Any]) -> None:
    host.python("a.1", WAIT, distribution=distribution, allocation=nodes(2))
    pids = started(host, 4)
    host.ask("stop", job="a.1", grace=30, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"
    assert "killing" not in host.event_names("a.1")
    for rank in range(4):
        assert log(host, rank).count("noticed 15") == 1
    assert_nothing_left(host, pids)


@needs_mpi
def test_a_rank_that_ends_early_at_a_stop_takes_nothing_from_the_others(host: Host) -> None:
    """mpirun would kill them two seconds later; they have the grace of the run."""
    script = """
import os, signal, sys, time
def end(number, frame):
    if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
        time.sleep(4)  # a checkpoint
        print("saved")
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
open(f"outputs/{os.getpid()}", "w").close()
while True: time.sleep(0.01)
"""
    host.python("a.1", script, distribution=MPI)
    started(host, 2)
    host.ask("stop", job="a.1", grace=30, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"
    assert "saved" in log(host)


def test_processes_of_a_killed_launcher_are_ended(host: Host) -> None:
    host.python("a.1", WAIT, distribution=PYTORCH)
    pids = started(host, 4)
    os.kill(host.file("a.1", "claim/process.json")["pid"], signal.SIGKILL)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("signaled", signal.SIGKILL)
    assert not [pid for pid in pids if is_alive(pid)]


def test_a_launcher_outlives_its_supervisor(host: Host) -> None:
    host.python("a.1", WAIT, distribution=PYTORCH)
    pids = started(host, 4)
    os.kill(host.file("a.1", "claim/supervisor.json")["pid"], signal.SIGKILL)
    wait_for(lambda: "adopted" in host.event_names("a.1"))
    host.ask("stop", job="a.1", grace=30, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"
    assert [log(host, rank).count("noticed 15") for rank in range(4)] == [1, 1, 1, 1]
    assert not [pid for pid in pids if is_alive(pid)]


def test_tensorflow_ends_with_its_workers(host: Host) -> None:
    """Parameter servers never end by themselves."""
    script = """
import json, os, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
print(task["type"], task["index"], flush=True)
open(f"outputs/{os.getpid()}", "w").close()
while len(os.listdir("outputs")) < 3 or task["type"] == "ps": time.sleep(0.005)
"""
    distribution = {"framework": "tensorflow", "workers": 2, "parameter_servers": 1}
    host.python("a.1", script, distribution=distribution)
    pids = started(host, 3)
    ended = host.wait("a.1")
    assert (ended["exit_code"], ended["message"]) == (0, "")
    assert [log(host, rank)[-1] for rank in range(3)] == ["worker 0", "worker 1", "ps 0"]
    assert_nothing_left(host, pids)


def test_arguments_name_variables_of_the_rank(host: Host) -> None:
    host.python("a.1", "import sys; print(*sys.argv[1:])", "--local-rank=$LOCAL_RANK", distribution=PYTORCH)
    assert host.wait("a.1")["exit_code"] == 0
    assert log(host, 3) == ["--local-rank=3"]


@pytest.mark.parametrize("distribution", [PYTORCH, pytest.param(MPI, marks=needs_mpi)])
def test_secrets_reach_every_rank(host: Host, distribution: dict[str, Any]) -> None:
    script = "import os; print(os.pread(int(os.environ['WINDLASS_SECRETS_FD']), 1000, 0).decode())"
    host.python("a.1", script, distribution=distribution, secrets=["key"], granted={"key": "open sesame"})
    assert host.wait("a.1")["exit_code"] == 0
    for rank in (0, 1):
        assert json.loads(log(host, rank)[-1])["secrets"] == {"key": "open sesame"}


def test_without_mpirun_nothing_is_started(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "true").symlink_to(shutil.which("true") or "/bin/true")
    host = hosts(env={"PATH": str(tmp_path / "bin")})
    host.start("a.1", ["true"], distribution=MPI)
    ended = host.wait("a.1")
    assert ended["reason"] == "start_failed"
    assert "no mpirun on the PATH of this machine" in ended["message"] and "openmpi-bin" in ended["message"]


@needs_mpi
def test_an_mpirun_that_fails_says_why(host: Host) -> None:
    host.python("a.1", "print('hello')", distribution=MPI, env={"OMPI_MCA_ess": "no_such_component"})
    ended = host.wait("a.1")
    assert ended["reason"] == "exited" and ended["exit_code"] not in (0, None)
    assert ended["message"].startswith("mpirun exited with code")
    assert "no_such_component" in host.read("a.1").decode()


@needs_mpi
@pytest.mark.skipif(shutil.which("mpicc") is None, reason="there is no mpicc: tools/setup system")
def test_an_mpi_program_of_four_ranks_on_two_nodes(host: Host, tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(C_PROGRAM)
    subprocess.run(["mpicc", "-o", tmp_path / "sum", tmp_path / "sum.c"], check=True)
    host.start("a.1", [str(tmp_path / "sum")], distribution=MPI, allocation=nodes(2))
    ended = host.wait("a.1")
    assert (ended["exit_code"], ended["message"]) == (0, ""), host.read("a.1")
    for rank in range(4):
        assert log(host, rank)[-1] == f"rank {rank} of 4 on node {rank // 2} has 6"


def test_all_processes_are_in_the_group_of_the_run(host: Host) -> None:
    if Groups.find() is None:
        pytest.skip("no control groups")
    host.python("a.1", WAIT, distribution=PYTORCH, allocation=nodes(2))
    pids = started(host, 4)
    groups = {Path(f"/proc/{pid}/cgroup").read_text().splitlines()[-1].split("/node-")[0] for pid in pids}
    assert len(groups) == 1 and "windlass-" in groups.pop()
    host.ask("stop", job="a.1", grace=30, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"
