"""Benchmark of metrics: the cost of `run.log` for the script, and the time until a value can be read."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.home import Api, Home, temporary_home
from benchmarks.rounds import Effort, median
from benchmarks.row import Row, at_most, times_bare

# Both sides alternate in one process, and write to the file system of the run folder.
CALLS = """
import json, sys, time
from windlass import Run
run, calls, rounds = Run.get_context(), 2000, int(sys.argv[1])
lines = open("outputs/bare.txt", "a")

def bare():
    for number in range(calls):
        lines.write(f"loss {number * 0.5} {time.time()}\\n")
        lines.flush()

def ours():
    for number in range(calls):
        run.log("loss", number * 0.5)

times = {"bare": [], "ours": []}
for count in range(rounds + 1):
    for name, act in (("bare", bare), ("ours", ours)):
        start = time.perf_counter()
        act()
        if count:
            times[name].append((time.perf_counter() - start) / calls * 1e6)
print(json.dumps(times))
"""

MILLION = """
import sys, time
from windlass import Run
run = Run.get_context()
first = time.time_ns()
for number in range(int(sys.argv[1])):
    run.log("loss", float(number))
print(first, time.time_ns())
"""


def log(effort: Effort) -> Iterator[Row]:
    """`run.log()` in the script, a call."""
    with temporary_home(), tempfile.TemporaryDirectory() as folder:
        run = _submit(folder, CALLS, effort.times(20, 3))
        run.wait_for_completion()
        times = json.loads(_printed(run, folder))
    bare, ours = median(times["bare"]), median(times["ours"])
    yield Row("`run.log()`, a call", ours, "µs", bare, "append a line, flush", times_bare(2))


def million(effort: Effort) -> Iterator[Row]:
    """1,000,000 points of one run, until all can be read."""
    count = effort.times(1_000_000, 50_000)
    with temporary_home() as home, tempfile.TemporaryDirectory() as folder:
        bare = _bulk_insert(home, count)
        run = _submit(folder, MILLION, count)
        seen = _wait_for_last(home.api(), run.id, count)
        run.wait_for_completion()
        first, last = map(int, _printed(run, folder).split())
        found = home.api().call("GET", f"/runs/{run.id}/metrics/loss?max_points=1000")
        if found["count"] != count:
            raise RuntimeError(f"{found['count']} points of {count}")
        size = sum(path.stat().st_size for path in home.folder.glob("*.sqlite*")) / 2**20
    own = (last - first) / 1e9
    note = f"{own:.1f} s of it are the script's own calls; the database has {size:.0f} MB then."
    what = f"{count:,} points, first call until all can be asked for"
    yield Row(what, (seen - first) / 1e9, "s", bare, "bulk insert, same kind of database", at_most(10), note)
    yield Row("the same, from the script's last call", (seen - last) / 1e9, "s")


def _bulk_insert(home: Home, count: int) -> float:
    """One row per point, all in one transaction, into a plain table."""
    database = sqlite3.connect(home.folder / "bare.db", isolation_level=None)
    database.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE TABLE points (run TEXT, name TEXT, step INTEGER, at REAL, value REAL, PRIMARY KEY (run, name, step))"
    )
    start = time.perf_counter()
    database.execute("BEGIN IMMEDIATE")
    rows = (("run", "loss", number, time.time(), float(number)) for number in range(count))
    database.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?)", rows)
    database.execute("COMMIT")
    seconds = time.perf_counter() - start
    database.close()
    return seconds


def _wait_for_last(api: Api, run_id: str, count: int) -> int:
    """Wait until the list of runs shows the last value. It is the cheap request; the count is checked afterwards."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        runs = api.call("GET", f"/runs?search={run_id}&metrics=loss")["runs"]
        if runs and runs[0]["metrics"].get("loss") == count - 1:
            return time.time_ns()
        time.sleep(0.02)
    raise RuntimeError("the points did not come")


def _submit(folder: str, script: str, argument: int) -> Any:
    from windlass import Experiment, ScriptRunConfig, Workspace

    Path(folder, "train.py").write_text(script, encoding="utf-8")
    config = ScriptRunConfig(source_directory=folder, script="train.py", arguments=[str(argument)])
    return Experiment(Workspace.from_config(), "benchmark").submit(config)


def _printed(run: Any, folder: str) -> str:
    path = Path(folder, "std_log.txt")
    run.download_file("user_logs/std_log.txt", str(path))
    return path.read_text(encoding="utf-8")


MEASURES = (log, million)
