"""A folder of many files on its way to the target."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.home import temporary_home
from benchmarks.rounds import Effort, median, take_turns
from benchmarks.row import Budget, Row, at_most

SCRIPT = "import time; print(time.time_ns(), flush=True)\n"
FILE_BYTES = 10_000


def changed(effort: Effort) -> Iterator[Row]:
    """One changed file in 1,000, then the script starts there."""
    count = effort.times(1000, 100)
    yield from _compare(
        f"one changed file in {count:,}, then start there", count, effort.times(15, 3), True, at_most(150)
    )


def unchanged(effort: Effort) -> Iterator[Row]:
    """An unchanged snapshot of 10,000 files."""
    count = effort.times(10_000, 300)
    yield from _compare(f"unchanged snapshot of {count:,} files, then start there", count, effort.times(5, 2), False)


def _compare(what: str, count: int, rounds: int, is_changed: bool, budget: Budget | None = None) -> Iterator[Row]:
    from windlass import Experiment, ScriptRunConfig, Workspace

    with temporary_home(), tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        source = Path(here, "source")
        _fill(source, count)
        experiment = Experiment(Workspace.from_config(), "benchmark")
        config = ScriptRunConfig(source_directory=str(source), script="train.py")
        turn = iter(range(1_000_000))

        def after_change(act: Callable[[], Any]) -> Any:
            if is_changed:
                source.joinpath("part0", "file0.bin").write_bytes(f"{next(turn)}".encode().ljust(FILE_BYTES))
            return act()

        sides = take_turns(
            rounds,
            lambda: after_change(lambda: _bare(source, Path(there, "copy"))),
            lambda: after_change(lambda: _ours(experiment, config, here)),
        )
        acknowledged = median([first for first, _ in sides[1]])
    numbers = [median([started for _, started in side]) for side in sides]
    thing = f"`{_mirror('', '')[0]}`, then `python`"
    note = f"Submit returns after {acknowledged:.0f} ms."
    yield Row(what, numbers[1], "ms", numbers[0], thing, budget, note)


def _fill(source: Path, count: int) -> None:
    source.mkdir()
    source.joinpath("train.py").write_text(SCRIPT, encoding="utf-8")
    for number in range(count - 1):
        folder = source / f"part{number // 100}"
        folder.mkdir(exist_ok=True)
        folder.joinpath(f"file{number % 100}.bin").write_bytes(f"{number} ".encode() * (FILE_BYTES // 5))


def _mirror(source: str, copy: str) -> list[str]:
    if shutil.which("rsync"):
        return ["rsync", "-a", "--delete", f"{source}/", f"{copy}/"]
    return ["cp", "-auT", source, copy]


def _bare(source: Path, copy: Path) -> tuple[float, float]:
    """Into the same folder each time, as people do who have no records."""
    start = time.time_ns()
    subprocess.run(_mirror(str(source), str(copy)), check=True)
    mirrored = time.time_ns()
    printed = subprocess.run([sys.executable, "train.py"], cwd=copy, check=True, capture_output=True).stdout
    return (mirrored - start) / 1e6, (int(printed) - start) / 1e6


def _ours(experiment: Any, config: Any, folder: str) -> tuple[float, float]:
    start = time.time_ns()
    run = experiment.submit(config)
    acknowledged = time.time_ns()
    run.wait_for_completion()
    log = Path(folder, "std_log.txt")
    run.download_file("user_logs/std_log.txt", str(log))
    return (acknowledged - start) / 1e6, (int(log.read_text(encoding="utf-8")) - start) / 1e6


MEASURES = (changed, unchanged)
