"""Benchmark of sending a folder of many files to the target."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.home import temporary_home
from benchmarks.rounds import Effort, median, take_turns
from benchmarks.row import Row, at_most

SCRIPT = "import time; print(time.time_ns(), flush=True)\n"
MIRROR = "`rsync`" if shutil.which("rsync") else "`cp -au`"


def changed(effort: Effort) -> Iterator[Row]:
    """One changed file in 1,000, then the script starts there."""
    count = effort.times(1000, 100)

    def change(source: Path) -> None:
        source.joinpath("part0", "file0.bin").write_bytes(secrets.token_bytes(10_000))

    mirrored, started = _compare(count, 10_000, effort.times(15, 3), change)
    what = f"one changed file in {count:,}"
    yield Row(f"{what}, until submit returns", mirrored[1], "ms", mirrored[0], MIRROR)
    yield Row(f"{what}, then start there", started[1], "ms", started[0], f"{MIRROR}, then `python`", at_most(150))


def unchanged(effort: Effort) -> Iterator[Row]:
    """An unchanged snapshot of 10,000 files."""
    count = effort.times(10_000, 300)
    with no_file_limit():
        mirrored, started = _compare(count, 1_000, effort.times(5, 2), lambda source: None)
    what = f"unchanged snapshot of {count:,} files"
    yield Row(f"{what}, until submit returns", mirrored[1], "ms", mirrored[0], MIRROR)
    yield Row(f"{what}, then start there", started[1], "ms", started[0], f"{MIRROR}, then `python`")


@contextmanager
def no_file_limit() -> Iterator[None]:
    os.environ["AML_SNAPSHOT_NO_FILE_LIMIT"] = "True"
    try:
        yield
    finally:
        del os.environ["AML_SNAPSHOT_NO_FILE_LIMIT"]


def _compare(count: int, size: int, rounds: int, change: Callable[[Path], None]) -> tuple[list[float], list[float]]:
    """Bare and ours: milliseconds until the files are handed over, and until the script runs there."""
    from windlass import Experiment, ScriptRunConfig, Workspace

    with temporary_home(), tempfile.TemporaryDirectory() as folder:
        source, copy, log = Path(folder, "source"), Path(folder, "copy"), Path(folder, "log.txt")
        fill(source, count, size)
        experiment = Experiment(Workspace.from_config(), "benchmark")
        config = ScriptRunConfig(source_directory=str(source), script="train.py")

        def bare() -> tuple[float, float]:
            change(source)
            return _bare(source, copy)

        def ours() -> tuple[float, float]:
            change(source)
            return _ours(experiment, config, log)

        sides = take_turns(rounds, bare, ours)
    return [median([handed for handed, _ in side]) for side in sides], [
        median([at for _, at in side]) for side in sides
    ]


def fill(source: Path, count: int, size: int) -> None:
    source.mkdir(exist_ok=True)
    source.joinpath("train.py").write_text(SCRIPT, encoding="utf-8")
    for number in range(count - 1):
        folder = source / f"part{number // 100}"
        folder.mkdir(exist_ok=True)
        folder.joinpath(f"file{number % 100}.bin").write_bytes(secrets.token_bytes(size))


def _mirror(source: Path, copy: Path) -> list[str]:
    if MIRROR == "`rsync`":
        return ["rsync", "-a", "--delete", f"{source}/", f"{copy}/"]
    return ["cp", "-auT", str(source), str(copy)]


def _bare(source: Path, copy: Path) -> tuple[float, float]:
    """The baseline: rsync into the same folder each time."""
    start = time.time_ns()
    subprocess.run(_mirror(source, copy), check=True)
    mirrored = time.time_ns()
    printed = subprocess.run([sys.executable, "train.py"], cwd=copy, check=True, capture_output=True).stdout
    return (mirrored - start) / 1e6, (int(printed) - start) / 1e6


def _ours(experiment: Any, config: Any, log: Path) -> tuple[float, float]:
    start = time.time_ns()
    run = experiment.submit(config)
    acknowledged = time.time_ns()
    run.wait_for_completion()
    log.unlink(missing_ok=True)
    run.download_file("user_logs/std_log.txt", str(log))
    return (acknowledged - start) / 1e6, (int(log.read_text(encoding="utf-8")) - start) / 1e6


MEASURES = (changed, unchanged)
