"""Process tree of a run: finds the processes that belong to it, signals and ends them.

A process is identified by pid and start time, since pids are reused. It belongs to the run if it descends from the
supervisor (a subreaper, which inherits orphans) or from the script, if it was seen to do so before, if it is in the
run's control group, or if it has the run's cookie in its environment. Nothing else is ever signalled.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Set

from ..workdir.run_folder import read_whole
from .cgroup import Group

HAS_PROC = os.path.exists("/proc/self/stat")
_DEAD = "ZXx"


class Process(NamedTuple):
    pid: int
    start: int  # ticks since boot; where there is no /proc, seconds


class ProcessInfo(NamedTuple):
    """An entry of the system's process table."""

    pid: int
    parent: int
    start: int
    state: str
    ticks: int = 0  # processor time, that of its dead children included
    pages: int = 0

    @property
    def process(self) -> Process:
        return Process(self.pid, self.start)


def boot_id() -> str:
    try:
        return read_whole("/proc/sys/kernel/random/boot_id").decode("ascii").strip()
    except OSError:
        return _output(["sysctl", "-n", "kern.bootsessionuuid"]).strip() or "unknown"


def read_process(pid: int) -> Optional[ProcessInfo]:
    if not HAS_PROC:
        return _ps_table().get(pid)
    try:
        text = read_whole(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # gone, or another user's and hidden (hidepid)
    # The name stands in brackets and may contain anything, brackets too.
    word = text[text.rindex(b")") + 2 :].split()
    ticks = sum(map(int, word[11:15]))
    return ProcessInfo(pid, int(word[1]), int(word[19]), word[0].decode("ascii"), ticks, int(word[21]))


def identify(pid: int) -> Optional[Process]:
    seen = read_process(pid)
    return seen.process if seen is not None else None


def is_stopped(pid: int) -> bool:
    seen = read_process(pid)
    return seen is not None and seen.state == "T"


def has_pending(pid: int, number: int) -> bool:
    """Whether a signal is pending: the process is stopped, traced, frozen or gets no processor time."""
    try:
        words = dict(line.split(b":\t", 1) for line in read_whole(f"/proc/{pid}/status").splitlines() if b":\t" in line)
        return bool(int(words[b"ShdPnd"], 16) >> (number - 1) & 1)
    except (OSError, ValueError, KeyError):
        return False


def has_open(pid: int, path: str) -> bool:
    """Whether a process has a file open, also a removed one; True where permissions hide that."""
    names = (path, f"{path} (deleted)")
    try:
        return any(_link(f"/proc/{pid}/fd/{fd}") in names for fd in os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return True
    except OSError:
        return not HAS_PROC


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # closed meanwhile


def name_of(pid: int) -> bytes:
    """The name of a process (comm); b"" if it cannot be read."""
    try:
        return read_whole(f"/proc/{pid}/comm")
    except OSError:
        return b""


def is_alive(process: Process) -> bool:
    seen = read_process(process.pid)
    return seen is not None and seen.start == process.start and seen.state not in _DEAD


def send(process: Process, number: int) -> bool:
    """Signal this process, and no other that may have reused its pid."""
    if process.pid <= 1:
        return False
    opener = getattr(os, "pidfd_open", None)
    try:
        if opener is None:
            if is_alive(process):
                os.kill(process.pid, number)
                return True
            return False
        fd = opener(process.pid)
    except OSError:
        return False
    try:
        if not is_alive(process):
            return False
        getattr(signal, "pidfd_send_signal")(fd, number)  # noqa: B009 (Python 3.9)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def descendants(pid: int) -> List[ProcessInfo]:
    """The descendants of a process, without reading the whole process table where the kernel lists children."""
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        return _below({pid}, table())
    found: List[ProcessInfo] = []
    waiting = [pid]
    while waiting:
        for child in children(waiting.pop()):
            seen = read_process(child)
            if seen is not None and seen.state not in _DEAD:
                found.append(seen)
                waiting.append(child)
    return found


def children(pid: int) -> Iterable[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                yield from map(int, file.read().split())
        except OSError:
            continue


def table() -> Dict[int, ProcessInfo]:
    """All processes of the machine that this user may see."""
    if not HAS_PROC:
        return _ps_table()
    seen = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {one.pid: one for one in seen if one is not None}


def _below(tops: Set[int], everyone: Dict[int, ProcessInfo]) -> List[ProcessInfo]:
    children: Dict[int, List[ProcessInfo]] = {}
    for seen in everyone.values():
        children.setdefault(seen.parent, []).append(seen)
    found, waiting = [], list(tops)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child.pid not in tops:
                found.append(child)
                waiting.append(child.pid)
    return [seen for seen in found if seen.state not in _DEAD]


def has_mark(pid: int, mark: bytes) -> bool:
    """Whether a process carries that variable: NAME=value."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False  # another user's, or gone: not provably ours


def variable_of(pid: int, name: bytes) -> bytes:
    """A variable of a process as it was started; empty if it has none, or if that cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return b""
    return next((each[len(name) + 1 :] for each in variables if each.startswith(name + b"=")), b"")


class Tree:
    def __init__(self, mark: str, group: Optional[Group] = None, is_ancestor: bool = True) -> None:
        """`mark` is the cookie as it stands in an environment: NAME=value. With `is_ancestor`, all that descends from
        this process belongs to the run.
        """
        self._mark = os.fsencode(mark)
        self._group = group
        self._tops = {os.getpid()} if is_ancestor else set()
        self._known: Set[Process] = set()

    def add(self, process: Process) -> None:
        """Add a process, whichever process becomes its parent."""
        self._known.add(process)

    def update(self, alive: Iterable[ProcessInfo]) -> None:
        """Add processes that were seen as descendants, and forget ended ones: a script may start millions."""
        met = list(alive)
        self._known = {p for p in self._known if is_alive(p)} | {seen.process for seen in met}
        if self._group is not None:
            self._group.move_in([seen.pid for seen in met])

    def members(self) -> List[Process]:
        """The live processes of the run, without this one."""
        everyone = table()
        known = {p for p in self._known if p.pid in everyone and everyone[p.pid].start == p.start}
        grouped = {everyone[pid].process for pid in self._grouped() if pid in everyone}
        found = {seen.process for seen in _below({*self._tops, *(p.pid for p in known | grouped)}, everyone)}
        found |= {p for p in known | grouped if everyone[p.pid].state not in _DEAD}
        for seen in everyone.values():
            if seen.process not in found and seen.state not in _DEAD and self._has_mark(seen.pid):
                found.add(seen.process)
        self._known = known | found
        return [p for p in found if p.pid > 1 and p.pid != os.getpid()]

    def _grouped(self) -> List[int]:
        return self._group.pids() if self._group is not None else []

    def _has_mark(self, pid: int) -> bool:
        return pid != os.getpid() and has_mark(pid, self._mark)

    def signal(self, number: int) -> Set[Process]:
        reached = {process for process in self.members() if send(process, number)}
        if number == signal.SIGKILL and self._group is not None:
            self._group.kill()  # also processes forked meanwhile
        return reached

    def end(self, patience: float, reap: Callable[[], object]) -> int:
        """End the remaining processes: TERM, and KILL after so many seconds. Returns how many there were."""
        left = self.signal(signal.SIGTERM)
        if not left:
            return 0
        met = set(left)
        deadline = time.monotonic() + patience
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            reap()
            left = {process for process in left if is_alive(process)}
        deadline = time.monotonic() + 10
        left = self.signal(signal.SIGKILL)
        while left and time.monotonic() < deadline:
            met |= left
            time.sleep(0.02)
            reap()
            left = self.signal(signal.SIGKILL)
        return len(met | left)


def kill_below(top: Process) -> None:
    """Kill a process and its descendants. They are stopped first: a stopped process cannot fork."""
    met: Set[Process] = set()
    new = {top} if send(top, signal.SIGSTOP) else set()
    while new:
        met |= new
        below = {seen.process for seen in descendants(top.pid)}
        new = {process for process in below - met if send(process, signal.SIGSTOP)}
    for process in met:
        send(process, signal.SIGKILL)


def _ps_table() -> Dict[int, ProcessInfo]:
    """The table where there is no /proc (macOS)."""
    found = {}
    for line in _output(["ps", "-axo", "pid=,ppid=,stat=,lstart="]).splitlines():
        pid, parent, state, when = line.split(None, 3)
        start = time.mktime(time.strptime(when.strip(), "%a %b %d %H:%M:%S %Y"))
        found[int(pid)] = ProcessInfo(int(pid), int(parent), int(start), state[0])
    return found


def _output(argv: List[str]) -> str:
    import subprocess

    try:
        return subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"}, check=False
        ).stdout.decode("utf-8", "replace")
    except OSError:
        return ""
