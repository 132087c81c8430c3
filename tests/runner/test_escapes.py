"""Scripts that stop or kill their supervisor, take its lock, or leave daemons: each run can be cancelled and ends with
the truth, and no process of it is alive afterwards. Processes of others are never signalled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.runner.system.cgroup import Groups

from .conftest import Hosts
from .pipe import Host, is_alive, start_time, wait_for

# What the scripts below have in common. `supervisor` is the present one's process id.
TOOLS = """
import fcntl, json, os, signal, sys, time
FOLDER = os.environ["WINDLASS_RUN_FOLDER"]

def supervisor():
    try:
        with open(FOLDER + "/claim/supervisor.json") as file: return json.load(file)["pid"]
    except (OSError, ValueError): return 0

def tell(name, text=""):
    with open(name + ".tmp", "w") as file: file.write(str(text))
    os.rename(name + ".tmp", name)

def wait_for(name):
    while not os.path.exists(name): time.sleep(0.005)

def send(pid, number):
    try: os.kill(pid, number)
    except ProcessLookupError: pass
"""
STOPS_ONCE = """
os.kill(supervisor(), signal.SIGSTOP)
tell("stopped")
sys.exit(7)
"""
STOPS_ALL = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    if supervisor(): send(supervisor(), signal.SIGSTOP)
    if not os.path.exists("stopped"): tell("stopped")
    time.sleep(0.001)
"""
TAKES_THE_LOCK = """
def take():
    try: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError: return False
    return True

if os.fork() == 0:
    lock = os.open(FOLDER + "/claim/lock", os.O_RDWR)
    while not take():  # until we are quicker than the next supervisor
        send(supervisor(), signal.SIGKILL)
    if len(sys.argv) > 1:  # name a process of somebody else as the supervisor
        tell(FOLDER + "/claim/supervisor.json", sys.argv[1])
        tell(FOLDER + "/../../started/" + os.path.basename(FOLDER), sys.argv[1])
    tell("taken")
    while True: time.sleep(1)
wait_for("go")
sys.exit(5)
"""
# A daemon with an empty environment, in a session of its own, whose parents are dead.
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        tell("daemon.pid", os.getpid())
        os.closerange(0, 100)
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
wait_for("daemon.pid")
daemon = open("daemon.pid").read()
while open(f"/proc/{daemon}/environ").read(): time.sleep(0.005)
if len(sys.argv) > 1: os.kill(supervisor(), int(sys.argv[1]))
tell("daemon", daemon)
wait_for("go")
sys.exit(3)
"""
GROUPS = {
    "v2": "",
    "v1": "umount /sys/fs/cgroup/unified;",
    "none": "mount -t tmpfs none /sys/fs/cgroup;",
}


def source(host: Host, name: str, job: str = "a.1") -> Path:
    return host.folder(job) / "source" / name


def begin(host: Host, script: str, *arguments: str, job: str = "a.1", until: str) -> str:
    host.python(job, TOOLS + script, *arguments)
    wait_for(source(host, until, job).exists)
    return source(host, until, job).read_text()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else, of the same account."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture(params=list(GROUPS))
def any_host(request: pytest.FixtureRequest, hosts: Hosts, tmp_path: Path) -> Host:
    """With control groups of each version, and without."""
    if request.param == "v2" or os.geteuid() != 0:
        return hosts()
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
exec unshare --mount sh -c '{GROUPS[request.param]} exec python3 "$@"' sh "$@"
""")
    python.chmod(0o755)
    return hosts(python=str(python))


def test_a_stopped_supervisor_is_continued(host: Host) -> None:
    begin(host, STOPS_ONCE, until="stopped")
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 7)
    assert "adopted" not in host.event_names("a.1")


