"""A control group for each run, where the system lets us make one: whatever a process does to its parents, its session
or its environment, it stays in the group of its run, and so does every process that it forks.

Groups are made below the group that this process is in, on the unified hierarchy (v2) or on one of v1. A process is
born into a group by clone3 (v2), since moving one there makes the kernel wait for all processors, up to 20 ms. On v1,
processes are moved there after they have started. Where no group can be made, `Groups.find` answers None.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import signal
import time
from typing import Iterator, List, NamedTuple, Optional, Tuple

_PREFIX = "windlass-"
_PROCS = "cgroup.procs"
_V1 = ("freezer", "pids")  # the freezer first: what is frozen forks no more while it is killed
_CLONE3 = 435
_CLONE_INTO_CGROUP = 0x200000000
_OLD_SECONDS = 60.0
_REMOVE_SECONDS = 0.5
_MOST_ROUNDS = 20

_libc = ctypes.PyDLL(None, use_errno=True)  # which keeps the GIL: the child has no other thread that could have it


class _Mount(NamedTuple):
    kind: str  # "cgroup2", or the name of a controller of v1
    root: str
    path: str


class Group:
    """One run's group. Its folder is made when the first process needs it."""

    def __init__(self, path: str, is_v2: bool) -> None:
        self.path = path
        self._is_v2 = is_v2
        self._may_clone = is_v2

    def fork(self) -> int:
        """As os.fork; the child is in the group from its first moment, where the system can do that."""
        fd = self._open() if self._may_clone else -1
        if fd < 0:
            return os.fork()
        try:
            pid = _clone_into(fd)
        finally:
            os.close(fd)
        if pid < 0:
            self._may_clone = False
            self.remove()
            return os.fork()
        return pid

    def take(self, pids: List[int]) -> None:
        """Move processes there that were not born into it, and are still in the group that we are in: a container
        engine puts others where it wants them. What they fork meanwhile is moved by the next call.
        """
        with contextlib.suppress(OSError):
            ours = _groups_of("self")
            for pid in pids:
                if _groups_of(pid) == ours:
                    self._make()
                    with contextlib.suppress(ProcessLookupError):
                        self._write(_PROCS, str(pid))

    def pids(self) -> List[int]:
        """All that are in it now."""
        try:
            with open(f"{self.path}/{_PROCS}", "rb") as file:
                return [int(word) for word in file.read().split() if word != b"0"]
        except OSError:
            return []

    def kill(self) -> None:
        """End all that are in it, also one that forks faster than it could be listed. Not by cgroup.kill: some kernels
        (6.14 and newer) then kill every process that is born into the group later, too.
        """
        if not os.path.isdir(self.path):
            return
        self._freeze(True)
        try:
            for _ in range(_MOST_ROUNDS):  # until nobody is new, where there is no freezer
                pids = self.pids()
                for pid in pids:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                if set(self.pids()) <= set(pids):
                    return
        finally:
            self._freeze(False)

    def remove(self) -> bool:
        """Whether it is gone. The dead leave it a moment after they have ended."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while True:
            try:
                os.rmdir(self.path)
                return True
            except FileNotFoundError:
                return True
            except OSError:
                if self.pids() or time.monotonic() > deadline:
                    return False
                time.sleep(0.001)

    def _freeze(self, wanted: bool) -> None:
        name, word = ("cgroup.freeze", str(int(wanted))) if self._is_v2 else ("freezer.state", _STATES[wanted])
        with contextlib.suppress(OSError):
            self._write(name, word)

    def _make(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o755)

    def _open(self) -> int:
        try:
            self._make()
            return os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            self._may_clone = False
            return -1

    def _write(self, name: str, word: str) -> None:
        fd = os.open(f"{self.path}/{name}", os.O_WRONLY)
        try:
            os.write(fd, word.encode("ascii"))
        finally:
            os.close(fd)


def _groups_of(pid: object) -> bytes:
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            return file.read()
    except OSError:
        return b""


_STATES = {True: "FROZEN", False: "THAWED"}


class Groups:
    """Where this process may make groups."""

    def __init__(self, path: str, is_v2: bool) -> None:
        self._path = path
        self._is_v2 = is_v2

    @classmethod
    def find(cls) -> Optional[Groups]:
        for path, is_v2 in _own_groups():
            if os.access(path, os.W_OK) and os.access(f"{path}/{_PROCS}", os.W_OK):
                found = cls(path, is_v2)
                found._remove_left()
                return found
        return None

    def group(self, root: str, job: str, nonce: object, known: object = None) -> Group:
        """The group of a job. `known` is where an earlier supervisor had it, who may have begun in another group than
        we are in: it counts only if its name is that of this job.
        """
        name = _PREFIX + hashlib.sha256(f"{root}\0{job}\0{nonce}".encode("utf-8", "replace")).hexdigest()[:32]
        if isinstance(known, str) and os.path.basename(known) == name and os.path.exists(f"{known}/{_PROCS}"):
            return Group(known, os.path.exists(f"{known}/cgroup.events"))
        return Group(f"{self._path}/{name}", self._is_v2)

    def _remove_left(self) -> None:
        """Empty groups of runs whose machine's folder is gone. One that has just been made is about to be used."""
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(self._path)):
                if entry.name.startswith(_PREFIX):
                    with contextlib.suppress(OSError):  # it is not empty
                        if time.time() - entry.stat().st_mtime > _OLD_SECONDS:
                            os.rmdir(entry.path)


def _own_groups() -> Iterator[Tuple[str, bool]]:
    """Folders of the groups that this process is in, the best first, and whether each is of v2."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
        own = {name or "cgroup2": path for _, names, path in rows for name in names.split(",")}
        mounts = list(_mounts())
    except (OSError, ValueError):
        return
    for kind in ("cgroup2", *_V1):
        for mount in mounts:
            root, path = mount.root.rstrip("/"), own.get(kind, "")
            if mount.kind == kind and f"{path}/".startswith(f"{root}/"):
                yield (mount.path + path[len(root) :]).rstrip("/"), kind == "cgroup2"


def _mounts() -> Iterator[_Mount]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            place, _, system = line.rstrip("\n").partition(" - ")
            root, path = place.split(" ")[3:5]
            kind, _, options = system.split(" ", 2)
            if kind == "cgroup2":
                yield _Mount(kind, root, path)
            elif kind == "cgroup":
                yield from (_Mount(name, root, path) for name in _V1 if name in options.split(","))


def _clone_into(group: int) -> int:
    """fork, into the group whose folder is open; -1 if the system cannot do that."""
    api = ctypes.pythonapi
    arguments = (ctypes.c_uint64 * 11)(_CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group)
    api.PyOS_BeforeFork()
    pid: int = _libc.syscall(ctypes.c_long(_CLONE3), ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments)))
    if pid == 0:
        api.PyOS_AfterFork_Child()
    else:
        api.PyOS_AfterFork_Parent()
    return pid
