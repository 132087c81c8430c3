"""Benchmark of a machine reached by SSH, against `ssh` over a shared connection that is open already."""

from __future__ import annotations

import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.follow import SCRIPT as TALK
from benchmarks.follow import through_server
from benchmarks.home import Home, temporary_home
from benchmarks.rounds import Effort, milliseconds, p99, take_turns
from benchmarks.row import Row, at_most, over_bare, times_bare
from benchmarks.sync import fill, no_file_limit
from tests.hosts.host import Host
from tests.hosts.network import Network

SCRIPT = "import time; print(time.time_ns(), flush=True)\n"


class Shared:
    """The baseline: ssh over a connection that an earlier ssh keeps open."""

    def __init__(self, network: Network, host: Host, folder: Path) -> None:
        known = folder / "known_hosts"
        known.write_text(host.known_hosts(), encoding="ascii")
        self._host = host
        self._options = [
            "-F", "none", "-i", str(network.key.path), "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes",
            "-o", f"ControlPath={folder}/control", "-o", "ControlMaster=auto", "-o", "ControlPersist=60",
        ]  # fmt: skip
        self.where = f"{host.user}@{host.address}"

    def argv(self, *command: str) -> list[str]:
        return ["ssh", *self._options, self.where, *command]

    def run(self, *command: str) -> str:
        return subprocess.run(self.argv(*command), check=True, capture_output=True, text=True).stdout

    def mirror(self, source: Path, copy: str) -> None:
        shell = " ".join(["ssh", *self._options])
        command = ["rsync", "-a", "--delete", "-e", shell, f"{source}/", f"{self.where}:{copy}/"]
        subprocess.run(command, check=True)

    def close(self) -> None:
        subprocess.run(["ssh", *self._options, "-O", "exit", self.where], check=False, capture_output=True)


@contextmanager
def surroundings() -> Iterator[tuple[Home, Network, Path]]:
    with temporary_home() as home, tempfile.TemporaryDirectory() as folder, Network.made() as network:
        yield home, network, Path(folder)


@dataclass
class Rig:
    """One machine, attached as `box`, the baseline's connection to it, and a folder of scripts."""

    home: Home
    host: Host
    shared: Shared
    folder: Path
    source: Path
    experiment: Any

    def bring(self, name: str, text: str) -> None:
        """A script, for both sides."""
        for folder in (self.source, self.host.home):
            folder.joinpath(name).write_text(text, encoding="utf-8")

    def first(self, script: str = "train.py") -> float:
        return _first(self.experiment, self.config(script), self.folder)

    def config(self, script: str, *arguments: str, target: str = "box") -> Any:
        from windlass import ScriptRunConfig

        return ScriptRunConfig(str(self.source), script, list(arguments), compute_target=target)


@contextmanager
def rig() -> Iterator[Rig]:
    from windlass import Experiment, Workspace

    with surroundings() as (home, network, folder):
        host = network.host()
        shared = Shared(network, host, folder)
        source = folder / "source"
        source.mkdir()
        attach(network, host, "box")
        try:
            yield Rig(home, host, shared, folder, source, Experiment(Workspace.from_config(), "benchmark"))
        finally:
            shared.close()


def attach(network: Network, host: Host, name: str) -> Any:
    from windlass import Workspace
    from windlass.client.compute.attached.remote import RemoteCompute
    from windlass.client.compute.target import ComputeTarget

    config = RemoteCompute.attach_configuration(
        address=host.address, username=host.user, private_key_file=str(network.key.path)
    )
    return ComputeTarget.attach(Workspace.from_config(), name, config)


def login(effort: Effort) -> Iterator[Row]:
    """Attach: host key, credentials, inventory."""
    with surroundings() as (_, network, folder):
        host = network.host()
        argv = ["ssh", "-F", "none", "-i", str(network.key.path), "-o", "StrictHostKeyChecking=no", "-o",
                f"UserKnownHostsFile={folder}/known", f"{host.user}@{host.address}", "true"]  # fmt: skip
        count = iter(range(1000))
        bare, ours = take_turns(
            effort.times(5, 2),
            lambda: milliseconds(lambda: subprocess.run(argv, check=True, capture_output=True)),
            lambda: milliseconds(lambda: attach(network, host, f"box{next(count)}")),
        )
    yield Row("attach a machine by SSH", median(ours), "ms", median(bare), "one `ssh` login", at_most(3000))


def submit(effort: Effort) -> Iterator[Row]:
    """Warm pipe, warm SDK: submit to the script's first statement there."""
    with rig() as there:
        there.bring("train.py", SCRIPT)

        def bare() -> float:
            start = time.time_ns()
            return (int(there.shared.run("python3", "train.py")) - start) / 1e6

        sides = take_turns(effort.times(30, 5), bare, there.first, warm_up=3)
    thing = "`ssh host python train.py`, connection shared"
    yield Row("SSH: submit to the script's first statement", *_medians(sides), thing, over_bare(60))


