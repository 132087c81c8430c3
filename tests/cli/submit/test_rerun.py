"""`windlass rerun` against a real server: the same run again, and with changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell, Terminal

SCRIPT = """
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float, default=1.0)
parser.add_argument("--verbose", action="store_true")
parser.add_argument("--code", type=int, default=0)
found = parser.parse_args()
print(found.alpha, found.verbose, os.environ.get("GREETING"), open("data.txt").read())
sys.exit(found.code)
"""


@pytest.fixture
def earlier(shell: Shell, project: Path) -> dict[str, Any]:
    """A run with a script, a file, a variable, a tag and a name; the folder is changed afterwards."""
    (project / "data.txt").write_text("before")
    options = (
        "-e",
        "again",
        "-n",
        "base",
        "-t",
        "kind=x",
        "--env",
        "GREETING=hi",
        "--priority",
        "3",
        "--timeout",
        "1h",
    )
    (project / "train.py").write_text(SCRIPT)
    done = shell("submit", "--json", *options, "train.py", "--alpha", "0.1", cwd=project)
    assert done.code == 0, done.err
    (project / "data.txt").write_text("after")
    found: dict[str, Any] = done.json
    return found


def details(shell: Shell, run: str = "@last") -> dict[str, Any]:
    found: dict[str, Any] = shell("show", run, "--json").json
    return found


def test_the_same_again(shell: Shell, project: Path, earlier: dict[str, Any]) -> None:
    done = shell("rerun", earlier["id"], cwd=project)
    assert (done.code, done.out) == (0, "0.1 False hi before\n")
    assert "Again: train.py --alpha 0.1" in done.err
    first, again = details(shell, earlier["id"]), details(shell)
    assert again["id"] != first["id"]
    assert again["spec"] == first["spec"]
    for key in ("experiment", "name", "tags", "target", "snapshot"):
        assert again[key] == first[key], key
    assert again["properties"]["rerun_of"] == first["id"]
    assert f"Rerun of    {first['id']}" in shell("show", again["id"]).out


def test_changes(shell: Shell, project: Path, earlier: dict[str, Any]) -> None:
    line = ("rerun", earlier["id"], "--set", "alpha=0.2", "--set", "verbose", "-t", "more=1", "-n", "second", "-e",
            "other", "--env", "GREETING=bye", "--priority", "5", "--retries", "2", "--cpus", "0.5")  # fmt: skip
    done = shell(*line, cwd=project)
    assert (done.code, done.out) == (0, "0.2 True bye before\n"), done.err
    run = details(shell)
    assert (run["experiment"], run["name"], run["tags"]) == ("other", "second", {"kind": "x", "more": "1"})
    spec = run["spec"]
    assert (spec["priority"], spec["retries"]["count"], spec["resources"]["cpus"]) == (5, 2, 0.5)
    assert spec["max_run_duration_seconds"] == 3600, "what is not changed stays"
    assert spec["definition"]["arguments"] == spec["arguments"] == ["--alpha", "0.2", "--verbose"]


def test_all_arguments_are_replaced_and_the_exit_code_is_the_scripts(
    shell: Shell, project: Path, earlier: dict[str, Any]
) -> None:
    done = shell("rerun", earlier["id"], "-q", "--", "--code", "7", cwd=project)
    assert (done.code, done.out, done.err) == (7, "1.0 False hi before\n", "")
    assert shell("rerun", earlier["id"], "-q", "--", cwd=project).out == "1.0 False hi before\n"


def test_detached_and_waited_for(shell: Shell, project: Path, earlier: dict[str, Any]) -> None:
    done = shell("rerun", earlier["id"], "--detach", "--set", "code=4", cwd=project)
    assert done.code == 0
    assert shell("wait", done.out.strip()).code == 4


def test_a_dry_run_starts_nothing(shell: Shell, project: Path, earlier: dict[str, Any]) -> None:
    done = shell("rerun", earlier["id"], "--dry-run", "--set", "alpha=9", cwd=project)
    assert done.code == 0
    assert "train.py --alpha 9" in done.out
    assert details(shell)["id"] == earlier["id"]


def test_another_environment(shell: Shell, project: Path, earlier: dict[str, Any]) -> None:
    python = project / "my python"
    python.write_text("#!/bin/sh\necho through it\n")
    python.chmod(0o755)
    assert shell("rerun", earlier["id"], "-q", "--python", str(python), cwd=project).out == "through it\n"
    plan = shell("rerun", earlier["id"], "--dry-run", "--pip", "numpy==2.1.0", cwd=project)
    assert "numpy==2.1.0" in plan.out


def test_a_command_and_a_module_again(shell: Shell, project: Path) -> None:
    (project / "tool.py").write_text("import sys; print('tool', sys.argv[1:])")
    assert shell("submit", "-q", "--", "python", "tool.py", "a", cwd=project).out == "tool ['a']\n"
    assert shell("rerun", "-q", "@last", "--", "b", "c", cwd=project).out == "tool ['b', 'c']\n"
    assert shell("submit", "-q", "-m", "tool", "a", cwd=project).out == "tool ['a']\n"
    assert shell("rerun", "-q", "@last", "--set", "n=1", cwd=project).out == "tool ['a', '-n', '1']\n"


@pytest.mark.parametrize(
    ("line", "error", "hint"),
    [
        ("--alpha 0.2", "windlass rerun has no option --alpha.", "`--set alpha=0.2` changes one argument"),
        ("0.2", "0.2 follows RUN, which is one run.", "All of them follow --"),
        ("-c nowhere", "There is no target", "local"),
        ("--no-wait", "windlass rerun has no option --no-wait.", "--detach prints the run's id"),
        ("--source-directory .", "windlass rerun has no option --source-directory.", "`windlass submit` takes others"),
        ("--set =1", "--set takes KEY=VALUE", "--set alpha=0.2"),
        ("--environment tools --pip numpy", "--environment and --pip cannot be used together.", ""),
        ("--priority high", "'high' is not a whole number", ""),
    ],
)
def test_mistakes(shell: Shell, project: Path, earlier: dict[str, Any], line: str, error: str, hint: str) -> None:
    done = shell("rerun", earlier["id"], *line.split(), cwd=project)
    assert done.code == 125
    assert error in done.err and hint in done.err
    assert "Traceback" not in done.err
    assert details(shell)["id"] == earlier["id"]


def test_a_run_that_does_not_exist(shell: Shell, project: Path) -> None:
    done = shell("rerun", "no-such-run", cwd=project)
    assert (done.code, "There is no run no-such-run." in done.err) == (125, True)


def test_in_json(shell: Shell, project: Path, earlier: dict[str, Any]) -> None:
    done = shell("rerun", earlier["id"], "--json", cwd=project)
    assert (done.json["state"], done.json["properties"]["rerun_of"]) == ("Completed", earlier["id"])
    assert done.err == "0.1 False hi before\n" or "0.1 False hi before" in done.err


def test_at_a_terminal(shell: Shell, project: Path, earlier: dict[str, Any]) -> None:
    shown = Terminal(shell, "rerun", "@last", "--set", "alpha=0.3", cwd=project)
    assert shown.end() == 0
    assert "Again: train.py --alpha 0.3" in shown.text and "Completed after" in shown.text
