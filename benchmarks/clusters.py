"""Benchmark of clusters on this computer: zero nodes, an idle node, short runs, idle nodes, long queues, restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks.home import Api, Home, temporary_home
from benchmarks.rounds import Effort, median, milliseconds, take_turns
from benchmarks.row import Row, at_least, at_most, over_bare, times_bare
from benchmarks.submit import SCRIPT, bare_times
from benchmarks.throughput import CLIENTS, submits_a_second
from tests.server.clusters.fake_nodes import FakeNodes, fake_kind
from tests.server.real import real_server
from windlass import drivers

if TYPE_CHECKING:
    from windlass import ScriptRunConfig

NAME = "cpu"
FAKE = "fake-cluster"
PATIENCE = 60.0


def first_line(effort: Effort) -> Iterator[Row]:
    """From submit to the script's first statement, on a cluster without nodes and on an idle node."""
    what = "submit to the script's first statement, cluster"
    yield from _first_line(f"{what} from zero nodes", 0, effort, 150)
    yield from _first_line(f"{what} on an idle node", 3600, effort, 40)


def _first_line(what: str, idle_seconds: int, effort: Effort, budget: float) -> Iterator[Row]:
    from windlass import Experiment, Workspace

    with temporary_home() as home, tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(SCRIPT, encoding="utf-8")
        api = home.api()
        create(api, max_nodes=2, idle_seconds_before_scaledown=idle_seconds)
        experiment = Experiment(Workspace.from_config(), "benchmark")
        config = _script(folder, "train.py")

        def ours() -> float:
            if idle_seconds == 0:
                until(lambda: not nodes(api))
            start = time.time_ns()
            run = experiment.submit(config)
            run.wait_for_completion()
            log = Path(folder).parent / f"{Path(folder).name}.log"
            run.download_file("user_logs/std_log.txt", str(log))
            first = int(log.read_text(encoding="utf-8").split()[1])
            log.unlink()
            return (first - start) / 1e6

        bare, with_us = take_turns(effort.times(15, 3), lambda: bare_times(folder).first, ours, warm_up=2)
    yield Row(what, median(with_us), "ms", median(bare), "`python train.py`", over_bare(budget))


def short_runs(effort: Effort) -> Iterator[Row]:
    """100 runs of 50 ms on a cluster of two nodes, each with record and logs."""
    from windlass import Experiment, Workspace

    count = effort.times(100, 10)
    with temporary_home() as home, tempfile.TemporaryDirectory() as folder:
        Path(folder, "nap.py").write_text("import time; time.sleep(0.05); print('slept')\n", encoding="utf-8")
        create(home.api(), min_nodes=2, max_nodes=2)
        experiment = Experiment(Workspace.from_config(), "benchmark")
        config = _script(folder, "nap.py")

        def ours() -> None:
            for run in [experiment.submit(config) for _ in range(count)]:
                run.wait_for_completion()

        xargs = ["xargs", "-P", "2", "-n", "1", sys.executable, "nap.py"]
        numbers = "\n".join(map(str, range(count))).encode()

        def bare() -> None:
            subprocess.run(xargs, cwd=folder, input=numbers, stdout=subprocess.DEVNULL, check=True)

        sides = take_turns(effort.times(3, 1), lambda: milliseconds(bare), lambda: milliseconds(ours))
    times = [median(side) for side in sides]
    yield Row(f"{count} runs of 50 ms on two nodes", times[1], "ms", times[0], "`xargs -P 2`", times_bare(1.35))


def idle_release(effort: Effort) -> Iterator[Row]:
    """From a script's end until the source has deleted the node, which fails now and then. The slowest counts."""
    idle, count = 1, effort.times(20, 2)
    source = FakeNodes(failing=0.05, failing_but_done=0.05, seed=3)
    with tempfile.TemporaryDirectory(prefix="windlass-benchmark-") as folder, _fake_kind(source):
        with real_server(Path(folder, "home")) as server:
            config = {"vm_size": "Standard_D1_v2", "max_nodes": 2, "idle_seconds_before_scaledown": idle}
            server.ask("POST", "/targets", {"name": NAME, "kind": FAKE, "config": config}, 201)
            seconds = [_release_seconds(Api(server.url, server.token), source) for _ in range(count)]
    what = f"an idle node of a source that fails now and then, deleted after {idle} s, slowest of {count}"
    yield Row(what, max(seconds), "s", None, "", at_most(idle + 2), f"Median {median(seconds):.2f} s.")


