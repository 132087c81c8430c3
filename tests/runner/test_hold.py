"""A job that is made ready ahead executes nothing before it is started, and then at once, and once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Hosts
from .pipe import Host, RequestRefused, is_alive, wait_for

SCRIPT = "open('../../../executed', 'a').write('x')"


def ask_for(host: Host, is_held: bool, job: str = "a.1", **more: Any) -> dict[str, Any]:
    more = {**more, "hold": True} if is_held else more
    return host.start(job, ["{python}", "train.py"], {"train.py": SCRIPT.encode()}, **more)


def hold(host: Host, **more: Any) -> int:
    """Make it ready; the number of its supervisor."""
    ask_for(host, True, **more)
    wait_for(lambda: (host.folder("a.1") / "source" / "train.py").exists())
    pid: int = wait_for(lambda: (host.folder("a.1") / "claim/supervisor.json").exists() and supervisor(host))
    return pid


def supervisor(host: Host) -> int:
    return int(host.file("a.1", "claim/supervisor.json")["pid"])


def executed(root: Path) -> str:
    path = root / "executed"
    return path.read_text() if path.exists() else ""


def ends_well(host: Host) -> None:
    assert host.wait("a.1")["exit_code"] == 0
    assert executed(host.root) == "x"


def test_it_is_not_there_until_it_is_started(host: Host) -> None:
    pid = hold(host)
    seen = host.observe("a.1")
    assert (seen["phase"], seen["startable"]) == ("lost", True)
    assert not executed(host.root) and "exec" not in host.story("a.1")
    ask_for(host, False, fence=2, env={"NEW": "1"})
    ends_well(host)
    assert supervisor(host) == pid, "the one that was ready has done it"
    assert host.file("a.1", "run.json")["env"] == {"NEW": "1"}


def test_it_is_made_ready_once_and_started_once(host: Host) -> None:
    pid = hold(host)
    ask_for(host, True)
    assert supervisor(host) == pid and host.observe("a.1")["phase"] == "lost"
    for _ in range(3):
        ask_for(host, False)
    ask_for(host, True)  # told late: it does not hold what runs
    ends_well(host)


def test_a_start_is_not_missed_while_it_is_made_ready(host: Host) -> None:
    ask_for(host, True)
    ask_for(host, False)
    ends_well(host)


@pytest.mark.parametrize("end", [Host.close, Host.kill])
def test_without_its_host_it_goes_and_another_begins_anew(hosts: Hosts, end: Callable[[Host], object]) -> None:
    first = hosts()
    pid = hold(first)
    end(first)
    wait_for(lambda: not is_alive(pid))
    second = hosts()
    assert second.observe("a.1")["startable"] is True
    assert not executed(second.root)
    ask_for(second, False)
    ends_well(second)


def test_another_host_starts_it(hosts: Hosts) -> None:
    first, second = hosts(), hosts()
    pid = hold(first)
    ask_for(second, False)
    second.ask("watch", jobs=["a.1"])
    ends_well(second)
    assert supervisor(second) == pid


def test_one_whose_supervisor_was_killed_is_started_anew(host: Host) -> None:
    os.kill(hold(host), signal.SIGKILL)
    wait_for(lambda: ask_for(host, False) and executed(host.root))
    ends_well(host)


def test_one_that_is_not_wanted_any_more_leaves_nothing(host: Host) -> None:
    pid = hold(host)
    host.ask("clean", job="a.1")
    wait_for(lambda: not is_alive(pid) and not os.listdir(host.root / "trash"))
    assert not host.folder("a.1").exists()
    with pytest.raises(RequestRefused) as refused:
        ask_for(host, False)
    assert refused.value.code == "stale" and not executed(host.root)


def test_one_that_is_stopped_was_never_executed(host: Host) -> None:
    hold(host)
    host.ask("stop", job="a.1", grace=1)
    assert host.wait("a.1")["reason"] == "stopped"
    ask_for(host, False)
    assert host.wait("a.1")["reason"] == "stopped" and not executed(host.root)


def test_a_process_that_was_killed_while_it_waited_is_told_as_such(host: Host) -> None:
    pid = hold(host)
    [waiting] = wait_for(lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    os.kill(int(waiting), signal.SIGKILL)
    wait_for(lambda: not is_alive(int(waiting)))
    ask_for(host, False)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("signaled", signal.SIGKILL)
    assert not executed(host.root)


def test_the_waiting_process_goes_with_its_supervisor(host: Host) -> None:
    pid = hold(host)
    [waiting] = wait_for(lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(int(waiting)))
    wait_for(lambda: host.observe("a.1").get("startable"))
    ask_for(host, False)
    ends_well(host)
