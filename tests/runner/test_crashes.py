"""Supervisors and hosts are killed; what became of the script is told truly all the same, and it runs once."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from .conftest import Hosts
from .pipe import RUNNER, Host, RequestRefused, is_alive, wait_for

# Notes each execution, waits to be let go, then ends as it is told.
OBEDIENT = """
import os, sys, time
with open("ledger", "a") as ledger: ledger.write(f"{os.getpid()}\\n")
print("begun", flush=True)
while not os.path.exists("go"): time.sleep(0.005)
print("ended", flush=True)
if sys.argv[1] == "signal": os.kill(os.getpid(), 9)
sys.exit(int(sys.argv[1]))
"""


class Points:
    """Failpoints that this test arms: whoever reaches one waits there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.env = {"WINDLASS_FAILPOINTS": str(folder)}

    def arm(self, point: str) -> None:
        (self.folder / point).touch()

    def reached(self, point: str) -> int:
        """The pid of whoever waits there."""
        wait_for((self.folder / f"{point}.reached").exists)
        return int((self.folder / f"{point}.reached").read_text())

    def go(self, point: str, trouble: str = "") -> None:
        aside = self.folder / "aside"
        aside.write_text(trouble)
        aside.rename(self.folder / f"{point}.go")


@pytest.fixture
def points(tmp_path: Path) -> Points:
    return Points(tmp_path / "points")


def let_go(host: Host, job: str) -> None:
    (host.folder(job) / "source/go").touch()


def executions(host: Host, job: str) -> int:
    ledger = host.folder(job) / "source/ledger"
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def kill_supervisor(host: Host, job: str) -> None:
    """Kill whoever holds the job now, and wait for its successor."""
    pid = host.file(job, "claim/supervisor.json")["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))


def begin(host: Host, end: str = "7", **more: Any) -> None:
    host.python("a.1", OBEDIENT, end, **more)
    host.wait_running("a.1")
    wait_for(lambda: host.read("a.1") == b"begun\n")


def test_a_killed_supervisor_costs_nothing_while_the_host_lives(host: Host) -> None:
    begin(host)
    kill_supervisor(host, "a.1")
    wait_for(lambda: "adopted" in host.event_names("a.1"))
    assert host.observe("a.1")["phase"] == "running"
    let_go(host, "a.1")
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 7)
    assert host.read("a.1") == b"begun\nended\n"
    assert executions(host, "a.1") == 1


def test_supervisors_may_be_killed_again_and_again(host: Host) -> None:
    begin(host, "signal")
    for count in range(1, 4):
        kill_supervisor(host, "a.1")
        wait_for(lambda: host.event_names("a.1").count("adopted") == count)  # noqa: B023
    let_go(host, "a.1")
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("signaled", None, signal.SIGKILL)
    assert executions(host, "a.1") == 1


def test_supervisor_and_script_killed_together(host: Host) -> None:
    begin(host)
    script = host.file("a.1", "claim/process.json")["pid"]
    os.kill(host.file("a.1", "claim/supervisor.json")["pid"], signal.SIGSTOP)
    os.kill(script, signal.SIGKILL)
    kill_supervisor(host, "a.1")
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("signaled", signal.SIGKILL)


def test_without_anybody_left_a_later_host_adopts(hosts: Hosts) -> None:
    first = hosts()
    begin(first)
    first.kill()
    kill_supervisor(first, "a.1")
    second = hosts()
    assert second.observe("a.1")["phase"] == "running"
    wait_for(lambda: "adopted" in second.event_names("a.1"))
    let_go(second, "a.1")
    ended = second.wait("a.1")
    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("exit_unknown", None, None)
    assert second.read("a.1") == b"begun\nended\n"
    assert executions(second, "a.1") == 1


def test_an_adopted_script_is_stopped_with_its_tree(hosts: Hosts) -> None:
    first = hosts()
    first.python("a.1", FAMILY)
    child = wait_for(lambda: first.read("a.1").strip())
    first.kill()
    kill_supervisor(first, "a.1")
    second = hosts()
    second.ask("stop", job="a.1", grace=0.2, fence=1)
    ended = second.wait("a.1")
    assert ended["reason"] == "stopped"
    assert not is_alive(int(child))
    assert not is_alive(second.file("a.1", "claim/process.json")["pid"])


FAMILY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_an_adopted_script_keeps_its_time_limit(hosts: Hosts, points: Points) -> None:
    """Its first supervisor is held before it looks at the time, however slow all the others are."""
    host = hosts(env=points.env)
    points.arm("F11")
    host.python("a.1", OBEDIENT, "7", time_limit=0.5, grace=0.1)
    os.kill(points.reached("F11"), signal.SIGKILL)
    assert host.wait("a.1")["reason"] == "time_limit"
    assert "adopted" in host.event_names("a.1")


def test_dead_while_nobody_looked_is_unknown(hosts: Hosts) -> None:
    first = hosts()
    begin(first)
    first.kill()
    kill_supervisor(first, "a.1")
    script = first.file("a.1", "claim/process.json")["pid"]
    let_go(first, "a.1")
    wait_for(lambda: not is_alive(script))
    ended = hosts().wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exit_unknown", None)


