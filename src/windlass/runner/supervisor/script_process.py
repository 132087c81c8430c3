"""The user's process, as its supervisor sees it: our child, or one that an earlier supervisor left behind."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..system import process_tree
from ..system.process_tree import Process
from ..workdir.run_folder import RunFolder

# How long the host may take to tell how a script ended: one that became its child, and one that was gone already.
_PATIENCE = 5.0
_LITTLE_PATIENCE = 0.5
_PULSE = 0.1


class Exit(NamedTuple):
    """How a process ended. Neither code nor signal: nobody knows."""

    exit_code: Optional[int] = None
    signal: Optional[int] = None
    core_dumped: bool = False

    @property
    def is_known(self) -> bool:
        return self.exit_code is not None or self.signal is not None


def exit_from(event: Dict[str, Any]) -> Exit:
    return Exit(event.get("exit_code"), event.get("signal"), bool(event.get("core_dumped")))


def exit_of(status: int) -> Exit:
    if os.WIFSIGNALED(status):
        return Exit(None, os.WTERMSIG(status), os.WCOREDUMP(status))
    return Exit(os.WEXITSTATUS(status))


def ended_child(pid: int = 0) -> int:
    """A child that has ended (that one, or any), left as it is; 0 if none has. Until it is reaped, its exit status
    goes to the next subreaper if we die."""
    kind = os.P_PID if pid else os.P_ALL
    try:
        info = os.waitid(kind, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return info.si_pid if info is not None else 0


def exit_without_reaping(pid: int) -> Exit:
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert info is not None  # it waits
    if info.si_code == os.CLD_EXITED:
        return Exit(info.si_status)
    return Exit(None, info.si_status, info.si_code == os.CLD_DUMPED)


class Script:
    """`look()` says how it ended, once it has; `let_go()` forgets the process, after that was written down."""

    was_starved = False  # somebody else than the kernel's counters says that it was killed for lack of memory
    is_launcher = False  # of the run's processes, to which it passes TERM on
    failure = ""  # why it was never executed, if that is known only now
    words = ""  # what there is to say of its end

    def __init__(self, folder: RunFolder, process: Process) -> None:
        self.folder = folder
        self.process = process
        self.peak_kb = 0

    @property
    def fd(self) -> int:
        """What can be read when there is news; -1 if signals tell."""
        return -1

    @property
    def pulse(self) -> Optional[float]:
        """Seconds between two looks at one whose end nobody tells of."""
        return None

    def signal(self, number: int, everyone: process_tree.Tree) -> bool:
        """To it and all of its tree. Whether it was there to hear it."""
        if self.is_launcher and number == signal.SIGTERM:
            return process_tree.send(self.process, number)
        return self.process in everyone.signal(number)

    def moments(self) -> Dict[str, float]:
        """When it began and ended, where somebody knows better than our clock."""
        return {}

    def members(self) -> List[process_tree.Seen]:
        """The run's processes as far as they can be reached by descent."""
        raise NotImplementedError

    def look(self) -> Optional[Exit]:
        raise NotImplementedError

    def let_go(self) -> None:
        raise NotImplementedError


class Child(Script):
    def members(self) -> List[process_tree.Seen]:
        return process_tree.descendants(os.getpid())

    def look(self) -> Optional[Exit]:
        if hasattr(os, "waitid"):
            return exit_without_reaping(self.process.pid) if ended_child(self.process.pid) else None
        pid, status, used = os.wait4(self.process.pid, os.WNOHANG)  # macOS
        self.peak_kb = used.ru_maxrss // 1024
        return exit_of(status) if pid else None

    def let_go(self) -> None:
        if hasattr(os, "waitid"):
            self.peak_kb = os.wait4(self.process.pid, 0)[2].ru_maxrss


class Adopted(Script):
    """Not our child: seen from outside. The host tells how it ended, if it was its child by then; else nobody can."""

    pulse = _PULSE

    def __init__(self, folder: RunFolder, process: Process) -> None:
        super().__init__(folder, process)
        self._host = os.getppid()
        seen = process_tree.look(process.pid)
        is_hosts = seen is not None and seen.start == process.start and seen.parent == self._host
        self._patience = _PATIENCE if is_hosts else _LITTLE_PATIENCE
        self._gone_since: Optional[float] = None

    def members(self) -> List[process_tree.Seen]:
        seen = process_tree.look(self.process.pid)
        if seen is None or seen.start != self.process.start:
            return []  # its number may be a stranger's by now, whose children are none of ours
        return [seen, *process_tree.descendants(seen.pid)]

    def look(self) -> Optional[Exit]:
        if process_tree.is_alive(self.process):
            return None
        event = self.folder.story().get("exited")
        if event is not None:
            return exit_from(event)
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        if os.getppid() == self._host and now < self._gone_since + self._patience:
            return None
        self.words = "Its supervisor was killed, and so nobody saw how it ended."
        return Exit()

    def let_go(self) -> None:
        return None


def reap_children() -> Iterator[Tuple[int, Optional[Process], Exit]]:
    """Let go of all children that have ended: number, name (as long as it can be had) and end of each."""
    while True:
        pid = ended_child() if hasattr(os, "waitid") else -1
        process = process_tree.identify(pid) if pid > 0 else None
        try:
            pid, status = os.waitpid(pid, os.WNOHANG) if pid else (0, 0)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, process, exit_of(status)


def reap_all() -> bool:
    """Let go of all children that have ended. True if there are no children left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
