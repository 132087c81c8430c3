"""Scripts that harm their own folder, by accident: they run once, are seen to run, can be stopped, and end truly."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from .conftest import Hosts
from .pipe import Host, is_alive, wait_for

EMPTY = "[shutil.rmtree(e.path) if e.is_dir() else os.unlink(e.path) for e in os.scandir(F)]"
HARM = {
    "folder emptied": EMPTY,
    "folder removed": "shutil.rmtree(F)",
    "folder made anew": f"{EMPTY}; os.makedirs(F + '/metrics')",
    "claim removed": "shutil.rmtree(F + '/claim')",
    "lock removed": "os.unlink(F + '/claim/lock')",
    "lock not readable": "os.unlink(F + '/claim/lock'); os.symlink('lock', F + '/claim/lock')",
    "story removed": "os.unlink(F + '/events.jsonl')",
}


def harm(host: Host, tmp_path: Path, deed: str) -> None:
    """Start a script that does this to its folder and then waits to be let go."""
    script = f"""
import os, shutil, sys, time
F = os.environ["WINDLASS_RUN_FOLDER"]
# A supervisor that writes there while it is being removed would be in the way.
while b'"running"' not in open(F + "/events.jsonl", "rb").read(): time.sleep(0.01)
{deed}
with open("{tmp_path}/ledger", "a") as ledger: ledger.write("x")
while not os.path.exists("{tmp_path}/go"): time.sleep(0.01)
os._exit(6)
"""
    run = host.run_json("a.1", ["{python}", "train.py"], {"train.py": script.encode()})
    host.ask("start", run=run)
    wait_for((tmp_path / "ledger").exists)
    host.ask("watch", jobs=["a.1"])  # has it looked at now
    assert not host.answer(host.send("start", run=run))[0].get("claimed")


@pytest.mark.parametrize("deed", HARM.values(), ids=HARM)
def test_a_script_that_harms_its_folder_runs_once_and_is_seen_to_run(host: Host, tmp_path: Path, deed: str) -> None:
    harm(host, tmp_path, deed)
    host.start("b.1", ["true"])
    assert host.wait("b.1")["exit_code"] == 0
    a, b = host.ask("observe", jobs=["a.1", "b.1"])[0]["jobs"]
    assert (a["phase"], b["phase"]) == ("running", "ended")
    (tmp_path / "go").touch()
    assert host.wait("a.1")["exit_code"] == 6
    assert (tmp_path / "ledger").read_text() == "x"
    host.ask("clean", job="a.1")
    assert not host.folder("a.1").exists()


@pytest.mark.parametrize("deed", [HARM["folder emptied"], HARM["folder removed"], HARM["claim removed"]])
def test_a_script_that_harms_its_folder_can_be_stopped(host: Host, tmp_path: Path, deed: str) -> None:
    harm(host, tmp_path, deed)
    host.ask("stop", job="a.1", grace=5, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"


@pytest.mark.parametrize("deed", [HARM["folder emptied"], HARM["folder removed"], HARM["story removed"]])
def test_without_folder_and_supervisor_a_script_is_ended_and_its_end_unknown(
    hosts: Hosts, tmp_path: Path, deed: str
) -> None:
    host = hosts()
    harm(host, tmp_path, deed)
    [supervisor] = host.root.glob("started/*")
    pid = json.loads(supervisor.read_text())["pid"]
    [script] = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    host.kill()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    later = hosts()
    if deed == HARM["story removed"]:  # it has still signed its name, so it is adopted
        wait_for(lambda: later.observe("a.1")["phase"] == "running" and "adopted" in later.event_names("a.1"))
        (tmp_path / "go").touch()
    ended = later.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exit_unknown", None)
    assert not is_alive(script)
    assert (tmp_path / "ledger").read_text() == "x"
