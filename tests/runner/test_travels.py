"""What travels to a target is Python 3.8 and needs nothing but the standard library: on every interpreter there is."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Hosts
from .pipe import RUNNER, make_zip, wait_for

PACKAGE = RUNNER.parent
# What may be imported of ours; the runner travels alone.
SDK = ("windlass", "windlass._version", "windlass.core", "windlass.client", "windlass.compat", "azureml")
ALLOWED = {"runner": ("windlass.runner",), "core": ("windlass.core",), "client": SDK, "compat": SDK}


def interpreters() -> list[str]:
    """This one, and whatever 3.8 or newer is installed beside it."""
    found = {f"3.{sys.version_info[1]}": sys.executable}
    for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3")):
        version = re.match(r"3\.(\d+)", path.parts[-3])
        if version and int(version.group(1)) >= 8:
            found.setdefault(f"3.{version.group(1)}", str(path))
    return list(found.values())


def sources() -> list[Path]:
    folders = [path for folder in ALLOWED for path in sorted((PACKAGE / folder).rglob("*.py"))]
    return [PACKAGE / "__init__.py", PACKAGE / "_version.py", *folders]


def imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            if module == "windlass":  # a module of the package; the names of the SDK have capitals
                yield from (f"windlass.{alias.name}" for alias in node.names if alias.name.islower())


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_source_is_old_python_and_stands_alone(path: Path) -> None:
    allowed = ALLOWED.get(path.relative_to(PACKAGE).parts[0], SDK)
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    package = ".".join(("windlass", *path.relative_to(PACKAGE).parts[:-1]))
    for name in imports(tree, package):
        is_ours = name in allowed or name.startswith(tuple(f"{ours}." for ours in allowed if ours != "windlass"))
        is_yaml = name.startswith("ruamel.yaml") and path.name == "yaml.py"  # when a file is read, with a clear error
        assert is_ours or is_yaml or name.split(".")[0] in sys.stdlib_module_names, f"{path} imports {name}"


@pytest.mark.parametrize("shape", ["folder", "zip"])
@pytest.mark.parametrize("python", interpreters())
def test_a_life_on_every_interpreter(hosts: Hosts, tmp_path: Path, python: str, shape: str) -> None:
    program = RUNNER if shape == "folder" else make_zip(tmp_path / "runner.pyz")
    host = hosts(python=python, program=program)
    script = """
import os, sys, time
print("hello from", sys.version_info[:2])
with open(os.environ["WINDLASS_RUN_FOLDER"] + "/metrics/w.jsonl", "a") as file: file.write('{"n": "loss", "v": 1}\\n')
open("outputs/model", "wb").write(b"\\0\\1")
while not os.path.exists("go"): time.sleep(0.005)
sys.exit(7)
"""
    environment = {"interpreter": python}
    host.python("a.1", script, environment=environment)
    host.python("b.1", script, environment=environment)
    wait_for(lambda: b"hello from (3, " in host.read("a.1") and host.read("b.1"))
    wait_for(lambda: host.read("a.1", "metrics/w.jsonl"))
    wait_for(lambda: any(e["event"] == "file_grew" and e["job"] == "a.1" for e in host.events))
    (host.folder("a.1") / "source/go").touch()
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 7)
    assert [file[:2] for file in ended["files"] if file[0].startswith("source/outputs")] == [
        ["source/outputs/model", 2]
    ]
    host.ask("stop", job="b.1", grace=5, fence=1)
    ended = host.wait("b.1")
    assert (ended["reason"], ended["signal"]) == ("stopped", 15)
    for job in ("a.1", "b.1"):
        host.ask("clean", job=job)
    assert host.close() == 0


def test_a_host_outlives_the_file_it_came_from(hosts: Hosts, tmp_path: Path) -> None:
    """A newer runner takes the name of the old one; what runs already must not look into it."""
    program = make_zip(tmp_path / "runner.pyz")
    host = hosts(program=program)
    (tmp_path / "other").write_bytes(b"another file" * 10_000)
    (tmp_path / "other").rename(program)
    host.start("a.1", ["sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; exit 9"])
    host.wait_running("a.1")
    os.kill(host.file("a.1", "claim/supervisor.json")["pid"], 9)
    wait_for(lambda: "adopted" in host.event_names("a.1"))
    (host.folder("a.1") / "source/go").touch()
    assert host.wait("a.1")["exit_code"] == 9
    host.start("b.1", ["true"], environment={"interpreter": None, "conda": ["x"]}, tools={"conda": "/no/conda"})
    ended = host.wait("b.1")
    assert ended["reason"] == "environment_failed"
    assert "/no/conda" in ended["message"]
    host.ask("clean", job="a.1")


@pytest.mark.parametrize("python", interpreters())
def test_a_killed_supervisor_on_every_interpreter(hosts: Hosts, python: str) -> None:
    host = hosts(python=python)
    host.start("a.1", ["sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; exit 9"])
    host.wait_running("a.1")
    os.kill(host.file("a.1", "claim/supervisor.json")["pid"], 9)
    wait_for(lambda: "adopted" in host.event_names("a.1"))
    (host.folder("a.1") / "source/go").touch()
    assert host.wait("a.1")["exit_code"] == 9


def test_one_job_in_the_foreground(hosts: Hosts) -> None:
    """For engines, which start one runner a job: `supervise` claims and owns it, and a second one steps back."""
    host = hosts()
    run = host.run_json("a.1", ["sh", "-c", "exit 3"])
    host.folder("a.1").mkdir(parents=True)
    for name in ("user_logs", "metrics", "calls", "uploads"):
        (host.folder("a.1") / name).mkdir()
    (host.folder("a.1") / "run.json").write_text(json.dumps(run))
    command = [sys.executable, "-IS", str(RUNNER), "supervise", "--root", str(host.root), "a.1"]
    assert subprocess.run(command, check=False).returncode == 0
    assert host.wait("a.1")["exit_code"] == 3
    assert subprocess.run(command, check=False).returncode == 0  # it has ended; nothing is left to do
    assert host.event_names("a.1").count("exec") == 1


def test_an_unknown_command_says_what_there_is() -> None:
    done = subprocess.run([sys.executable, "-IS", str(RUNNER), "nonsense"], capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"usage: ")


def test_a_login_shells_greeting_and_stray_prints_do_not_reach_the_pipe(hosts: Hosts) -> None:
    """The host keeps the pipe for itself: what a script of another library prints goes to stderr."""
    host = hosts()
    assert os.readlink(f"/proc/{host.pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{host.pid}/fd/1") == os.readlink(f"/proc/{host.pid}/fd/2")
