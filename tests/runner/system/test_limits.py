"""A run gets no more of its machine than its allocation says, and its events say what limits it, and by what."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.runner.system import affinity, cgroup, limits
from windlass.runner.system.cgroup import Group, Groups, limiting_parent
from windlass.runner.system.limits import Limits
from windlass.runner.system.process_tree import Process, identify
from windlass.runner.workdir.machine_folder import Machine

from ..conftest import Hosts
from ..pipe import Host, RequestRefused, wait_for
from .test_inventory import offered

# Prints the files of a controller of the group that this process is in.
SHOW = """
import os, sys
own = {}
for line in open("/proc/self/cgroup"):
    _, names, path = line.strip().split(":", 2)
    own.update(dict.fromkeys(names.split(","), path))
for name in ("cpu/cpu.cfs_quota_us", "cpu/cpu.shares", "memory/memory.limit_in_bytes"):
    kind, file = name.split("/")
    print(file, open(f"/sys/fs/cgroup/{kind}{own[kind]}/{file}").read().strip())
"""
HOARD = "x = bytearray(os.urandom(1 << 20) * int(sys.argv[1]))"
NOT_HERE = "there are no control groups of version 1 with the controllers cpu and memory to write to"


def has_v1() -> bool:
    groups = Groups.find()
    return groups is not None and groups.limits() == {"cpu": "v1", "memory": "v1"}


needs_v1 = pytest.mark.skipif(not has_v1(), reason=NOT_HERE)


def allocation(cores: float = 0.0, memory_mb: int = 0, is_hard: bool = True, nodes: int = 1) -> dict[str, Any]:
    share = {"cores": cores, "memory_mb": memory_mb, "gpus": []}
    return {"shares": [{"node": f"n{i}", **share} for i in range(nodes)], "is_hard": is_hard, "hides_gpus": True}


def event(host: Host, job: str = "a.1") -> dict[str, Any]:
    lines = (host.folder(job) / "events.jsonl").read_text().splitlines()
    [found] = [line for line in map(json.loads, lines) if line["event"] == "limits"]
    return {name: found[name] for name in found if name not in ("at", "event")}


def printed(host: Host, job: str = "a.1") -> dict[str, str]:
    return dict(line.split(" ", 1) for line in host.read(job).decode().splitlines())


@needs_v1
def test_a_process_enters_its_group_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without being moved, which makes all processes that fork wait."""
    groups = Groups.find()
    assert groups is not None
    group = groups.group(str(tmp_path), "a.1", "nonce")
    hear, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        group.enter()
        os.read(hear, 1)
        os._exit(0)
    try:
        monkeypatch.setattr(cgroup, "_write", lambda path, word: pytest.fail(f"{path} is written"))
        monkeypatch.setattr(cgroup, "_ENTER_SECONDS", 10.0)
        group.join(pid)
        assert Path(f"/proc/{pid}/cgroup").read_text().count(os.path.basename(group.path)) == 2
    finally:
        os.write(tell, b"x")
        os.waitpid(pid, 0)
        os.close(hear)
        os.close(tell)
        assert group.remove()


@pytest.fixture
def host_without_groups(hosts: Hosts, tmp_path: Path) -> Host:
    """A host on a machine without control groups."""
    if os.geteuid() != 0:
        pytest.skip("only root can hide the control groups of this machine")
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\nexec unshare --mount sh -c "
        f"""'mount -t tmpfs none /sys/fs/cgroup; exec {sys.executable} "$@"' sh "$@"\n"""
    )
    python.chmod(0o755)
    return hosts(python=str(python))


@needs_v1
def test_hard_limits_are_there_before_the_script_is(host: Host) -> None:
    host.python("a.1", SHOW, allocation=allocation(1.5, 256))
    assert host.wait("a.1")["exit_code"] == 0
    assert printed(host) == {
        "cpu.cfs_quota_us": "150000",
        "cpu.shares": "1536",
        "memory.limit_in_bytes": str(256 << 20),
    }
    assert event(host) == {
        "cores": 1.5, "memory_mb": 256, "is_hard": True, "cpu": "cgroup v1 quota", "memory": "cgroup v1 limit"
    }  # fmt: skip


@needs_v1
def test_soft_limits_have_no_quota(host: Host) -> None:
    host.python("a.1", SHOW, allocation=allocation(0.5, 512, is_hard=False))
    assert host.wait("a.1")["exit_code"] == 0
    assert printed(host)["cpu.cfs_quota_us"] == "-1"
    assert printed(host)["cpu.shares"] == "512"
    assert event(host)["cpu"] == "cgroup v1 weight"