def _release_seconds(api: Api, source: FakeNodes) -> float:
    id = api.submit_to(NAME, ["true"])
    until(lambda: api.call("GET", f"/runs/{id}")["ended_at"] is not None)
    until(lambda: not source.made)
    gone_at = time.time()
    ended: str = api.call("GET", f"/runs/{id}")["ended_at"]
    return gone_at - datetime.fromisoformat(ended).timestamp()


@contextmanager
def _fake_kind(source: FakeNodes) -> Iterator[None]:
    """Register a kind of cluster with these nodes, as if a package provided it."""
    before, found = drivers._registered, {FAKE: SimpleNamespace(load=lambda: fake_kind(source))}
    drivers._registered = lambda: found  # type: ignore[assignment]
    try:
        yield
    finally:
        drivers._registered = before


def long_queue(effort: Effort) -> Iterator[Row]:
    """10,000 runs in the queue of a cluster: submits, a listing, memory."""
    count = effort.times(10_000, 500)
    with temporary_home() as home:
        api = home.api()
        create(api, max_nodes=1)
        api.submit_to(NAME, ["sleep", "600"])
        rate = submits_a_second(api, count, NAME)
        yield Row(f"durable submits a second to a queue of {count:,}", rate, "/s", None, "", at_least(500),
                  f"{CLIENTS} clients.")  # fmt: skip
        later = home.api()  # a new connection: the old one was idle for too long
        listed = sorted(
            milliseconds(lambda: later.call("GET", "/runs?limit=100")) for _ in range(effort.times(200, 20))
        )
        yield Row("a listing of 100 of them, p99", listed[int(len(listed) * 0.99)], "ms", None, "", at_most(50))
        yield Row("memory of the server", _memory_mb(home), "MB")


def restart(effort: Effort) -> Iterator[Row]:
    """kill -9 with 1,000 active runs, 100 running and 900 queued: time until the next server has taken over all."""
    running, queued = effort.times(100, 5), effort.times(900, 20)
    with temporary_home() as home:
        api = home.api()
        api.set_slots(running)
        for _ in range(running + queued):
            api.submit(["sleep", "600"])
        until(lambda: api.call("GET", "/runs?state=Running&limit=1000")["runs"].__len__() == running)
        os.kill(home.pid, signal.SIGKILL)
        assert home.process is not None
        home.process.wait()
        start = time.perf_counter()
        home.start()
        later = home.api()
        until(lambda: _is_reconciled(later, running))
        seconds = time.perf_counter() - start
    yield Row(f"restart with {running + queued:,} active runs, until all are observed", seconds, "s", None, "",
              at_most(10))  # fmt: skip


def _is_reconciled(api: Api, running: int) -> bool:
    """One more run is dispatched as soon as one that runs is canceled: the server has taken them over."""
    found = api.call("GET", "/runs?state=Running&limit=1000")["runs"]
    if len(found) != running:
        return False
    api.call("POST", f"/runs/{found[0]['id']}/cancel", {})
    until(lambda: api.call("GET", f"/runs/{found[0]['id']}")["state"] == "Canceled")
    return True


def _script(folder: str, script: str) -> ScriptRunConfig:
    """A run with the interpreter that the baseline uses."""
    from windlass import ScriptRunConfig

    config = ScriptRunConfig(source_directory=folder, script=script, compute_target=NAME)
    config.run_config.environment.python.user_managed_dependencies = True
    config.run_config.environment.python.interpreter_path = sys.executable
    return config


def create(api: Api, **config: Any) -> None:
    body = {"name": NAME, "kind": "cluster", "config": {"vm_size": "Standard_D1_v2", **config}}
    api.call("POST", "/targets", body)
    until(lambda: api.call("GET", f"/targets/{NAME}")["provisioning_state"] == "Succeeded")
    least = config.get("min_nodes", 0)
    until(lambda: sum(node["state"] == "idle" for node in nodes(api)) >= least)


def nodes(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.call("GET", f"/targets/{NAME}/nodes")["nodes"]
    return found


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {PATIENCE:g} s")
        time.sleep(0.005)


def _memory_mb(home: Home) -> float:
    status = Path(f"/proc/{home.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


MEASURES = (first_line, short_runs, idle_release, long_queue, restart)
