"""MpiConfiguration: starts the ranks with mpirun (Open MPI), each through a wrapper process.

The wrapper sets the rank's log and node, and reports its pid and its exit. So the launcher knows which rank failed
first, and ends the others with the run's grace: mpirun itself would give them a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..supervisor.script_process import Exit, exit_of
from ..system import process_tree
from ..system.process_tree import Process
from ..workdir.run_folder import read_whole
from .ranks import (
    HOST,
    IGNORED_BY_PYTHON,
    MASTER_PORT,
    Rank,
    Settings,
    TakePorts,
    exec_rank,
    read_settings,
    report,
    with_node_variables,
)

NO_MPIRUN = (
    "There is no mpirun on the PATH of {}, which a run with an MpiConfiguration needs. Install Open MPI there: "
    "apt-get install openmpi-bin (Debian, Ubuntu), dnf install openmpi (Fedora), or the conda package openmpi."
)
OUTPUT = "mpirun.txt"  # mpirun's own output, among the logs
_REPORTS = "ranks.jsonl"
# How long mpirun may run on after its ranks: if they ended by themselves, and if the launcher ended them.
_SETTLE_SECONDS, _ENDED_SECONDS = 10.0, 0.5
_SECRETS = "WINDLASS_SECRETS_FD"


def find_mpirun(env: Mapping[str, str], find_command: Callable[[str, Optional[str]], Optional[str]]) -> Optional[str]:
    """The path of mpirun; Open MPI's is preferred."""
    return find_command("mpirun.openmpi", env.get("PATH")) or find_command("mpirun", env.get("PATH"))


