"""Benchmark of a script's calls to the server through the relay, against calls from a script on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.rounds import Effort, median
from benchmarks.row import Row, over_bare
from benchmarks.ssh import rig

# A call that the machine is not involved in, and the download of a file that the server has.
SCRIPT = """
import os, sys, time
from windlass import Run, Workspace
count, size = int(sys.argv[1]), int(sys.argv[2])
call = Workspace.from_config()._session.call
times = []
for _ in range(count + 10):
    start = time.perf_counter()
    call("GET", "/workspaces/default")
    times.append((time.perf_counter() - start) * 1e3)
with open("large", "wb") as file:
    file.write(os.urandom(size))
with Run.get_context().child_run() as child:
    child.upload_file("large", "large")
    start = time.perf_counter()
    child.download_file("large", "again")
    seconds = time.perf_counter() - start
print(sorted(times[10:])[count // 2], size / 1e6 / seconds)
"""


def calls(effort: Effort) -> Iterator[Row]:
    """A call from the script and its answer; a file that it downloads."""
    size = effort.times(50, 5) << 20
    with rig() as there:
        there.bring("train.py", SCRIPT)
        said: dict[str, list[tuple[float, float]]] = {"local": [], "box": []}
        for _ in range(effort.times(5, 1)):
            for target, numbers in said.items():
                config = there.config("train.py", str(effort.times(300, 50)), str(size), target=target)
                numbers.append(_numbers(there.experiment.submit(config), there.folder))
    (bare, bare_pace), (ours, pace) = ([median(each) for each in zip(*said[side], strict=True)] for side in said)
    thing = "the same on `local`, straight to the server"
    yield Row("SSH: a script's call to the server, through the relay", ours, "ms", bare, thing, over_bare(5))
    yield Row(f"SSH: a script downloads {size >> 20} MB, through the relay", pace, "MB/s", bare_pace, thing)


def _numbers(run: Any, folder: Path) -> tuple[float, float]:
    run.wait_for_completion()
    log = folder / "log.txt"
    log.unlink(missing_ok=True)
    run.download_file("user_logs/std_log.txt", str(log))
    milliseconds, pace = log.read_text(encoding="utf-8").split()
    return float(milliseconds), float(pace)


MEASURES = (calls,)