@needs_v1
def test_a_weight_comes_to_a_run_that_lasts(host: Host) -> None:
    """Moving a process costs milliseconds, which a short run would only lose by."""
    host.start("a.1", ["sleep", "600"], allocation=allocation(2.0, is_hard=False))
    pid = host.wait_running("a.1")["pid"]
    wait_for(lambda: "cpu:/windlass-" in Path(f"/proc/{pid}/cgroup").read_text())
    host.ask("stop", job="a.1", grace=5, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"


@needs_v1
def test_the_shares_of_several_nodes_are_limited_each_and_together(host: Host) -> None:
    host.python("a.1", SHOW, allocation=allocation(0.5, 128, nodes=2))
    assert host.wait("a.1")["exit_code"] == 0
    for number in (0, 1):
        log = host.read("a.1", f"user_logs/std_log_process_{number}.txt").decode()
        assert "cpu.cfs_quota_us 50000\n" in log
        assert f"memory.limit_in_bytes {128 << 20}\n" in log
    assert (event(host)["cores"], event(host)["memory_mb"]) == (1.0, 256)


@needs_v1
def test_a_job_that_was_made_ready_gets_the_limits_of_its_start(host: Host) -> None:
    host.python("a.1", SHOW, hold=True)
    wait_for(lambda: "ready" in host.event_names("a.1"))
    assert "allocation" not in host.file("a.1", "run.json")
    host.python("a.1", SHOW, allocation=allocation(1.0, 256))
    assert host.wait("a.1")["exit_code"] == 0
    assert printed(host)["memory.limit_in_bytes"] == str(256 << 20)
    assert printed(host)["cpu.cfs_quota_us"] == "100000"


@needs_v1
def test_groups_go_with_their_run(host: Host) -> None:
    script = "print(*(line.strip() for line in open('/proc/self/cgroup') if 'windlass-' in line), sep='\\n')"
    host.python("a.1", script, allocation=allocation(1.0, 256, nodes=2))
    assert host.wait("a.1")["exit_code"] == 0
    rows = [line.split(":", 2) for line in host.read("a.1").decode().splitlines() if ":/" in line]
    kinds = {kind: path for _, kind, path in rows}
    assert {"cpu", "memory"} <= set(kinds)
    for kind in ("cpu", "memory"):
        assert not os.path.exists(os.path.dirname(f"/sys/fs/cgroup/{kind}{kinds[kind]}"))


@needs_v1
def test_the_end_at_a_memory_limit_names_the_limit(host: Host) -> None:
    host.python("a.1", f"import os, sys\n{HOARD}", "400", allocation=allocation(1.0, 128))
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("out_of_memory", 9)
    assert "128 MB" in ended["message"]


@needs_v1
def test_a_process_that_is_killed_at_the_limit_is_named(host: Host) -> None:
    """The script goes on without it, and its exit code is its own."""
    script = f"import os, sys\nif os.fork() == 0:\n    {HOARD}\n    os._exit(0)\nos.wait()\nsys.exit(3)"
    host.python("a.1", script, "400", allocation=allocation(1.0, 128))
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 3)
    assert "killed at the run's memory limit of 128 MB" in ended["message"]


@needs_v1
def test_a_rank_that_is_killed_at_its_nodes_limit_is_named(host: Host) -> None:
    script = f"import os, sys, time\nif os.environ['NODE_RANK'] == '1': {HOARD}\ntime.sleep(600)"
    host.python("a.1", script, "400", allocation=allocation(1.0, 128, nodes=2), grace=5.0)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("out_of_memory", 9)
    assert ended["message"].startswith("Rank 1 on the node n1 was ended by signal 9 (SIGKILL).")
    assert "256 MB" in ended["message"]


CORES = "import os, time\nprint(*os.sched_getaffinity(0))\nwhile not os.path.exists('go'): time.sleep(0.005)"


def test_without_groups_runs_have_cores_of_their_own(host_without_groups: Host) -> None:
    host = host_without_groups
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    for job in ("a.1", "b.1"):
        host.python(job, CORES, allocation=allocation(0.7))
    first = wait_for(lambda: host.read("a.1").decode().split())
    second = wait_for(lambda: host.read("b.1").decode().split())
    assert len(first) == len(second) == 1 and first != second
    assert event(host)["cpu"] == f"affinity to core {first[0]}"
    for job in ("a.1", "b.1"):
        (host.folder(job) / "source/go").touch()
        assert host.wait(job)["exit_code"] == 0


def test_without_groups_memory_is_limited_by_address_space(host_without_groups: Host) -> None:
    host = host_without_groups
    host.python("a.1", f"import os, sys\n{HOARD}", "400", allocation=allocation(0.0, 256))
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 1)
    assert b"MemoryError" in host.read("a.1")
    assert event(host) == {"cores": 0.0, "memory_mb": 256, "is_hard": True, "cpu": "nothing", "memory": "RLIMIT_AS"}


def test_without_groups_a_soft_share_limits_nothing(host_without_groups: Host) -> None:
    host_without_groups.start("a.1", ["true"], allocation=allocation(1.0, is_hard=False))
    host_without_groups.wait("a.1")
    assert event(host_without_groups)["cpu"] == "nothing"


def test_a_run_without_an_allocation_is_not_limited(host: Host) -> None:
    host.start("a.1", ["true"])
    host.wait("a.1")
    assert "limits" not in host.event_names("a.1")