def ranks(settings: Settings, take_ports: TakePorts) -> List[Rank]:
    """The ranks. mpirun sets MPI's variables; those of the node are corrected here, since it sees one machine."""
    each = settings.processes_per_node
    [port] = take_ports(MASTER_PORT, 1)
    return [
        Rank(number, number // each, _variables(settings, number % each, port))
        for number in range(each * len(settings.nodes))
    ]


def _variables(settings: Settings, local: int, port: int) -> Dict[str, str]:
    on_one_node = {"AZ_BATCHAI_MPI_MASTER_NODE": HOST} if len(settings.nodes) == 1 else {}
    return {
        "AZ_BATCH_MASTER_NODE": f"{HOST}:{port}",
        **on_one_node,
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(settings.processes_per_node),
        "OMPI_COMM_WORLD_NODE_RANK": str(local),
    }


class MpiRanks:
    """The mpirun process, and the ranks that it has started."""

    def __init__(self, mpirun: str, given: Mapping[str, Any], settings: Settings, all_ranks: Sequence[Rank]) -> None:
        self._settings = settings
        self._mpirun = mpirun
        self._ranks = list(all_ranks)
        self._given = {**given, "launcher": os.getpid(), "port": _port_of(all_ranks[0])}
        self._reports = f"{settings.reports}/{_REPORTS}"
        self._output = f"{settings.logs}/{OUTPUT}"
        self._folder = tempfile.mkdtemp(prefix="windlass-mpi-")
        self._read = 0  # bytes of the reports
        self._processes: Dict[int, Process] = {}  # by rank
        self._ended: Dict[int, Exit] = {}
        self._signal = 0  # the last one that was sent to all
        self._settled_at: Optional[float] = None  # when the last rank ended
        self._pid = 0
        self.exit: Optional[Exit] = None  # mpirun's

    @property
    def is_over(self) -> bool:
        return self.exit is not None and len(self._ended) >= len(self._processes)

    def start(self, words: Sequence[str]) -> None:
        argv = [*self._command(), *_wrapped(self._given), *words]
        output = os.open(self._output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        actions = [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
        env = {**os.environ, "OMPI_MCA_plm_rsh_agent": "sh", "OMPI_MCA_orte_tmpdir_base": self._folder}
        self._pid = os.posix_spawn(
            self._mpirun, argv, env, file_actions=actions, setpgroup=0, setsigmask=(), setsigdef=IGNORED_BY_PYTHON
        )
        os.close(output)

    def _command(self) -> List[str]:
        """Ranks are not bound to cores, since runs share the machine. mpirun must not kill ranks within their grace."""
        patience = ["--mca", "odls_base_sigkill_timeout", str(int(self._settings.grace) + 10)]
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [
            self._mpirun, *root, "--oversubscribe", "--bind-to", "none", *patience, "-np", str(len(self._ranks))
        ]  # fmt: skip

    def ended(self) -> List[Tuple[Rank, Exit]]:
        """The ranks that have ended since the last call."""
        self._reap()
        dead = {number for number, process in self._processes.items() if not process_tree.is_alive(process)}
        known = set(self._ended)
        self._take_reports()  # after the check: a wrapper reports the exit before it ends
        for number in dead - set(self._ended):
            self._ended[number] = Exit(None, int(signal.SIGKILL))
        self._end_mpirun()
        return [(self._ranks[number], self._ended[number]) for number in sorted(set(self._ended) - known)]

    def signal(self, number: int) -> None:
        self._signal = number
        for rank in set(self._processes) - set(self._ended):
            self._send(self._processes[rank], number)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            if os.path.getsize(self._output) == 0:
                os.unlink(self._output)

    def _reap(self) -> None:
        if self.exit is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.exit = exit_of(status) if pid else None

    def _take_reports(self) -> None:
        for line in self._new_lines():
            event = json.loads(line)
            if "pid" in event:
                self._processes[event["rank"]] = process = Process(event["pid"], event["start"])
                if self._signal:
                    self._send(process, self._signal)
            else:
                self._ended[event["rank"]] = Exit(event["exit_code"], event["signal"])

    def _new_lines(self) -> List[bytes]:
        with contextlib.suppress(FileNotFoundError):
            text = read_whole(self._reports)[self._read :]
            whole = text[: text.rfind(b"\n") + 1]
            self._read += len(whole)
            return whole.splitlines()
        return []

    def _end_mpirun(self) -> None:
        """Kill mpirun if its ranks have ended: after a failure it waits long for ranks that it takes for alive."""
        is_idle = bool(self._processes) and len(self._ended) >= len(self._processes)
        if self.exit is not None or not is_idle or not (self._signal or len(self._ended) == len(self._ranks)):
            self._settled_at = None
        elif self._settled_at is None:
            self._settled_at = time.monotonic()
        elif time.monotonic() > self._settled_at + (_ENDED_SECONDS if self._signal else _SETTLE_SECONDS):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def _send(self, process: Process, number: int) -> None:
        if process_tree.is_alive(process):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)


def _port_of(rank: Rank) -> int:
    return int(rank.env["AZ_BATCH_MASTER_NODE"].rpartition(":")[2])


def _wrapped(given: Mapping[str, Any]) -> List[str]:
    return [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), "rank", json.dumps(given), "--"]


# ---- in the process that mpirun starts ----


def main(words: Sequence[str]) -> int:
    """Wrapper process: start the rank that mpirun assigned, and report its pid and its exit."""
    given = json.loads(words[0])
    settings = read_settings(given)
    number = int(os.environ["OMPI_COMM_WORLD_RANK"])
    rank = with_node_variables(settings, ranks(settings, lambda first, count: [given["port"]]))[number]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # meant for the rank, which is in our process group
    with contextlib.suppress(OSError):  # keep the group: then it is ended with mpirun
        os.setpgid(0, 0)
    _open_secrets(given["launcher"])
    own = process_tree.identify(os.getpid()) or Process(os.getpid(), 0)
    _report(settings, given["launcher"], {"rank": number, "pid": own.pid, "start": own.start})
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        exec_rank(settings, rank, words[2:])
    ended = exit_of(os.waitpid(pid, 0)[1])
    _report(settings, given["launcher"], {"rank": number, "exit_code": ended.exit_code, "signal": ended.signal})
    return 128 + ended.signal if ended.signal is not None else ended.exit_code or 0


def _report(settings: Settings, launcher: int, line: Mapping[str, Any]) -> None:
    report(f"{settings.reports}/{_REPORTS}", line)
    with contextlib.suppress(ProcessLookupError):
        os.kill(launcher, signal.SIGUSR1)


def _open_secrets(launcher: int) -> None:
    """Reopen the file of the run's secrets: mpirun closes its descriptor, the launcher has it open."""
    name = os.environ.get(_SECRETS, "")
    if name:
        with contextlib.suppress(OSError):  # the script says that it cannot read it
            fd = os.open(f"/proc/{launcher}/fd/{name}", os.O_RDONLY)
            os.dup2(fd, int(name))
