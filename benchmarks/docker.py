"""Benchmark of runs in containers, against `docker run` of the same image on the same engine."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.home import temporary_home
from benchmarks.rounds import Effort, median, take_turns
from benchmarks.row import Row, over_bare
from tests.engines.dockerd import Dockerd
from tests.engines.images import PYTHON
from tests.wheels import make_wheel

SCRIPT = "import time; print(time.time_ns(), flush=True)\n"


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds since the submit: the script's first statement, its end known."""

    first: float
    end: float


def run(effort: Effort) -> Iterator[Row]:
    """A warm SDK against a warm server: one run after the other in a container."""
    with surroundings() as (engine, folder):
        ours = submitter(folder)
        bare, with_us = take_turns(effort.times(20, 3), lambda: _bare(engine, folder), ours, warm_up=2)
    for what, part in (("first statement", "first"), ("end known by the caller", "end")):
        numbers = [median([getattr(times, part) for times in side]) for side in (bare, with_us)]
        budget = over_bare(150) if part == "first" else None
        yield Row(f"Docker: submit to the script's {what}", numbers[1], "ms", numbers[0], "`docker run`", budget)


def packages(effort: Effort) -> Iterator[Row]:
    """The same with packages in an image that was built before: the cost of finding it."""
    from windlass import CondaDependencies, Environment

    with surroundings() as (_, folder):
        wheel = make_wheel(folder.parent, "tinypackage", "1.0", "answer = 42\n")
        environment = Environment("packages")
        environment.python.conda_dependencies = CondaDependencies.create(pip_packages=[str(wheel)])
        plain, built = submitter(folder), submitter(folder, environment=environment)
        bare, with_packages = take_turns(effort.times(20, 3), plain, built, warm_up=2)
    numbers = [median([times.first for times in side]) for side in (bare, with_packages)]
    what = "Docker: submit with an unchanged environment to the first statement"
    yield Row(what, numbers[1], "ms", numbers[0], "without packages", over_bare(50))


@contextmanager
def surroundings() -> Iterator[tuple[Dockerd, Path]]:
    """An engine, a server with a target for it, and a folder with a script."""
    with ExitStack() as stack:
        engine = Dockerd.make()
        stack.callback(engine.remove)
        engine.start()
        engine.load(PYTHON)
        engine.docker("tag", PYTHON, "python:3.11-slim")
        stack.enter_context(_variable("DOCKER_HOST", engine.address))
        stack.enter_context(temporary_home())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "source"
        folder.mkdir()
        (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
        yield engine, folder


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def submitter(folder: Path, **more: Any) -> Callable[[], Times]:
    from windlass import Experiment, ScriptRunConfig, Workspace

    experiment = Experiment(Workspace.from_config(), "benchmark")
    config = ScriptRunConfig(str(folder), "train.py", compute_target="docker", **more)
    log = folder.parent / "log"

    def submit() -> Times:
        start = time.time_ns()
        run = experiment.submit(config)
        run.wait_for_completion()
        end = time.time_ns()
        run.download_file("user_logs/std_log.txt", str(log))
        return _times(start, log.read_text(encoding="utf-8"), end)

    return submit


def _bare(engine: Dockerd, folder: Path) -> Times:
    argv = ["docker", "--host", engine.address, "run", "--rm", "--network", "none", "--volume", f"{folder}:{folder}"]
    start = time.time_ns()
    done = subprocess.run(
        [*argv, "--workdir", str(folder), PYTHON, "python3", "-u", "train.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    return _times(start, done.stdout, time.time_ns())


def _times(start: int, said: str, end: int) -> Times:
    return Times((int(said.split()[0]) - start) / 1e6, (end - start) / 1e6)


MEASURES = (run, packages)