def test_a_foreign_process_of_the_same_number_is_not_adopted(hosts: Hosts) -> None:
    """Numbers are used again: it is the starting time that names a process."""
    first = hosts()
    begin(first)
    first.kill()
    kill_supervisor(first, "a.1")
    path = first.folder("a.1") / "claim/process.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps({**written, "pid": os.getpid()}))
    second = hosts()
    second.ask("stop", job="a.1", grace=0, fence=1)
    assert second.wait("a.1")["exit_code"] is None  # and this test is still alive
    assert not is_alive(written["pid"]), "the script carries the cookie, so it was found and ended"


def test_another_boot_is_a_lost_node(hosts: Hosts) -> None:
    first = hosts()
    begin(first)
    first.kill()
    kill_supervisor(first, "a.1")
    os.kill(first.file("a.1", "claim/process.json")["pid"], signal.SIGKILL)
    for name in ("run.json", "claim/supervisor.json", "claim/process.json"):
        path = first.folder("a.1") / name
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot_id": "an earlier one"}))
    second = hosts()
    ended = second.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("node_lost", None)
    assert ["user_logs/std_log.txt", 6] in [file[:2] for file in ended["files"]]


@pytest.mark.parametrize("victim", ["supervisor", "both"])
def test_killed_before_exec_may_be_started_again(hosts: Hosts, points: Points, victim: str) -> None:
    """F08: half of the snapshot is placed. Nothing ran, that is provable, and so the same job is started anew."""
    host = hosts(env=points.env)
    points.arm("F08")
    run = host.run_json("a.1", ["{python}", "train.py", "3"], {"train.py": OBEDIENT.encode(), "z": b"z"})
    assert host.ask("start", run=run)[0]["claimed"] is True
    pid = points.reached("F08")
    if victim == "both":
        host.kill()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    later = hosts(env=points.env) if victim == "both" else host
    seen = wait_for(lambda: (o := later.observe("a.1"))["phase"] == "lost" and o)
    assert seen["startable"] is True
    assert later.ask("start", run=run)[0]["claimed"] is True
    later.wait_running("a.1")
    let_go(later, "a.1")
    assert later.wait("a.1")["exit_code"] == 3
    assert executions(later, "a.1") == 1
    assert (later.folder("a.1") / "source/z").read_bytes() == b"z"


def test_host_killed_between_claim_and_fork(hosts: Hosts, points: Points) -> None:
    """F10."""
    first = hosts(env=points.env)
    points.arm("F10")
    run = first.run_json("a.1", ["{python}", "train.py", "3"], {"train.py": OBEDIENT.encode()})
    first.send("start", run=run)
    assert points.reached("F10") == first.pid
    first.kill()
    second = hosts()
    assert second.observe("a.1")["startable"] is True
    assert second.ask("start", run=run)[0]["claimed"] is True
    second.wait_running("a.1")
    let_go(second, "a.1")
    assert second.wait("a.1")["exit_code"] == 3
    assert executions(second, "a.1") == 1


def test_a_job_that_was_claimed_and_never_started_can_be_cancelled(hosts: Hosts, points: Points) -> None:
    first = hosts(env=points.env)
    points.arm("F10")
    first.send("start", run=first.run_json("a.1", ["sh", "-c", "echo ran"]))
    points.reached("F10")
    first.kill()
    second = hosts()
    second.ask("stop", job="a.1", grace=1, fence=1)
    assert second.wait("a.1")["reason"] == "stopped"
    assert second.read("a.1") == b""


@pytest.mark.parametrize("victim", ["supervisor", "both"])
def test_killed_between_exec_and_its_record(hosts: Hosts, points: Points, victim: str) -> None:
    """F11: the script runs, and has signed its name itself: it is adopted, not started again."""
    host = hosts(env=points.env)
    points.arm("F11")
    host.python("a.1", OBEDIENT, "9")
    pid = points.reached("F11")
    if victim == "both":
        host.kill()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    later = hosts(env=points.env) if victim == "both" else host
    wait_for(lambda: later.observe("a.1")["phase"] == "running" and "adopted" in later.event_names("a.1"))
    let_go(later, "a.1")
    ended = later.wait("a.1")
    expected = ("exit_unknown", None) if victim == "both" else ("exited", 9)
    assert (ended["reason"], ended["exit_code"]) == expected
    assert executions(later, "a.1") == 1


@pytest.mark.parametrize("point", ["F15", "F16", "F17"])
@pytest.mark.parametrize("victim", ["supervisor", "both"])
def test_killed_on_the_way_to_the_status(hosts: Hosts, points: Points, point: str, victim: str) -> None:
    """The exit was written down before the process was let go, so even both may die now."""
    host = hosts(env=points.env)
    points.arm(point)
    host.python("a.1", "import sys; print('out'); sys.exit(9)")
    pid = points.reached(point)
    if victim == "both":
        host.kill()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    later = hosts(env=points.env) if victim == "both" else host
    ended = later.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 9)
    assert later.read("a.1") == b"out\n"
    assert later.event_names("a.1").count("exec") == 1


