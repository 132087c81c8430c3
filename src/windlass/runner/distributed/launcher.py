"""Launcher of a distributed run: starts its ranks and waits for them. The supervisor runs it in place of the script.

The first rank that fails decides how the run ends: it is named in the log, the others are ended (TERM, the run's grace,
KILL), and the launcher exits as it did. TERM to the launcher is passed on to all ranks, once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..supervisor.launch import find_command
from ..supervisor.script_process import Exit, exit_of
from ..workdir.run_folder import write_json
from . import mpi as mpi_ranks
from . import ports, pytorch, tensorflow
from .command import REPORT
from .mpi import NO_MPIRUN, OUTPUT, MpiRanks, find_mpirun
from .ranks import Rank, Settings, TakePorts, exec_rank, one_on_each_node, read_settings, with_node_variables

_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
_POLL_SECONDS = 0.5
_KILL_AGAIN_SECONDS = 1.0
_SHOWN_LINES, _SHOWN_BYTES = 20, 8192
_NOT_EXECUTED = 127

_MAKERS: Dict[str, Callable[[Settings, TakePorts], List[Rank]]] = {
    "": one_on_each_node,
    "mpi": mpi_ranks.ranks,
    "pytorch": pytorch.ranks,
    "tensorflow": tensorflow.ranks,
}


def main(words: Sequence[str]) -> int:
    """`launch SETTINGS -- COMMAND…`; docs/dev/runner.md has the settings."""
    given: Dict[str, Any] = json.loads(words[0])
    settings = read_settings(given)
    command = [sys.executable if words[2] == "{python}" else words[2], *words[3:]]
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    ranks = with_node_variables(settings, _MAKERS[settings.framework](settings, ports.take))
    processes = _processes(given, settings, ranks)
    if isinstance(processes, str):
        return _refuse(settings, processes)
    return _exit_like(Launcher(settings, ranks, processes).run(command))


def _processes(given: Mapping[str, Any], settings: Settings, ranks: List[Rank]) -> Union[MpiRanks, "ForkedRanks", str]:
    """The starter of the ranks; or an error message."""
    if settings.framework != "mpi":
        return ForkedRanks(settings, ranks)
    mpirun = find_mpirun(os.environ, find_command)
    return NO_MPIRUN.format("this container") if mpirun is None else MpiRanks(mpirun, given, settings, ranks)


def _refuse(settings: Settings, why: str) -> int:
    """Report that the script was not executed: in the log, and in the file that the container's supervisor reads."""
    with open(f"{settings.reports}/failed", "w", encoding="utf-8") as file:
        file.write(why)
    _log(why)
    return _NOT_EXECUTED


class ForkedRanks:
    """Ranks as child processes, each in its own process group."""

    exit: Optional[Exit] = None  # there is no mpirun in between

    def __init__(self, settings: Settings, ranks: Sequence[Rank]) -> None:
        self._settings = settings
        self._waiting = list(ranks)
        self._ranks: Dict[int, Rank] = {}  # by pid, the running ones

    @property
    def is_over(self) -> bool:
        return not self._ranks

    def start(self, words: Sequence[str]) -> None:
        for rank in self._waiting:
            pid = os.fork()
            if pid == 0:
                os.setpgid(0, 0)
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                exec_rank(self._settings, rank, words)
            with contextlib.suppress(OSError):  # the child did it first
                os.setpgid(pid, pid)
            self._ranks[pid] = rank

    def ended(self) -> List[Tuple[Rank, Exit]]:
        """The ranks that have ended since the last call."""
        found = []
        while self._ranks:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid in self._ranks:
                found.append((self._ranks.pop(pid), exit_of(status)))
        return found

    def signal(self, number: int) -> None:
        for pid in self._ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)

    def close(self) -> None:
        pass


