"""The server is restarted; runs, followers and scripts go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdk.conftest import Project
from windlass import Experiment, Run, ScriptRunConfig, Workspace
from windlass.client.http import embedded_server

SCRIPT = """
import os, time
from windlass import Run
run = Run.get_context()
for i in range(10):
    print("line", i, flush=True)
    run.log("i", i)
    if i == 4:
        open(os.environ["MARK"], "w").close()
        while not os.path.exists(os.environ["MARK"] + ".go"):
            time.sleep(0.01)
assert run.get_status() == "Running"
with run.child_run("after") as child:
    child.log("x", 1)
print("end")
"""

FOLLOWER = """
import sys
from windlass import Workspace
Workspace.from_config().get_run(sys.argv[1]).wait_for_completion(show_output=True)
"""


def test_a_server_is_killed_while_somebody_follows(
    lone_home: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    monkeypatch.chdir(tmp_path)
    ws = Workspace.from_config()
    config = ScriptRunConfig(project(train=SCRIPT), "train.py")
    config.run_config.environment_variables = {"MARK": str(mark)}
    run = Experiment(ws, "restart").submit(config)
    follower = subprocess.Popen([sys.executable, "-c", FOLLOWER, run.id], stdout=subprocess.PIPE, text=True)
    assert follower.stdout is not None
    seen = ""
    while "line 4" not in seen:
        line = follower.stdout.readline()
        assert line, seen
        seen += line
    first = embedded_server.read(str(lone_home))
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    (tmp_path / "mark.go").touch()
    seen += follower.communicate(timeout=120)[0]
    lines = seen.splitlines()
    start = lines.index("line 0")
    assert lines[start : start + 11] == [*(f"line {i}" for i in range(10)), "end"]
    assert seen.count("line 3") == 1
    second = embedded_server.read(str(lone_home))
    assert second is not None
    assert second.pid != first.pid
    found = Run.get(ws, run.id)
    assert found.get_status() == "Completed"
    assert found.get_metrics() == {"i": list(range(10))}
    assert [child.get_metrics() for child in found.get_children()] == [{"x": 1}]


def test_many_that_start_at_once_share_one_server(lone_home: Path, tmp_path: Path) -> None:
    program = "from windlass import Workspace; w = Workspace.from_config(); print(w._session.address.url)"
    racers = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
        for _ in range(8)
    ]
    urls = {racer.communicate()[0].strip() for racer in racers}
    server = embedded_server.read(str(lone_home))
    assert server is not None
    assert urls == {server.url}


def test_a_server_that_cannot_start_is_told_in_a_few_lines(lone_home: Path, tmp_path: Path) -> None:
    lone_home.mkdir(mode=0o700)
    (lone_home / "windlass.sqlite").write_bytes(b"this is not a database" * 100)
    program = "from windlass import Workspace\nWorkspace.from_config()"
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "CannotStart: The server could not start: " in done.stderr
    assert str(lone_home / "server.log") in done.stderr