@pytest.mark.parametrize(("point", "grace"), [("F22", 30.0), ("F23", 0.1)])
@pytest.mark.parametrize("victim", ["supervisor", "both"])
def test_killed_while_stopping(hosts: Hosts, points: Points, point: str, grace: float, victim: str) -> None:
    """The wish is on disk: whoever comes next fulfils it, and calls it by its name."""
    host = hosts(env=points.env)
    points.arm(point)
    host.python("a.1", FAMILY)
    child = int(wait_for(lambda: host.read("a.1").strip()))
    host.ask("stop", job="a.1", grace=grace, fence=1)
    pid = points.reached(point)
    if victim == "both":
        host.kill()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    later = hosts(env=points.env) if victim == "both" else host
    later.ask("stop", job="a.1", grace=0.1, fence=1)
    assert later.wait("a.1")["reason"] == "stopped"
    assert not is_alive(child)


def test_a_disk_that_recovers_gets_the_status(hosts: Hosts, points: Points) -> None:
    host = hosts(env=points.env)
    points.arm("F16")
    host.start("a.1", ["sh", "-c", "exit 3"])
    points.reached("F16")
    points.go("F16", "No space left on device")
    assert host.wait("a.1")["exit_code"] == 3


def test_a_supervisor_that_stumbles_is_replaced(hosts: Hosts, points: Points) -> None:
    host = hosts(env=points.env)
    points.arm("F11")
    host.python("a.1", OBEDIENT, "4")
    points.reached("F11")
    points.go("F11", "a bug of ours")
    wait_for(lambda: "adopted" in host.event_names("a.1"))
    let_go(host, "a.1")
    assert host.wait("a.1")["exit_code"] == 4
    assert "a bug of ours" in (host.folder("a.1") / "claim/errors.txt").read_text()


def test_an_error_in_the_host_ends_the_request_not_the_host(hosts: Hosts, points: Points) -> None:
    host = hosts(env=points.env)
    points.arm("F10")
    number = host.send("start", run=host.run_json("a.1", ["sh", "-c", "exit 3"]))
    points.reached("F10")
    points.go("F10", "something broke")
    assert host.answer(number)[0]["error"] == {"code": "failed", "message": "something broke"}
    assert host.observe("a.1")["startable"] is True
    assert host.start("a.1", ["sh", "-c", "exit 3"])["claimed"] is True
    assert host.wait("a.1")["exit_code"] == 3


def test_a_machine_without_room_for_a_process_starts_the_job_later(hosts: Hosts, tmp_path: Path) -> None:
    program = tmp_path / "poor_host.py"
    program.write_text(f"""
import os, sys
sys.path.insert(0, {str(RUNNER.parent)!r})
fork = os.fork
def fails_once():
    os.fork = fork
    raise BlockingIOError(11, "no more processes")
os.fork = fails_once
from runner.__main__ import main
sys.exit(main())
""")
    host = hosts(program=program)
    with pytest.raises(RequestRefused, match="no more processes"):
        host.start("a.1", ["true"])
    assert host.observe("a.1")["startable"] is True
    assert host.start("a.1", ["true"])["claimed"] is True
    assert host.wait("a.1")["exit_code"] == 0


def test_two_hosts_of_one_machine_share_it(hosts: Hosts) -> None:
    """An old host may linger while a new server's host is at work already."""
    old, new = hosts(), hosts()
    begin(old)
    assert new.observe("a.1")["phase"] == "running"
    run = new.run_json("a.1", ["{python}", "train.py", "7"], {"train.py": OBEDIENT.encode()})
    assert new.ask("start", run=run)[0]["claimed"] is False
    let_go(new, "a.1")
    assert new.wait("a.1") == old.wait("a.1")
    assert executions(new, "a.1") == 1


def test_a_host_that_was_stopped_ends_with_its_connection_once_another_host_comes(hosts: Hosts) -> None:
    stopped = hosts()
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        stopped.hang_up()
        hosts()
        assert stopped.wait_end() == 0
    finally:
        stopped.kill()


def test_a_start_that_comes_after_its_job_was_cleaned_up_starts_nothing(hosts: Hosts) -> None:
    """It may wait for long in the pipe of a host that hangs, until its run was canceled through another one."""
    slow, quick = hosts(), hosts()
    run = quick.run_json("demo_1.1", ["{python}", "train.py"], {"train.py": b"pass"})
    os.kill(slow.pid, signal.SIGSTOP)
    try:
        number = slow.send("start", run=run)
        quick.ask("clean", job="demo_1.1", nonce=run["nonce"])
    finally:
        os.kill(slow.pid, signal.SIGCONT)
    assert slow.answer(number)[0]["error"]["code"] == "stale"
    assert not quick.folder("demo_1.1").exists()