class Launcher:
    """Runs the ranks to their end, and decides the exit of the run."""

    def __init__(self, settings: Settings, ranks: Sequence[Rank], processes: Union[MpiRanks, ForkedRanks]) -> None:
        self._settings = settings
        self._processes = processes
        self._ranks = ranks
        self._awaited = {rank.number for rank in ranks if rank.is_waited_for}
        self._failure: Optional[Exit] = None
        self._is_stopped = False  # by TERM: the ranks then end in their own way
        self._kill_at: Optional[float] = None

    def run(self, words: Sequence[str]) -> Exit:
        """Start the ranks and wait until all have ended; returns the exit of the run."""
        with contextlib.suppress(OSError):  # a disk without links: then rank 0 is only in the log of the run
            os.link(self._settings.log_of_run, self._settings.log_of(0))
        self._announce()
        self._processes.start(words)
        try:
            while not self._processes.is_over:
                self._wait()
                self._handle_exits()
        finally:
            self._processes.close()
        return self._failure or self._exit_of_program()

    def _announce(self) -> None:
        nodes = len(self._settings.nodes)
        where = f" on {nodes} nodes" if nodes > 1 else ""
        kind = f" ({self._settings.framework})" if self._settings.framework else ""
        count = len(self._ranks)
        _log(
            f"starting {count} process{'es' if count > 1 else ''}{where}{kind}. This log has the output of rank 0; "
            "each rank N has its own: user_logs/std_log_process_N.txt"
        )

    def _wait(self) -> None:
        now = time.monotonic()
        seconds = _POLL_SECONDS if self._kill_at is None else min(_POLL_SECONDS, max(0.0, self._kill_at - now))
        got = signal.sigtimedwait(_SIGNALS, seconds)
        if got is not None and got.si_signo in (signal.SIGTERM, signal.SIGINT):
            self._pass_on(got.si_signo)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._processes.signal(signal.SIGKILL)
            self._kill_at = time.monotonic() + _KILL_AGAIN_SECONDS  # for those that were started meanwhile

    def _pass_on(self, number: int) -> None:
        if not self._is_stopped and self._kill_at is None:
            self._is_stopped = True
            self._processes.signal(number)

    def _handle_exits(self) -> None:
        for rank, ended in self._processes.ended():
            self._awaited.discard(rank.number)
            if ended != Exit(0) and self._failure is None and self._is_needed(rank):
                self._failure = ended
                if not self._is_stopped:
                    self._fail(rank, ended)
        if not self._awaited and self._kill_at is None and not self._is_stopped:
            self._end_others()

    def _is_needed(self, rank: Rank) -> bool:
        return rank.is_waited_for or self._kill_at is None

    def _fail(self, rank: Rank, ended: Exit) -> None:
        words = f"{self._settings.name_of(rank)} {_describe_exit(ended)}."
        tail = "" if rank.number == 0 else _tail(self._settings.log_of(rank.number))
        log = f" The end of its log, user_logs/std_log_process_{rank.number}.txt:\n{tail}" if tail else ""
        _log(f"{words}{log}")
        with contextlib.suppress(OSError):  # a full disk: the log says it
            write_json(f"{self._settings.reports}/{REPORT}", {"rank": rank.number, "message": words})
        self._end_others()

    def _end_others(self) -> None:
        if not self._processes.is_over:
            self._processes.signal(signal.SIGTERM)
        self._kill_at = time.monotonic() + self._settings.grace

    def _exit_of_program(self) -> Exit:
        """The exit if no rank failed: mpirun may have failed before it started them all."""
        ended = self._processes.exit or Exit(0)
        if not self._awaited or self._is_stopped:
            return Exit(0)
        words = f"mpirun {_describe_exit(ended)} before all ranks had begun."
        _log(f"{words} It says:\n{_tail(f'{self._settings.logs}/{OUTPUT}')}")
        with contextlib.suppress(OSError):
            write_json(f"{self._settings.reports}/{REPORT}", {"message": words})
        return ended if ended != Exit(0) else Exit(1)


def _describe_exit(ended: Exit) -> str:
    if ended.signal is not None:
        return f"was ended by signal {ended.signal} ({signal.Signals(ended.signal).name})"
    return f"exited with code {ended.exit_code}"


def _tail(path: str) -> str:
    """The last lines of a log."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _SHOWN_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-_SHOWN_LINES:])


def _log(words: str) -> None:
    os.write(1, f"windlass: {words}\n".encode("utf-8", "replace"))


def _exit_like(ended: Exit) -> int:
    """Exit with the same code, or by the same signal."""
    if ended.signal is not None:
        number = signal.Signals(ended.signal)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    return 1 if ended.exit_code is None else ended.exit_code
