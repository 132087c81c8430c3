"""The script's process: a child of this supervisor, or a process that an earlier supervisor started."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..system import process_tree
from ..system.process_tree import Process
from ..workdir.run_folder import RunFolder

# How long to wait for the exit status that the host records: if the script is its child, and if it is gone already.
_HOST_SECONDS = 5.0
_GONE_SECONDS = 0.5
_POLL_SECONDS = 0.1


class Exit(NamedTuple):
    """How a process ended. Unknown if there is neither code nor signal."""

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
    """The pid of a child that has ended (that one, or any); 0 if none has. It is not reaped: until it is, its exit
    status goes to the next subreaper if we die."""
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


class ScriptProcess:
    """`poll()` returns how the script ended, once it has; `release()` reaps it, after the end was recorded."""

    was_oom_killed = False  # said by the Docker engine, independent of the kernel's counters
    is_launcher = False  # of a distributed run: it forwards TERM to the run's processes
    failure = ""  # why it was never executed, if that is found at its end
    end_message = ""  # for the run's message

    def __init__(self, folder: RunFolder, process: Process) -> None:
        self.folder = folder
        self.process = process
        self.peak_kb = 0

    @property
    def fd(self) -> int:
        """A descriptor that becomes readable on a change; -1 if changes are signalled."""
        return -1

    @property
    def poll_interval(self) -> Optional[float]:
        """Seconds between two polls, where no event announces the end; None where one does."""
        return None

    def signal(self, number: int, tree: process_tree.Tree) -> bool:
        """Signal the script and its process tree. False if the script had ended already."""
        if self.is_launcher and number == signal.SIGTERM:
            return process_tree.send(self.process, number)
        return self.process in tree.signal(number)

    def times(self) -> Dict[str, float]:
        """Start and end, where the Docker engine knows them better than our clock."""
        return {}

    def members(self) -> List[process_tree.ProcessInfo]:
        """The run's processes as far as they can be reached by descent."""
        raise NotImplementedError

    def poll(self) -> Optional[Exit]:
        raise NotImplementedError

    def release(self) -> None:
        raise NotImplementedError


class ChildScript(ScriptProcess):
    def members(self) -> List[process_tree.ProcessInfo]:
        return process_tree.descendants(os.getpid())

    def poll(self) -> Optional[Exit]:
        if hasattr(os, "waitid"):
            return exit_without_reaping(self.process.pid) if ended_child(self.process.pid) else None
        pid, status, used = os.wait4(self.process.pid, os.WNOHANG)  # macOS
        self.peak_kb = used.ru_maxrss // 1024
        return exit_of(status) if pid else None

    def release(self) -> None:
        if hasattr(os, "waitid"):
            self.peak_kb = os.wait4(self.process.pid, 0)[2].ru_maxrss


class AdoptedScript(ScriptProcess):
    """A script that is not our child. Its exit status is known only if the host was its parent by then."""

    poll_interval = _POLL_SECONDS

    def __init__(self, folder: RunFolder, process: Process) -> None:
        super().__init__(folder, process)
        self._host = os.getppid()
        seen = process_tree.read_process(process.pid)
        is_hosts = seen is not None and seen.start == process.start and seen.parent == self._host
        self._wait_seconds = _HOST_SECONDS if is_hosts else _GONE_SECONDS
        self._gone_since: Optional[float] = None

    def members(self) -> List[process_tree.ProcessInfo]:
        seen = process_tree.read_process(self.process.pid)
        if seen is None or seen.start != self.process.start:
            return []  # the pid may have been reused: its children are not ours
        return [seen, *process_tree.descendants(seen.pid)]

    def poll(self) -> Optional[Exit]:
        if process_tree.is_alive(self.process):
            return None
        event = self.folder.last_events().get("exited")
        if event is not None:
            return exit_from(event)
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        if os.getppid() == self._host and now < self._gone_since + self._wait_seconds:
            return None
        self.end_message = "Its supervisor was killed, and so its exit status is unknown."
        return Exit()

    def release(self) -> None:
        return None


def reap_children() -> Iterator[Tuple[int, Optional[Process], Exit]]:
    """Reap all children that have ended: pid, process (if it could be identified) and exit of each."""
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
    """Reap all children that have ended. True if no children are left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