def test_a_script_that_stops_every_supervisor_can_be_cancelled(host: Host) -> None:
    begin(host, STOPS_ALL, until="stopped")
    script = host.file("a.1", "claim/process.json")["pid"]
    host.ask("stop", job="a.1", grace=0.1, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"
    assert not is_alive(script)


def test_a_lock_that_a_child_of_the_script_holds_ends_nothing(host: Host) -> None:
    begin(host, TAKES_THE_LOCK, until="taken")
    wait_for(lambda: "adopted" in host.event_names("a.1"), 60)
    source(host, "go").touch()
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 5)
    assert ended["usage"] is not None


def test_a_run_whose_lock_was_taken_can_be_cancelled(host: Host) -> None:
    begin(host, TAKES_THE_LOCK, until="taken")
    script = host.file("a.1", "claim/process.json")["pid"]
    host.ask("stop", job="a.1", grace=0.1, fence=1)
    assert host.wait("a.1", 60)["reason"] == "stopped"
    assert not is_alive(script)


def test_a_bystander_that_is_named_as_supervisor_is_not_signalled(
    host: Host, bystander: subprocess.Popen[bytes]
) -> None:
    named = {"pid": bystander.pid, "starttime": start_time(bystander.pid), "boot_id": host.hello["boot_id"]}
    bystander.send_signal(signal.SIGSTOP)
    begin(host, TAKES_THE_LOCK, json.dumps(named), until="taken")
    host.ask("stop", job="a.1", grace=0.1, fence=1)
    assert host.wait("a.1", 60)["reason"] == "stopped"
    assert Path(f"/proc/{bystander.pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"


def test_a_daemon_is_ended_with_its_run(any_host: Host) -> None:
    daemon = int(begin(any_host, DAEMON, until="daemon"))
    source(any_host, "go").touch()
    assert any_host.wait("a.1")["exit_code"] == 3
    assert not is_alive(daemon)


def test_a_daemon_is_ended_with_its_run_whose_supervisor_was_killed(any_host: Host) -> None:
    daemon = int(begin(any_host, DAEMON, "9", until="daemon"))
    wait_for(lambda: "adopted" in any_host.event_names("a.1"))
    assert is_alive(daemon)
    source(any_host, "go").touch()
    assert any_host.wait("a.1")["exit_code"] == 3
    wait_for(lambda: not is_alive(daemon))


def test_daemons_of_other_runs_live_on(any_host: Host) -> None:
    ours, others = (int(begin(any_host, DAEMON, "9", job=job, until="daemon")) for job in ("a.1", "b.1"))
    for job in ("a.1", "b.1"):
        wait_for(lambda: "adopted" in any_host.event_names(job))  # noqa: B023
    source(any_host, "go").touch()
    assert any_host.wait("a.1")["exit_code"] == 3
    assert is_alive(others)
    source(any_host, "go", "b.1").touch()
    assert any_host.wait("b.1")["exit_code"] == 3
    wait_for(lambda: not is_alive(ours) and not is_alive(others))


def test_a_daemon_is_found_by_its_group_when_host_and_supervisor_were_killed(hosts: Hosts) -> None:
    if Groups.find() is None:
        return
    first = hosts()
    daemon = int(begin(first, DAEMON, until="daemon"))
    first.kill()
    os.kill(first.file("a.1", "claim/supervisor.json")["pid"], signal.SIGKILL)
    second = hosts()
    wait_for(lambda: second.observe("a.1")["phase"] == "running" and "adopted" in second.event_names("a.1"))
    source(second, "go").touch()
    assert second.wait("a.1")["reason"] == "exit_unknown"
    assert not is_alive(daemon)


def test_the_control_group_goes_with_the_run(host: Host) -> None:
    if Groups.find() is None:
        return
    begin(host, DAEMON, until="daemon")
    group = Path(json.loads((host.root / "started/a.1").read_text().splitlines()[0])["group"])
    script = host.file("a.1", "claim/process.json")["pid"]
    assert str(script) in (group / "cgroup.procs").read_text().split()
    source(host, "go").touch()
    host.wait("a.1")
    assert not group.exists()
