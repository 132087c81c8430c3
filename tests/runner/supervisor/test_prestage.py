"""A job that is made ready ahead executes nothing before it is started, and then at once, and once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from windlass.runner.supervisor.prestage import forget_old
from windlass.runner.workdir.machine_folder import Machine

from ..conftest import Hosts
from ..environments.test_environment import built, counting_uv
from ..pipe import RUNNER, Host, RequestRefused, is_alive, wait_for

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
    pid = hold_till_ready(host)
    time.sleep(0.2)  # in which a script would have been executed
    seen = host.observe("a.1")
    assert (seen["phase"], seen["startable"]) == ("lost", True)
    assert not executed(host.root) and "exec" not in host.event_names("a.1")
    ask_for(host, False, fence=1, env={"NEW": "1"})
    ends_well(host)
    assert supervisor(host) == pid, "the one that was ready has done it"
    assert host.file("a.1", "run.json")["env"] == {"NEW": "1"}


def test_it_is_made_ready_once_and_started_once(host: Host) -> None:
    pid = hold(host)
    ask_for(host, True)
    assert supervisor(host) == pid and host.observe("a.1")["phase"] == "lost"
    for _ in range(3):
        ask_for(host, False)
    ask_for(host, True)  # a late request: it does not hold a running job
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
    first.wait_free("a.1")
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
    host.clean("a.1")
    wait_for(lambda: not is_alive(pid))
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
    host.wait_free("a.1")
    wait_for(lambda: host.observe("a.1").get("startable"))
    ask_for(host, False)
    ends_well(host)


# ---- the machine is switched off ----

WEEK = 7 * 86400


def hold_till_ready(host: Host) -> int:
    """As a server does it: no server has a lease on the run yet."""
    pid = hold(host, fence=0)
    wait_for(lambda: "ready" in host.event_names("a.1"))
    return pid


def switch_off(host: Host, end: Callable[[Host], object] = Host.kill) -> None:
    """All its processes are gone, and what they wrote is of an earlier boot."""
    pid = supervisor(host)
    end(host)
    if end is Host.kill:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    host.wait_free("a.1")
    for name in ("run.json", "claim/supervisor.json", "claim/process.json"):
        path = host.folder("a.1") / name
        if path.exists():
            path.write_text(json.dumps({**json.loads(path.read_text()), "boot_id": "an earlier one"}))


@pytest.mark.parametrize("end", [Host.close, Host.kill])
def test_one_that_was_never_started_is_started_after_a_reboot(hosts: Hosts, end: Callable[[Host], object]) -> None:
    first = hosts()
    hold_till_ready(first)
    switch_off(first, end)
    second = hosts()
    assert ask_for(second, True, fence=0)["claimed"] is False, "made ready again, it stays as it is"
    assert ask_for(second, False, fence=1)["claimed"] is True
    ends_well(second)


def test_so_is_one_whose_files_a_power_cut_has_emptied(hosts: Hosts) -> None:
    first = hosts()
    hold_till_ready(first)
    switch_off(first)
    for name in ("run.json", "claim/supervisor.json", "fence", "source/train.py"):
        (first.folder("a.1") / name).write_text("")
    second = hosts()
    assert ask_for(second, False, fence=1)["claimed"] is True
    ends_well(second)


def test_so_is_one_that_was_being_made_ready(hosts: Hosts, tmp_path: Path) -> None:
    first = hosts()
    uv = counting_uv(tmp_path, "exec sleep 600")
    hold(first, fence=0, **built(uv=uv))
    wait_for(lambda: (tmp_path / "calls").exists())
    switch_off(first)
    second = hosts()
    ask_for(second, False, fence=1)
    ends_well(second)


def test_a_start_by_a_later_owner_finds_a_lost_node(hosts: Hosts) -> None:
    """The first owner may have started it, and a power cut have taken all traces of that."""
    first = hosts()
    hold_till_ready(first)
    switch_off(first)
    second = hosts()
    assert ask_for(second, False, fence=2)["claimed"] is False
    assert second.wait("a.1")["reason"] == "node_lost" and not executed(second.root)


def test_one_that_was_started_before_the_reboot_is_not_started_again(hosts: Hosts) -> None:
    first = hosts()
    hold_till_ready(first)
    ask_for(first, False, fence=1)
    ends_well(first)
    switch_off(first)
    (first.folder("a.1") / "status.json").unlink()
    path = first.folder("a.1") / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "hold": True, "fence": 0}))
    second = hosts()
    assert ask_for(second, False, fence=1)["claimed"] is False
    assert second.wait("a.1")["reason"] == "node_lost" and executed(second.root) == "x"


def test_what_a_power_cut_took_is_not_taken_for_never_started_by_who_asks_first(hosts: Hosts) -> None:
    """A start whose answer was lost is repeated only after its owner has observed the job, which settles it."""
    first = hosts()
    hold_till_ready(first)
    shutil.copytree(first.folder("a.1"), first.root.parent / "as held")
    ask_for(first, False, fence=1)
    ends_well(first)
    switch_off(first)
    shutil.rmtree(first.folder("a.1"))
    shutil.copytree(first.root.parent / "as held", first.folder("a.1"))
    (first.root / "started/a.1").unlink()
    run = first.folder("a.1") / "run.json"
    run.write_text(json.dumps({**json.loads(run.read_text()), "boot_id": "an earlier one"}))
    second = hosts()
    assert second.observe("a.1")["phase"] == "running"  # and not "lost"
    assert second.wait("a.1")["reason"] == "node_lost"
    assert ask_for(second, False, fence=1)["claimed"] is False
    assert executed(second.root) == "x"


NOTES_SYNCS = """
import os, sys
sys.path.insert(0, {source!r})
sync = os.fsync
def note(fd):
    with open({notes!r}, "a") as file:
        print(os.path.basename(os.readlink(f"/proc/self/fd/{{fd}}")), file=file)
    sync(fd)
