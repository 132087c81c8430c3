"""Starts the processes of a run, and stays until they have ended. It is the script of its run to the supervisor.

The first process that fails decides how the run ends: it is named in the log, the others are ended (TERM, the run's
grace, KILL), and the launcher ends as it did. TERM to the launcher is passed on to all of them, once.
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
from .ranks import Rank, Settings, TakePorts, become, on_nodes, one_on_each_node, read_settings

_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
_PULSE = 0.5
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
    ranks = on_nodes(settings, _MAKERS[settings.framework](settings, ports.take))
    processes = _processes(given, settings, ranks)
    if isinstance(processes, str):
        return _refuse(settings, processes)
    return _leave(Launcher(settings, ranks, processes).run(command))


def _processes(given: Mapping[str, Any], settings: Settings, ranks: List[Rank]) -> Union[MpiRanks, "ForkedRanks", str]:
    """What starts the processes; or why that cannot be."""
    if settings.framework != "mpi":
        return ForkedRanks(settings, ranks)
    mpirun = find_mpirun(os.environ, find_command)
    return NO_MPIRUN.format("this container") if mpirun is None else MpiRanks(mpirun, given, settings, ranks)


def _refuse(settings: Settings, why: str) -> int:
    """In a container this file says that the script was never executed."""
    with open(f"{settings.reports}/failed", "w", encoding="utf-8") as file:
        file.write(why)
    _say(why)
    return _NOT_EXECUTED


class ForkedRanks:
    """Processes that are our children, each in a group of its own."""

    exit: Optional[Exit] = None  # of a program between them and us: there is none

    def __init__(self, settings: Settings, ranks: Sequence[Rank]) -> None:
        self._settings = settings
        self._waiting = list(ranks)
        self._ranks: Dict[int, Rank] = {}  # by pid, those that live

    @property
    def is_over(self) -> bool:
        return not self._ranks

    def start(self, words: Sequence[str]) -> None:
        for rank in self._waiting:
            pid = os.fork()
            if pid == 0:
                os.setpgid(0, 0)
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                become(self._settings, rank, words)
            with contextlib.suppress(OSError):  # it has done so itself
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
    def __init__(self, settings: Settings, ranks: Sequence[Rank], processes: Union[MpiRanks, ForkedRanks]) -> None:
        self._settings = settings
        self._processes = processes
        self._ranks = ranks
        self._awaited = {rank.number for rank in ranks if rank.is_waited_for}
        self._failure: Optional[Exit] = None
        self._is_stopped = False  # by TERM: then the processes end as they want to
        self._kill_at: Optional[float] = None

    def run(self, words: Sequence[str]) -> Exit:
        """Until all processes have ended; how the run has ended by that."""
        with contextlib.suppress(OSError):  # a disk without links: then rank 0 is only in the log of the run
            os.link(self._settings.log_of_run, self._settings.log_of(0))
        self._announce()
        self._processes.start(words)
        try:
            while not self._processes.is_over:
                self._wait()
                self._look()
        finally:
            self._processes.close()
        return self._failure or self._exit_of_program()

    def _announce(self) -> None:
        nodes = len(self._settings.nodes)
        where = f" on {nodes} nodes" if nodes > 1 else ""
        kind = f" ({self._settings.framework})" if self._settings.framework else ""
        count = len(self._ranks)
        _say(
            f"starting {count} process{'es' if count > 1 else ''}{where}{kind}. This log has the output of rank 0; "
            "each rank N has its own: user_logs/std_log_process_N.txt"
        )

    def _wait(self) -> None:
        now = time.monotonic()
        seconds = _PULSE if self._kill_at is None else min(_PULSE, max(0.0, self._kill_at - now))
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

    def _look(self) -> None:
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
        words = f"{self._settings.name_of(rank)} {_how(ended)}."
        tail = "" if rank.number == 0 else _tail(self._settings.log_of(rank.number))
        log = f" The end of its log, user_logs/std_log_process_{rank.number}.txt:\n{tail}" if tail else ""
        _say(f"{words}{log}")
        with contextlib.suppress(OSError):  # a full disk: the log says it
            write_json(f"{self._settings.reports}/{REPORT}", {"rank": rank.number, "message": words})
        self._end_others()

    def _end_others(self) -> None:
        if not self._processes.is_over:
            self._processes.signal(signal.SIGTERM)
        self._kill_at = time.monotonic() + self._settings.grace

    def _exit_of_program(self) -> Exit:
        """All processes were well; mpirun may have failed before it started them."""
        ended = self._processes.exit or Exit(0)
        if not self._awaited or self._is_stopped:
            return Exit(0)
        words = f"mpirun {_how(ended)} before all ranks had begun."
        _say(f"{words} It says:\n{_tail(f'{self._settings.logs}/{OUTPUT}')}")
        with contextlib.suppress(OSError):
            write_json(f"{self._settings.reports}/{REPORT}", {"message": words})
        return ended if ended != Exit(0) else Exit(1)


def _how(ended: Exit) -> str:
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


def _say(words: str) -> None:
    os.write(1, f"windlass: {words}\n".encode("utf-8", "replace"))


def _leave(ended: Exit) -> int:
    """End as that process did."""
    if ended.signal is not None:
        number = signal.Signals(ended.signal)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    return 1 if ended.exit_code is None else ended.exit_code
