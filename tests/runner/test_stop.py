"""Stopping: the whole tree, politely first, and the reason is told; what ended by itself is not called stopped."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from .conftest import Hosts
from .pipe import Host, RequestRefused, is_alive, wait_for

# A script that will not go, with a child that will not either and a grandchild in a session of its own.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def note(name):
    with open(name + ".tmp", "w") as file: file.write(str(os.getpid()))
    os.rename(name + ".tmp", name)
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if "--clear" in sys.argv:
                note("grandchild.early")
                os.execve("/bin/sleep", ["sleep", "600"], {})
            note("grandchild")
            time.sleep(600)
        os._exit(0)
    note("child")
    time.sleep(600)
note("script")
time.sleep(600)
"""


def pids(host: Host, job: str, *names: str) -> list[int]:
    source = host.folder(job) / "source"
    wait_for(lambda: all((source / name).exists() for name in names))
    return [int((source / name).read_text()) for name in names]


def test_stop_asks_first(host: Host) -> None:
    script = """
import signal, sys, time
def bye(*_):
    print("saved", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, bye)
print("ready", flush=True)
time.sleep(600)
"""
    host.python("a.1", script)
    wait_for(lambda: host.read("a.1") == b"ready\n")
    host.ask("stop", job="a.1", grace=30, fence=1)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("stopped", 3, None)
    assert host.read("a.1") == b"ready\nsaved\n"


def test_stop_tells_the_signal_that_ended_it(host: Host) -> None:
    host.start("a.1", ["sleep", "600"])
    host.wait_running("a.1")
    host.ask("stop", job="a.1", grace=30, fence=1)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("stopped", None, signal.SIGTERM)


@pytest.mark.parametrize("more", [[], ["--clear"]], ids=["with cookie", "without cookie"])
def test_the_whole_tree_is_ended(host: Host, more: list[str]) -> None:
    host.python("a.1", STUBBORN, *more)
    numbers = pids(host, "a.1", "script", "child", "grandchild.early" if more else "grandchild")
    host.ask("stop", job="a.1", grace=0.2, fence=1)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("stopped", signal.SIGKILL)
    assert not [pid for pid in numbers if is_alive(pid)]
    assert host.event_names("a.1")[-3:] == ["stopping", "killing", "exited"]


def test_what_a_script_leaves_behind_is_ended(host: Host) -> None:
    script = """
import os, time
if os.fork() == 0:
    os.setsid()
    with open("left.tmp", "w") as file: file.write(str(os.getpid()))
    os.rename("left.tmp", "left")
    time.sleep(600)
while not os.path.exists("left"): time.sleep(0.01)
print("done")
"""
    host.python("a.1", script)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 0)
    assert not is_alive(*pids(host, "a.1", "left"))
    assert host.file("a.1", "status.json")["left_behind"] == 1


def test_others_are_left_in_peace(host: Host) -> None:
    """A neighbour of the same user, without our cookie and not below us, is none of ours."""
    neighbour = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "600")
    try:
        host.python("a.1", STUBBORN)
        host.start("b.1", ["sleep", "600"])
        pids(host, "a.1", "grandchild")
        other = host.wait_running("b.1")
        host.ask("stop", job="a.1", grace=0, fence=1)
        host.wait("a.1")
        assert is_alive(neighbour)
        assert is_alive(other["pid"])
    finally:
        os.kill(neighbour, signal.SIGKILL)
        os.waitpid(neighbour, 0)


def test_stop_of_an_ended_job_is_silent_and_changes_nothing(host: Host) -> None:
    host.start("a.1", ["sh", "-c", "exit 4"])
    before = host.wait("a.1")
    host.ask("stop", job="a.1", grace=0, fence=1)
    assert host.wait("a.1") == before


