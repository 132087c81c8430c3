"""A bar appears for people who wait, and for nobody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell, Terminal
from windlass.client.http import progress

SLOW = """
import time
from windlass.cli.context import CommandContext
from windlass.cli.output.progress import progress
with progress(CommandContext(), "Sending the folder", 100) as advance:
    for _ in range(4):
        advance(25)
        time.sleep({pause})
print("done")
"""


@pytest.mark.parametrize(("pause", "is_drawn"), [(0.3, True), (0.0, False)])
def test_a_bar_for_those_who_wait(tmp_path: Path, pause: float, is_drawn: bool) -> None:
    code = [sys.executable, "-c", SLOW.format(pause=pause)]
    terminal = Terminal(Shell(tmp_path), cwd=tmp_path, command=code)
    assert terminal.end() == 0
    assert ("Sending the folder" in terminal.seen) is is_drawn
    assert terminal.text.endswith("done\n")


def test_nothing_in_a_pipe_for_what_takes_a_moment(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SLOW.format(pause=0.3)], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"done\n", b"")


def test_a_line_every_ten_seconds_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr("windlass.client.http.progress.time.monotonic", lambda: next(clock))
    with progress.progress("Downloading weights.bin") as shown:
        shown.expect(1000_000)
        for _ in range(10):
            shown.advance(100_000)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 5
    assert all(line.startswith("Downloading weights.bin: ") and " kB of 1.0 MB" in line for line in lines[:-1])


def test_without_a_stderr_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(progress, "LINE_EVERY_SECONDS", 0.0)
    with progress.progress("Downloading", 10) as shown:
        shown.advance(10)