os.fsync = note
from runner.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(("fence", "syncs"), [(1, 1), (2, 2)])
def test_only_a_later_owner_waits_for_the_disk(hosts: Hosts, tmp_path: Path, fence: int, syncs: int) -> None:
    """A start by the first owner is not repeated by a later one, which has a higher fence. See prestage.py."""
    notes, program = tmp_path / "notes", tmp_path / "noting.py"
    program.write_text(NOTES_SYNCS.format(source=str(RUNNER.parent), notes=str(notes)))
    host = hosts(program=program)
    hold_till_ready(host)
    wait_for(lambda: notes.exists() and "events.jsonl" in notes.read_text())
    ask_for(host, False, fence=fence)
    ends_well(host)
    assert notes.read_text().split().count("events.jsonl") == syncs


# ---- it is not wanted any more ----

RUNS_AWAY = """
(setsid sh -c 'echo $$ >> {pids}; sleep 60; true' &)
sh -c 'echo $$ >> {pids}; sleep 60; true' &
wait
"""


def test_one_that_is_not_wanted_leaves_nothing_of_its_building(host: Host, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ask_for(host, True, fence=0, **built(uv=counting_uv(tmp_path, RUNS_AWAY.format(pids=pids))))
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    building = [int(pid) for pid in pids.read_text().split()]
    host.clean("a.1")
    wait_for(lambda: not any(is_alive(pid) for pid in building))
    assert not host.folder("a.1").exists()


def make_old(host: Host) -> None:
    os.utime(host.folder("a.1") / "run.json", (0, time.time() - WEEK - 60))


def test_one_that_nobody_has_come_back_to_goes(hosts: Hosts) -> None:
    first = hosts()
    pid = hold_till_ready(first)
    first.close()
    wait_for(lambda: not is_alive(pid))
    first.wait_free("a.1")
    young = hosts()
    assert young.folder("a.1").exists()
    make_old(young)
    assert young.close() == 0
    later = hosts()
    wait_for(lambda: not later.folder("a.1").exists() and not os.listdir(later.root / "trash"))
    assert ask_for(later, False)["claimed"] is True, "its run may wait to this day"
    ends_well(later)


def test_one_that_goes_is_young_in_the_trash(tmp_path: Path) -> None:
    """Its container is removed with it, which is retried for a week."""
    machine = Machine(str(tmp_path))
    machine.make()
    folder = machine.folder("a.1")
    folder.make(is_built=False)
    folder.claim()
    Path(folder.at("run.json")).write_text('{"hold": true}')
    for path in (folder.at("run.json"), folder.path):
        os.utime(path, (0, time.time() - WEEK - 60))
    forget_old(machine)
    [gone] = (tmp_path / "trash").iterdir()
    assert not folder.exists and time.time() - gone.stat().st_mtime < 3600


def test_one_that_is_held_or_has_an_end_stays(hosts: Hosts) -> None:
    first = hosts()
    hold_till_ready(first)
    make_old(first)
    second = hosts()
    second.ask("stop", job="a.1", grace=1)
    assert second.wait("a.1")["reason"] == "stopped"
    make_old(second)
    assert hosts().wait("a.1")["reason"] == "stopped"
