"""Resource usage of a run: samples of its process tree, GPUs, and kills by the OOM killer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from windlass.runner.supervisor.resource_usage import MemoryWatch, memory_counter

from ..conftest import Hosts
from ..pipe import Host, wait_for

GROUPS = Path("/sys/fs/cgroup/memory")


def samples(host: Host, job: str) -> list[dict[str, Any]]:
    path = host.folder(job) / "usage.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_whole_tree_is_sampled(host: Host) -> None:
    script = """
import os, time
hoard = bytearray(os.urandom(1 << 20) * 60)
for _ in range(2):
    if os.fork() == 0:
        hoard = bytearray(os.urandom(1 << 20) * 40)
        while not os.path.exists("go"): time.sleep(0.01)
        os._exit(0)
end = time.process_time() + 0.3
while time.process_time() < end: pass
while not os.path.exists("go"): time.sleep(0.01)
with open("outputs/x", "wb") as file:
    file.write(b"x" * 5_000_000)
    os.fsync(file.fileno())
os.wait(); os.wait()
"""
    host.python("a.1", script)

    def whole() -> dict[str, Any] | None:
        """A sample of all three, once they have taken what they take."""
        last = (samples(host, "a.1") or [{"processes": 0}])[-1]
        return last if last["processes"] == 3 and last["rss_mb"] > 60 + 2 * 40 and last["cpu_seconds"] >= 0.3 else None

    sample = wait_for(whole)
    (host.folder("a.1") / "source/go").touch()
    ended = host.wait("a.1")
    usage = ended["usage"]
    assert usage["cpu_seconds"] >= 0.3
    assert usage["peak_rss_mb"] >= sample["rss_mb"]
    assert usage["processes"] == 3
    assert usage["written_mb"] >= 4.5
    assert "usage.jsonl" in [file[0] for file in ended["files"]]


def test_a_short_run_has_its_sum_too(host: Host) -> None:
    host.python("a.1", "x = bytearray(b'x') * 30_000_000")
    usage = host.wait("a.1")["usage"]
    assert usage["peak_rss_mb"] > 30
    assert usage["processes"] == 1


def test_gpus_are_asked_for_where_there_are_any(hosts: Hosts, tmp_path: Path) -> None:
    """A stand-in for nvidia-smi: it knows of one process on one GPU, and of a stranger's on another."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        f'  *compute-apps*) echo "$(cat {tmp_path}/pid), GPU-1, 1234"; echo "1, GPU-2, 99" ;;\n'
        '  *) echo "GPU-1, 87"; echo "GPU-2, 5" ;;\n'
        "esac\n"
    )
    program.chmod(0o755)
    host = hosts(env={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    host.start("a.1", ["sleep", "600"])
    (tmp_path / "pid").write_text(str(host.wait_running("a.1")["pid"]))
    # The first answer has the memory, the second one the load, and a sample may come in between.
    wait_for(lambda: any(sample.get("gpu_percent") for sample in samples(host, "a.1")))
    found = next(sample for sample in samples(host, "a.1") if sample.get("gpu_percent"))
    assert (found["gpu_mb"], found["gpu_percent"]) == (1234.0, 87.0)
    assert found["processes"] == 1
    host.ask("stop", job="a.1", grace=5, fence=1)
    ended = host.wait("a.1")
    assert ended["usage"]["peak_gpu_mb"] == 1234.0
    assert host.file("a.1", "status.json")["left_behind"] == 0


def test_killed_is_not_out_of_memory(host: Host) -> None:
    host.start("a.1", ["sh", "-c", "kill -9 $$"])
    assert host.wait("a.1")["reason"] == "signaled"


@pytest.fixture
def small_group(tmp_path: Path) -> Any:
    """A control group of 64 MB, where the kernel has such and we may make one."""
    group = GROUPS / f"windlass-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(64 << 20))
    except OSError:
        yield None
        return
    yield group
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (GROUPS / "cgroup.procs").write_text(pid)
    wait_for(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def test_lack_of_memory_is_told_apart(hosts: Hosts, small_group: Path | None) -> None:
    """The kernel kills a script that wants more than its group has. Where no group can be made, none is there."""
    host = hosts()
    if small_group is None:
        assert not os.access(GROUPS, os.W_OK)
        return
    (small_group / "cgroup.procs").write_text(str(host.pid))
    host.python("a.1", "import os\nhoard = []\nwhile True: hoard.append(os.urandom(1 << 20))")
    ended = host.wait("a.1", 60)
    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("out_of_memory", None, signal.SIGKILL)
    host.start("b.1", ["sh", "-c", "kill -9 $$"])
    assert host.wait("b.1")["reason"] == "signaled", "what happened before it began is no evidence"


def test_the_kernels_counters_are_evidence_only_when_fresh(tmp_path: Path) -> None:
    """Whatever the machine: growth of a counter counts until it has been looked at twice."""
    counter = tmp_path / "memory.events"
    counter.write_text("oom 9\noom_kill 3\noom_group_kill 9\n")
    watch = MemoryWatch(str(counter))
    assert not watch.has_killed()
    counter.write_text("oom 9\noom_kill 4\noom_group_kill 9\n")
    assert watch.has_killed()
    watch.sample()
    assert watch.has_killed(), "the victim may take a while to die"
    watch.sample()
    assert not watch.has_killed(), "that was another process"


def test_a_counter_can_always_be_had() -> None:
    counter = Path(memory_counter(os.getpid()))
    assert "oom_kill " in counter.read_text()
    assert memory_counter(-1) == "/proc/vmstat"