@pytest.mark.parametrize(
    ("taken", "cores", "chosen"),
    [
        ([], 1.0, [0]),
        ([[0]], 1.0, [1]),
        ([[0], [1]], 2.0, [2, 3]),
        ([[0, 1], [0, 1, 2]], 1.5, [2, 3]),
        ([], 0.2, [0]),
        ([[0]], 9.0, [0, 1, 2, 3]),
    ],
)
def test_the_least_used_cores_are_chosen(taken: list[list[int]], cores: float, chosen: list[int]) -> None:
    assert affinity.choose([0, 1, 2, 3], taken, cores) == chosen


def test_cores_of_runs_that_have_ended_are_free(tmp_path: Path) -> None:
    """What a power cut left of the file counts for nothing."""
    own = identify(os.getpid())
    assert own is not None
    before = os.sched_getaffinity(0)
    try:
        (tmp_path / "cores.json").write_text(
            json.dumps([{"pid": own.pid, "start": own.start + 1, "cores": [min(before)]}])
        )
        assert affinity.restrict(own, 1.0, str(tmp_path)) == f"affinity to core {min(before)}"
        (tmp_path / "cores.json").write_text('[{"pid":')
        assert affinity.restrict(own, 1.0, str(tmp_path)).startswith("affinity")
    finally:
        os.sched_setaffinity(0, before)


@pytest.fixture
def unified(tmp_path: Path) -> Callable[[str], Group]:
    """A folder with the files of a group of version 2, whose words are those of the kernel's documentation. It is no
    real one: a kernel has each controller in one version only.
    """

    def make(name: str) -> Group:
        folder = tmp_path / name
        folder.mkdir()
        for file in ("cpu.max", "cpu.weight", "memory.max", "memory.swap.max", "memory.oom.group", "cgroup.procs"):
            (folder / file).touch()
        return Group(str(folder), "cgroup2", {"cpu": str(folder), "memory": str(folder)})

    return make


@pytest.mark.parametrize(
    ("wanted", "files", "by"),
    [
        (
            Limits(1.5, 256, True),
            {"cpu.max": "150000 100000", "cpu.weight": "150", "memory.max": str(256 << 20), "memory.swap.max": "0"},
            {"cpu": "cgroup v2 quota", "memory": "cgroup v2 limit"},
        ),
        (
            Limits(0.5, 0, False),
            {"cpu.max": "max 100000", "cpu.weight": "50", "memory.max": "", "memory.swap.max": ""},
            {"cpu": "cgroup v2 weight", "memory": "nothing"},
        ),
    ],
    ids=["hard", "soft"],
)
def test_the_words_of_version_2(
    unified: Callable[[str], Group], tmp_path: Path, wanted: Limits, files: dict[str, str], by: dict[str, str]
) -> None:
    found = limits.enforce(wanted, Process(os.getpid(), 0), unified("group"), Machine(str(tmp_path)))
    assert found == by
    assert {name: (tmp_path / "group" / name).read_text() for name in files} == files
    assert (tmp_path / "group" / "cgroup.procs").read_text() == "", "its process is born into it"


def test_version_2_limits_below_the_nearest_group_whose_children_can_be(tmp_path: Path) -> None:
    """A group that has processes, as ours has, cannot have limited children; one above it may."""
    (tmp_path / "user.slice" / "session.scope").mkdir(parents=True)
    for folder, enabled in (("", "cpu memory pids"), ("user.slice", "cpu memory"), ("user.slice/session.scope", "")):
        (tmp_path / folder / "cgroup.subtree_control").write_text(enabled)
        (tmp_path / folder / "cgroup.procs").touch()
    own = tmp_path / "user.slice" / "session.scope"
    assert limiting_parent(str(own), str(tmp_path)) == str(tmp_path / "user.slice")
    (tmp_path / "user.slice" / "cgroup.subtree_control").write_text("memory pids")
    assert limiting_parent(str(own), str(tmp_path)) == str(tmp_path)
    (tmp_path / "cgroup.subtree_control").write_text("")
    assert limiting_parent(str(own), str(tmp_path)) is None


def test_a_machine_says_what_can_be_limited(tmp_path: Path) -> None:
    found = offered(tmp_path)["limits"]
    assert found == limits.available()
    if has_v1():
        assert found == {"cpu": "cgroup v1 quota", "memory": "cgroup v1 limit"}


@pytest.mark.parametrize(
    "more",
    [
        {"allocation": {"shares": []}},
        {"allocation": {"shares": [{"cores": -1}]}},
        {"allocation": {"shares": [{"gpus": ["0"]}]}},
        {"allocation": {"shares": [{"memory_mb": 0.5}]}},
        {"distribution": {"framework": "horovod"}},
        {"distribution": {"framework": "mpi", "processes_per_node": 0}},
        {"distribution": {"framework": "pytorch", "process_count": 100_000}},
    ],
)
def test_what_is_not_understood_is_refused(host: Host, more: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused) as refused:
        host.start("a.1", ["true"], **more)
    assert refused.value.code == "invalid"