def lines(effort: Effort) -> Iterator[Row]:
    """From line printed there to line received by a client here."""
    count = effort.times(300, 50)
    bare: list[float] = []
    ours: list[float] = []
    with rig() as there:
        there.bring("talk.py", TALK)
        arguments = [str(count), "0.01"]
        argv = there.shared.argv("python3", "talk.py", *arguments)
        for _ in range(effort.times(3, 1)):
            with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                bare += [(time.time_ns() - int(line)) / 1e6 for line in iter(process.stdout.readline, b"")]
            run = there.experiment.submit(there.config("talk.py", *arguments))
            ours += through_server(there.home.api(), run.id)
            run.wait_for_completion()
    yield Row("SSH: line printed to line seen by a follower, p99", p99(ours), "ms", p99(bare), "`ssh`", at_most(100))


def checks_in_a_burst(effort: Effort) -> Iterator[Row]:
    """A check of the machine while a log fills a line of 1 Mbit/s, and while the line is idle."""
    size = effort.times(6_000_000, 1_000_000)
    idle: list[float] = []
    busy: list[float] = []
    with rig() as there:
        there.bring("burst.py", f"import os\nfor i in range({size // 1000}): os.write(1, b'%09d ' % i * 100)\n")
        there.bring("train.py", SCRIPT)
        there.first()  # so that files that are sent once are there
        api = there.home.api()
        there.host.bandwidth(1000)
        idle += [milliseconds(lambda: api.call("POST", "/targets/box/check")) for _ in range(effort.times(20, 5))]
        run = there.experiment.submit(there.config("burst.py"))
        while run.get_status() not in ("Completed", "Failed"):
            busy.append(milliseconds(lambda: api.call("POST", "/targets/box/check")))
        run.wait_for_completion()
    yield Row(
        "SSH: check during a burst of log at 1 Mbit/s", median(busy), "ms", median(idle), "no burst", at_most(3000)
    )


def changed(effort: Effort) -> Iterator[Row]:
    """One changed file, then the script starts there: 1,000 files, and 10,000 files of 100 MB."""
    count = effort.times(1000, 100)
    sides = _changed(count, 10_000, effort.times(15, 3))
    thing = "`rsync`, then `ssh host python`"
    yield Row(f"SSH: one changed file in {count:,}, then start there", *_medians(sides), thing, at_most(150))
    count = effort.times(10_000, 300)
    with no_file_limit():
        sides = _changed(count, 10_000, effort.times(5, 2))
    yield Row(f"SSH: one changed file in {count:,}, then start there", *_medians(sides), thing, at_most(1000))


def _changed(count: int, size: int, rounds: int) -> list[list[float]]:
    with rig() as there:
        fill(there.source, count, size)

        def change() -> None:
            there.source.joinpath("part0", "file0.bin").write_bytes(secrets.token_bytes(size))

        def bare() -> float:
            change()
            start = time.time_ns()
            there.shared.mirror(there.source, "copy")
            return (int(there.shared.run("cd copy && python3 train.py")) - start) / 1e6

        def ours() -> float:
            change()
            return there.first()

        return take_turns(rounds, bare, ours)


def many(effort: Effort) -> Iterator[Row]:
    """20 machines, 5 of which do not answer: the effect on the others, interleaved with rounds in which all answer."""
    from windlass import Experiment, ScriptRunConfig, Workspace

    hosts, silent = effort.times(20, 6), effort.times(5, 2)
    with surroundings() as (_, network, folder):
        machines = [network.host(f"host{number}") for number in range(hosts)]
        source = folder / "source"
        source.mkdir()
        source.joinpath("train.py").write_text(SCRIPT, encoding="utf-8")
        for number, host in enumerate(machines):
            attach(network, host, f"box{number}")
        experiment = Experiment(Workspace.from_config(), "benchmark")
        configs = [
            ScriptRunConfig(source_directory=str(source), script="train.py", compute_target=f"box{number}")
            for number in range(hosts)
        ]
        for config in configs:
            _first(experiment, config, folder)  # from now on they are connected
        well: list[float] = []
        ill: list[float] = []
        for _ in range(effort.times(4, 2)):
            well += [_first(experiment, config, folder) for config in configs[silent:]]
            for host in machines[:silent]:
                host.cut()
            waiting = [experiment.submit(config) for config in configs[:silent] for _ in range(4)]
            ill += [_first(experiment, config, folder) for config in configs[silent:]]
            for host in machines[:silent]:
                host.heal()
            for run in waiting:
                run.wait_for_completion()
    what = f"SSH: submit to first statement, {silent} of {hosts} machines do not answer, median"
    yield Row(what, median(ill), "ms", median(well), "all answer", times_bare(1.1))


def _first(experiment: Any, config: Any, folder: Path) -> float:
    """Milliseconds from submit to what the script says."""
    start = time.time_ns()
    run = experiment.submit(config)
    run.wait_for_completion()
    log = folder / "log.txt"
    log.unlink(missing_ok=True)
    run.download_file("user_logs/std_log.txt", str(log))
    return (int(log.read_text(encoding="utf-8")) - start) / 1e6


def _medians(sides: list[list[float]]) -> tuple[float, str, float]:
    bare, ours = sides
    return median(ours), "ms", median(bare)


MEASURES = (login, submit, lines, checks_in_a_burst, changed, many)
