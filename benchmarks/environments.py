"""Benchmark of runs whose environment was built before: it must cost them nothing."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.home import temporary_home
from benchmarks.rounds import Effort, median, take_turns
from benchmarks.row import Row, over_bare

SCRIPT = "import time; print(time.time_ns(), flush=True)\n"


def unchanged(effort: Effort) -> Iterator[Row]:
    """Runs whose environment was built before, against the same runs on an existing interpreter."""
    from windlass import CondaDependencies, Environment, Experiment, ScriptRunConfig, Workspace

    built = Environment("built")
    built.python.conda_dependencies = CondaDependencies.create(
        python_version=f"{sys.version_info[0]}.{sys.version_info[1]}"
    )
    with temporary_home(), tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(SCRIPT, encoding="utf-8")
        experiment = Experiment(Workspace.from_config(), "benchmark")

        def first_statement(environment: Environment | None) -> float:
            began = time.time_ns()
            run = experiment.submit(ScriptRunConfig(folder, "train.py", environment=environment))
            run.wait_for_completion()
            log = Path(folder).parent / f"{Path(folder).name}.log"
            run.download_file("user_logs/std_log.txt", str(log))
            first = int(log.read_text(encoding="utf-8"))
            log.unlink()
            return (first - began) / 1e6

        began = time.monotonic()
        first_statement(built)
        note = f"The first one took {time.monotonic() - began:.1f} s: it built the environment, without packages."
        without, with_one = take_turns(
            effort.times(30, 4), lambda: first_statement(None), lambda: first_statement(built), warm_up=2
        )
    yield Row(
        "second run with an unchanged environment, to its first statement",
        median(with_one),
        "ms",
        median(without),
        "the same run on an interpreter that is there",
        over_bare(50),
        note,
    )


MEASURES = (unchanged,)
