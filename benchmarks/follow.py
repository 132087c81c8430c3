"""Benchmark of the log stream: from a line that the script prints to a client that follows it."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.home import API, Api, temporary_home
from benchmarks.rounds import Effort, median, p99
from benchmarks.row import Row, at_most

# Waits first, so that the client follows before the first line is printed.
SCRIPT = """
import sys, time
time.sleep(0.5)
for _ in range(int(sys.argv[1])):
    print(time.time_ns(), flush=True)
    time.sleep(float(sys.argv[2]))
"""


def lines(effort: Effort) -> Iterator[Row]:
    """From line printed to line received by a client through the server, 100 lines a second."""
    bare, ours = _both(effort, effort.times(300, 50), pause=0.01)
    thing = "a pipe"
    yield Row("line printed to line seen by a follower, p99", p99(ours), "ms", p99(bare), thing, at_most(50))
    yield Row("the same, median", median(ours), "ms", median(bare), thing)


def lines_after_a_pause(effort: Effort) -> Iterator[Row]:
    """The same for a line after a pause of 100 ms."""
    bare, ours = _both(effort, effort.times(100, 20), pause=0.1)
    yield Row("line after a pause to line seen by a follower, median", median(ours), "ms", median(bare), "a pipe")


def _both(effort: Effort, count: int, pause: float) -> tuple[list[float], list[float]]:
    """How long each line took, through a pipe and through the server."""
    from windlass import Experiment, ScriptRunConfig, Workspace

    arguments = [str(count), str(pause)]
    bare: list[float] = []
    ours: list[float] = []
    with temporary_home() as home, tempfile.TemporaryDirectory() as folder:
        Path(folder, "talk.py").write_text(SCRIPT, encoding="utf-8")
        experiment = Experiment(Workspace.from_config(), "benchmark")
        config = ScriptRunConfig(source_directory=folder, script="talk.py", arguments=arguments)
        for _ in range(effort.times(3, 1)):
            bare += _through_pipe(folder, arguments)
            run = experiment.submit(config)
            ours += through_server(home.api(), run.id)
            run.wait_for_completion()
    return bare, ours


def _through_pipe(folder: str, arguments: list[str]) -> list[float]:
    command = [sys.executable, "talk.py", *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        return [(time.time_ns() - int(line)) / 1e6 for line in process.stdout]


def through_server(api: Api, run_id: str) -> list[float]:
    connection = http.client.HTTPConnection(api.netloc, timeout=60)
    connection.request("GET", f"{API}{api.workspace}/runs/{run_id}/stream?log=auto&offset=0", headers=api.headers)
    latencies = []
    rest = b""
    for data, now in _logs(connection.getresponse()):
        *whole, rest = (rest + data).split(b"\n")
        latencies += [(now - int(line)) / 1e6 for line in whole]
    connection.close()
    return latencies


def _logs(stream: http.client.HTTPResponse) -> Iterator[tuple[bytes, int]]:
    """The bytes of each `log` event and when they came."""
    kind = ""
    while line := stream.readline():
        now = time.time_ns()
        field, _, value = line.decode().strip().partition(": ")
        if field == "event":
            kind = value
        elif field == "data" and kind == "log":
            yield base64.b64decode(json.loads(value)["data"]), now
        elif field == "data" and kind == "end":
            return


MEASURES = (lines, lines_after_a_pause)
