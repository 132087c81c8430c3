"""Ranks of a distributed run: their number, their nodes and their variables."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

HOST = "127.0.0.1"  # the nodes of a run are shares of one machine
MASTER_PORT = 6105
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # inherited by an executed program unless reset
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")

TakePorts = Callable[[int, int], List[int]]  # first port, count


class Rank(NamedTuple):
    """One process of a run."""

    number: int
    node: int
    env: Mapping[str, str] = {}
    is_waited_for: bool = True  # a parameter server never ends by itself


class Settings(NamedTuple):
    """Settings of the launcher: run.json's distribution, the nodes, and the folders of logs and reports."""

    framework: str
    nodes: List[Dict[str, Any]]
    logs: str
    reports: str
    grace: float
    processes_per_node: int = 1
    process_count: int = 0
    workers: int = 1
    parameter_servers: int = 0

    @property
    def log_of_run(self) -> str:
        return f"{self.logs}/std_log.txt"

    def log_of(self, rank: int) -> str:
        return f"{self.logs}/std_log_process_{rank}.txt"

    def name_of(self, rank: Rank) -> str:
        """The rank's name in messages: "Rank 3 on the node cpu-cluster-1a2b"."""
        node = self.nodes[rank.node]["name"] or str(rank.node)
        return f"Rank {rank.number}" + (f" on the node {node}" if len(self.nodes) > 1 else "")


def read_settings(given: Mapping[str, Any]) -> Settings:
    known = {name: given[name] for name in Settings._fields if given.get(name) is not None}
    return Settings(**known)


def with_node_variables(settings: Settings, ranks: Sequence[Rank]) -> List[Rank]:
    """The ranks with the variables of their nodes, which are the same for all frameworks."""
    count = {"AZUREML_NODE_COUNT": str(len(settings.nodes))}
    return [
        rank._replace(env={"NODE_RANK": str(rank.node), **count, **settings.nodes[rank.node]["env"], **rank.env})
        for rank in ranks
    ]


def one_on_each_node(settings: Settings, take_ports: TakePorts) -> List[Rank]:
    """Without a framework: one rank on each node, with the address of the first one."""
    [port] = take_ports(MASTER_PORT, 1)
    return [Rank(number, number, master(port)) for number in range(len(settings.nodes))]


def master(port: int) -> Dict[str, str]:
    return {"MASTER_ADDR": HOST, "MASTER_PORT": str(port), "AZ_BATCH_MASTER_NODE": f"{HOST}:{port}"}


def expand_variables(words: Sequence[str], env: Mapping[str, str]) -> List[str]:
    """The argv of a rank, with `$LOCAL_RANK` and other variables of the launcher expanded, unless it is a shell."""
    if os.path.basename(words[0]) in _SHELLS:
        return list(words)
    names = "|".join(re.escape(name) for name in sorted(env, key=len, reverse=True))
    pattern = re.compile(rf"\$(?:{{({names})}}|({names})(?!\w))")
    return [pattern.sub(lambda found: env[found.group(1) or found.group(2)], word) for word in words]


def exec_rank(settings: Settings, rank: Rank, words: Sequence[str]) -> None:
    """Execute the rank in this process, with its node's cgroup, its log and its variables. Does not return."""
    try:
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        for file in settings.nodes[rank.node]["join"]:
            with open(file, "w", encoding="ascii") as procs:
                procs.write("0")
        path = settings.log_of_run if rank.number == 0 else settings.log_of(rank.number)
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        for standard in (1, 2):
            os.dup2(log, standard)
        os.execvpe(words[0], expand_variables(words, rank.env), {**os.environ, **rank.env})
    except OSError as e:
        os.write(2, f"windlass: {settings.name_of(rank)} cannot be started: {e}\n".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def report(path: str, line: Mapping[str, Any]) -> None:
    """Append a line to a file that several processes write."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, json.dumps(line).encode("ascii") + b"\n")
    finally:
        os.close(fd)
