"""Clusters on this computer, with a real server and real runs."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.sampling import examples
from windlass.testing import wait_until

COUNTS = """
import os, sys, time
with open(os.environ["STARTS"], "a") as file:
    file.write(os.environ["WINDLASS_RUN_ID"] + "\\n")
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path / "home")
    yield made
    made("server", "stop")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(COUNTS)
    return folder


def create(shell: Shell, *options: str) -> None:
    made = shell("compute", "create", "cluster", "cpu", "--vm-size", "STANDARD_D1_V2", *options)
    assert made.code == 0, made.err


def nodes(shell: Shell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shell("compute", "show", "--json", "cpu").json["nodes"]
    return found


def submit(shell: Shell, project: Path, seconds: float) -> str:
    starts = f"STARTS={project / 'starts'}"
    done = shell(
        "submit",
        "-c",
        "cpu",
        "--detach",
        "--json",
        "-e",
        "demo",
        "--env",
        starts,
        "train.py",
        str(seconds),
        cwd=project,
    )
    assert done.code == 0, done.err
    return str(done.json["id"])


def states(shell: Shell, runs: list[str]) -> list[str]:
    listed = shell("runs", "--json", "-n", "1000").json
    found = {run["id"]: run["state"] for run in (listed["runs"] if isinstance(listed, dict) else listed)}
    return [found[run] for run in runs]


def test_from_zero_and_back(shell: Shell, project: Path) -> None:
    create(shell, "--max-nodes", "2", "--idle-seconds", "0")
    assert nodes(shell) == []
    runs = [submit(shell, project, 0.2) for _ in range(3)]
    wait_until(lambda: states(shell, runs) == ["Completed"] * 3, "all runs end")
    wait_until(lambda: nodes(shell) == [], "idle nodes go")
    assert sorted((project / "starts").read_text().split()) == sorted(runs)


def test_a_cluster_with_runs_is_deleted_by_force_and_leaves_nothing(shell: Shell, project: Path) -> None:
    create(shell, "--max-nodes", "1")
    runs = [submit(shell, project, 60), submit(shell, project, 60)]
    wait_until(lambda: (project / "starts").exists(), "the first run starts")
    refused = shell("compute", "delete", "cpu")
    assert refused.code != 0 and "2 runs" in refused.err
    assert shell("compute", "delete", "cpu", "--force").code == 0
    wait_until(lambda: states(shell, runs) == ["Canceled"] * 2, "the runs are canceled")
    wait_until(lambda: shell("compute", "show", "cpu").code == 3, "the cluster is gone")


def test_a_server_that_is_killed_while_it_scales_starts_no_run_twice(shell: Shell, project: Path) -> None:
    create(shell, "--max-nodes", "3", "--idle-seconds", "0")
    chance, runs = random.Random(5), []
    for _ in range(max(3, examples(20))):
        runs += [submit(shell, project, chance.random() / 4) for _ in range(chance.randrange(1, 3))]
        os.kill(shell.status()["pid"], signal.SIGKILL)
    wait_until(lambda: states(shell, runs) == ["Completed"] * len(runs), "all runs end")
    assert sorted((project / "starts").read_text().split()) == sorted(runs)
    wait_until(lambda: nodes(shell) == [], "idle nodes go")
    assert json.loads(shell("compute", "list", "--json").out)
