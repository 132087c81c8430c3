"""Benchmark of start-up: commands, imports, the server and its memory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.home import Api, Home, temporary_home
from benchmarks.machine import children, pss_mb
from benchmarks.rounds import Effort, median, process_milliseconds, take_turns
from benchmarks.row import Row, at_most, over_bare
from windlass import compat

WINDLASS = str(Path(sys.executable).with_name("windlass"))
AZUREML_PATH = f"import sys; sys.path.insert(0, {compat.__path__[0]!r})"
SETTLE_SECONDS = 5.0


def client(effort: Effort) -> Iterator[Row]:
    """`windlass --help`, `import windlass` and `import azureml.core` in a fresh process."""
    commands = (
        [sys.executable, "-c", "pass"],
        [WINDLASS, "--help"],
        [sys.executable, "-c", "import windlass"],
        [sys.executable, "-c", "from windlass import Experiment, Run, ScriptRunConfig, Workspace"],
        [sys.executable, "-c", f"{AZUREML_PATH}; import azureml.core"],
        [sys.executable, "-c", f"{AZUREML_PATH}; from azureml.core import Workspace, Experiment, Run"],
    )
    contenders = [lambda command=command: process_milliseconds(command) for command in commands]
    sides = take_turns(effort.times(30, 5), *contenders, warm_up=2)
    bare, command_line, bare_import, names, azureml, azureml_names = [median(side) for side in sides]
    thing = "`python -c pass`"
    yield Row("`windlass --help`", command_line, "ms", bare, thing, at_most(100))
    yield Row("`import windlass`", bare_import, "ms", bare, thing, at_most(60))
    yield Row("`from windlass import` what a script uses", names, "ms", bare, thing)
    yield Row("`import azureml.core`", azureml, "ms", bare, thing, at_most(150))
    line = "`from azureml.core import Workspace, Experiment, Run`"
    yield Row(line, azureml_names, "ms", bare, thing, over_bare(30))


def server(effort: Effort) -> Iterator[Row]:
    """The server from spawn until it answers, and what it needs when idle."""
    times, memory, processor = [], [], []
    for _ in range(effort.times(5, 2)):
        with temporary_home(start=False) as home:
            times.append(home.start())
            _use_once(home)
            time.sleep(SETTLE_SECONDS)
            memory.append(_memory(home))
            processor.append(_idle_percent(home.pid))
    yield Row("server ready, from spawn", median(times), "ms", None, "", at_most(1000))
    parts = [median(side) for side in zip(*memory, strict=True)]
    note = f"PSS: {parts[0]:.0f} MB the server, {parts[1]:.0f} MB its host; {median(processor):.1f} % of one core."
    yield Row("server's idle memory, its host included", sum(parts), "MB", None, "", at_most(80), note)


def active(effort: Effort) -> Iterator[Row]:
    """The server's memory with 1,000 active runs."""
    count = effort.times(1000, 50)
    with temporary_home() as home:
        api = home.api()
        api.set_slots(count)
        start = time.perf_counter()
        for _ in range(count):
            api.submit(["sleep", "3600"])
        _wait_until_running(api, count)
        seconds = time.perf_counter() - start
        time.sleep(SETTLE_SECONDS)
        server_mb, host_mb = _memory(home)
        supervisors = [pss_mb(receipt["pid"]) for receipt in home.receipts("supervisor")]
        percent = _idle_percent(home.pid)
    note = (
        f"Each runs `sleep`; all were up after {seconds:.0f} s. PSS: {server_mb:.0f} MB the server, {host_mb:.0f} MB "
        f"its host; {percent:.0f} % of one core. On the target besides: {median(supervisors):.2f} MB a supervisor."
    )
    what = f"memory with {count:,} active runs, the host included"
    yield Row(what, server_mb + host_mb, "MB", None, "", at_most(250), note)


def _use_once(home: Home) -> None:
    """Let the server do some work first: one that never did any is smaller than real ones."""
    api = home.api()
    run = api.submit(["true"])
    while api.call("GET", f"/runs/{run}")["state"] not in ("Completed", "Failed"):
        time.sleep(0.01)


def _wait_until_running(api: Api, count: int) -> None:
    deadline = time.monotonic() + 180
    while len(api.call("GET", "/runs?state=Running&limit=1000")["runs"]) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all of {count} runs came up")
        time.sleep(0.2)


def _memory(home: Home) -> tuple[float, float]:
    """The memory of the server and of its own child processes, without those of runs."""
    return pss_mb(home.pid), sum(pss_mb(child) for child in children(home.pid))


def _idle_percent(pid: int) -> float:
    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before, start = ticks(), time.monotonic()
    time.sleep(SETTLE_SECONDS)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - start) * 100


MEASURES = (client, server, active)
