"""`windlass wait` against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell, Terminal


@pytest.fixture
def started(shell: Shell, project: Path) -> Iterator[list[str]]:
    """Three runs: the second and third go on until the file `end` is there, with exit codes 4 and 5."""
    (project / "train.py").write_text(
        "import os, sys, time\ncode = int(sys.argv[2])\n"
        "while code and not os.path.exists(sys.argv[1]): time.sleep(0.02)\nsys.exit(code)"
    )
    end = str(project / "end")
    runs = [shell("submit", "-d", "train.py", end, code, cwd=project).out.strip() for code in ("0", "4", "5")]
    yield runs
    Path(end).touch()
    shell("wait", *runs)


def test_the_exit_code_is_of_the_first_that_failed(shell: Shell, project: Path, started: list[str]) -> None:
    first, second, third = started
    assert shell("wait", first).code == 0
    (project / "end").touch()
    done = shell("wait", third, first, second)
    assert done.code == 5
    lines = sorted(line.split()[:2] for line in done.out.splitlines())
    assert lines == sorted([[first[-8:], "Completed"], [second[-8:], "Failed"], [third[-8:], "Failed"]])
    assert shell("wait", first, second, third).code == 4


def test_any_and_a_time_limit(shell: Shell, started: list[str]) -> None:
    first, second, third = started
    done = shell("wait", "--any", third, first, second)
    assert (done.code, done.out.split()[:2]) == (0, [first[-8:], "Completed"])
    assert "2 runs go on." in done.err
    done = shell("wait", "--timeout", "1", second)
    assert (done.code, done.out) == (124, "")
    document = shell("wait", "--timeout", "1", "--json", first, second)
    assert [run["state"] for run in document.json["runs"]] == ["Completed", "Running"]
    assert document.code == 124


def test_a_terminal_shows_what_is_waited_for(shell: Shell, project: Path, started: list[str]) -> None:
    shown = Terminal(shell, "wait", *started, cwd=project)
    shown.wait_for("1 of 3 ended · 2 Running")
    (project / "end").touch()
    assert shown.end() == 4
    assert max(len(line.rpartition("\r")[2]) for line in shown.text.splitlines()) <= 80


def test_mistakes(shell: Shell) -> None:
    assert shell("wait", "no-such-run").code == 125
    done = shell("wait", "--timeout", "soon", "@last")
    assert (done.code, "'soon' is not a duration" in done.err) == (125, True)
    assert "Missing argument" in shell("wait").err
