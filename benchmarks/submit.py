"""Benchmark of a submit: until the script's first statement, and until the caller has the run's end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.home import temporary_home
from benchmarks.rounds import Effort, median, take_turns
from benchmarks.row import Row, at_most, over_bare

SCRIPT = "import time; print('first', time.time_ns(), flush=True)\n"


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds since the submit: the script's first statement, its line seen, its end known."""

    first: float
    seen: float
    end: float


def sdk(effort: Effort) -> Iterator[Row]:
    """A warm SDK against a warm server, as in a notebook."""
    from windlass import Experiment, ScriptRunConfig, Workspace

    with temporary_home(), tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(SCRIPT, encoding="utf-8")
        experiment = Experiment(Workspace.from_config(), "benchmark")
        config = ScriptRunConfig(source_directory=folder, script="train.py")

        def ours() -> Times:
            start = time.time_ns()
            run = experiment.submit(config)
            run.wait_for_completion()
            end = time.time_ns()
            log = Path(folder).parent / f"{Path(folder).name}.log"
            run.download_file("user_logs/std_log.txt", str(log))
            first = int(log.read_text(encoding="utf-8").split()[1])
            log.unlink()
            return _times(start, first, end, end)

        bare, with_us = take_turns(effort.times(40, 5), lambda: bare_times(folder), ours, warm_up=3)
    yield _row("SDK: submit to the script's first statement", bare, with_us, "first", 30)
    yield _row("SDK: submit to the end known by the caller", bare, with_us, "end", 45)


def cli(effort: Effort) -> Iterator[Row]:
    """A cold `windlass submit` in a terminal against a warm server."""
    with temporary_home(), tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(SCRIPT, encoding="utf-8")
        command = [str(Path(sys.executable).with_name("windlass")), "submit", "train.py"]
        bare, ours = take_turns(
            effort.times(25, 3), lambda: bare_times(folder), lambda: _in_terminal(command, folder), warm_up=2
        )
    thing = "`python train.py`"
    for what, part, budget in (("first line seen", "seen", 150), ("end", "end", 200)):
        numbers = [median([getattr(times, part) for times in side]) for side in (bare, ours)]
        yield Row(f"cold `windlass submit` to the {what}", numbers[1], "ms", numbers[0], thing, at_most(budget))


def bare_times(folder: str) -> Times:
    return _in_terminal([sys.executable, "train.py"], folder)


def _in_terminal(command: list[str], folder: str) -> Times:
    """Run a command whose output goes to a terminal, and read that terminal."""
    master, terminal = pty.openpty()
    with closing(os.fdopen(master, "rb", buffering=0)) as screen:
        start = time.time_ns()
        process = subprocess.Popen(command, cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        shown, seen = b"", 0
        while chunk := _read(screen.fileno()):
            shown += chunk
            if not seen and b"first " in shown and b"\n" in shown.partition(b"first ")[2]:
                seen = time.time_ns()
        code = process.wait()
        end = time.time_ns()
    if code != 0 or not seen:
        raise RuntimeError(f"{command} ended with {code} after: {shown.decode(errors='replace')}")
    return _times(start, int(shown.partition(b"first ")[2].split()[0]), seen, end)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the terminal's other end is closed
        return b""


def _times(start: int, first: int, seen: int, end: int) -> Times:
    return Times(*[(moment - start) / 1e6 for moment in (first, seen, end)])


def _row(what: str, bare: list[Times], ours: list[Times], part: str, budget: float) -> Row:
    numbers = [median([getattr(times, part) for times in side]) for side in (bare, ours)]
    return Row(what, numbers[1], "ms", numbers[0], "`python train.py`", over_bare(budget))


MEASURES = (sdk, cli)
