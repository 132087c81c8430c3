"""A bar appears for people who wait, and for nobody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell, Terminal

SLOW = """
import time
from windlass.cli.call import Call
from windlass.cli.progress import progress
with progress(Call(), "Sending the folder", 100) as advance:
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


def test_no_bar_in_a_pipe(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SLOW.format(pause=0.3)], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"done\n", b"")