def test_a_second_wish_may_shorten_the_grace_but_not_lengthen_it(host: Host) -> None:
    host.python("a.1", STUBBORN)
    pids(host, "a.1", "grandchild")
    host.ask("stop", job="a.1", grace=600, fence=1)
    wait_for(lambda: "stopping" in host.event_names("a.1"))
    host.ask("stop", job="a.1", grace=0, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"
    assert host.event_names("a.1").count("stopping") == 1


def test_an_exit_that_comes_first_keeps_its_code(hosts: Hosts, tmp_path: Path) -> None:
    """The supervisor is held between the exit of the script and the status; the wish to stop comes meanwhile."""
    (tmp_path / "points").mkdir()
    (tmp_path / "points/F15").touch()
    host = hosts(env={"WINDLASS_FAILPOINTS": str(tmp_path / "points")})
    host.start("a.1", ["sh", "-c", "exit 6"])
    wait_for((tmp_path / "points/F15.reached").exists)
    host.ask("stop", job="a.1", grace=0, fence=1)
    (tmp_path / "points/F15.go").touch()
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 6)


def test_cancelled_before_its_script_is_never_executed(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "points").mkdir()
    (tmp_path / "points/F08").touch()
    host = hosts(env={"WINDLASS_FAILPOINTS": str(tmp_path / "points")})
    host.start("a.1", ["sh", "-c", "echo ran"], {"x": b""})
    wait_for((tmp_path / "points/F08.reached").exists)
    host.ask("stop", job="a.1", grace=10, fence=1)
    (tmp_path / "points/F08.go").touch()
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("stopped", None, None)
    assert "exec" not in host.event_names("a.1")
    assert host.read("a.1") == b""


@pytest.fixture
def before_its_time(tmp_path: Path) -> Path:
    """Holds supervisors (F11) after they have started a script, and before its time begins to run."""
    points = tmp_path / "points"
    points.mkdir()
    (points / "F11").touch()
    return points


def test_the_time_limit_holds(hosts: Hosts, before_its_time: Path) -> None:
    host = hosts(env={"WINDLASS_FAILPOINTS": str(before_its_time)})
    host.python("a.1", STUBBORN, time_limit=0.3, grace=0.2)
    pids(host, "a.1", "script", "grandchild")  # which ignore the wish to end by now
    (before_its_time / "F11.go").touch()
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("time_limit", signal.SIGKILL)


def test_the_time_limit_needs_no_host(hosts: Hosts, before_its_time: Path) -> None:
    first = hosts(env={"WINDLASS_FAILPOINTS": str(before_its_time)})
    first.python("a.1", STUBBORN, time_limit=0.5, grace=0.1)
    wait_for((before_its_time / "F11.reached").exists)
    first.kill()
    (before_its_time / "F11.go").touch()
    wait_for((first.folder("a.1") / "status.json").exists)
    assert hosts().wait("a.1")["reason"] == "time_limit"


@pytest.mark.parametrize("grace", [-1, float("nan"), float("inf"), "soon", None, True])
def test_a_grace_that_is_no_number_is_refused(host: Host, grace: object) -> None:
    host.start("a.1", ["sleep", "600"])
    with pytest.raises(RequestRefused) as refused:
        host.ask("stop", job="a.1", grace=grace, fence=1)
    assert refused.value.code == "invalid"
    assert not (host.folder("a.1") / "stop.json").exists()


def test_a_time_limit_that_is_not_reached_does_nothing(host: Host) -> None:
    host.start("a.1", ["sleep", "0.1"], time_limit=600.0)
    assert host.wait("a.1")["reason"] == "exited"


def test_a_wish_finds_a_supervisor_that_another_host_started(hosts: Hosts) -> None:
    first = hosts()
    first.start("a.1", ["sleep", "600"])
    first.wait_running("a.1")
    first.kill()
    second = hosts()
    second.ask("stop", job="a.1", grace=5, fence=1)
    ended = second.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("stopped", signal.SIGTERM)


def test_the_wish_is_on_disk(host: Host) -> None:
    host.python("a.1", STUBBORN)
    pids(host, "a.1", "grandchild")
    host.ask("stop", job="a.1", grace=0.5, fence=1)
    assert json.loads((host.folder("a.1") / "stop.json").read_text()) == {"grace": 0.5, "reason": "stopped"}
    host.wait("a.1")


def test_usr1_is_for_the_supervisor_only(host: Host) -> None:
    """A script may use the signal that wakes a supervisor."""
    host.python(
        "a.1", "import os, signal, time; print('up', flush=True); os.kill(os.getpid(), signal.SIGUSR1); time.sleep(9)"
    )
    assert host.wait("a.1")["signal"] == signal.SIGUSR1
