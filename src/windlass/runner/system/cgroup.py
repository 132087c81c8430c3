"""Control groups: one for each run, where the system permits it. A process stays in the group of its run whatever it
does to its parents, session or environment, and so do the processes that it forks.

Groups are made below the group of this process, on the unified hierarchy (v2) or on one of v1. On v2 a process is
created in a group by clone3, since moving it there blocks all forks of the machine for up to 20 ms. On v1 a process
enters the groups of its limits by itself, and is moved to the others later. Where no group can be made, `Groups.find`
returns None.

A group also limits its processes (limits.py), where the controllers `cpu` and `memory` are available: on v2 in the same
folder, on v1 in a folder of each controller's own hierarchy.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import signal
import time
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

_PREFIX = "windlass-"
_PROCS = "cgroup.procs"
_TASKS = "tasks"  # on v1: the threads
_SUBTREE = "cgroup.subtree_control"
_CHANNELS = "channels"  # the part of a group for commands that members open (runner/channels)
_LAUNCHER = "launcher"  # the part of a group for the process that starts those of the nodes
_V2 = "cgroup2"
_V1 = ("freezer", "pids")  # the freezer first: frozen processes cannot fork while they are killed
CONTROLLERS = ("cpu", "memory")
_CLONE3 = 435
_CLONE_INTO_CGROUP = 0x200000000
_OLD_SECONDS = 60.0
_ENTER_SECONDS = 0.02  # as long as it takes to move a process
_REMOVE_SECONDS = 0.5
_MOST_ROUNDS = 20

_libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL keeps the GIL: the child has no other thread to release it


class _Mount(NamedTuple):
    kind: str  # "cgroup2", or the name of a controller of v1
    root: str
    path: str


class Group:
    """The control group of a run. Its folders are made when they are needed."""

    def __init__(self, path: str, kind: str, controllers: Optional[Mapping[str, str]] = None) -> None:
        """`kind` is the hierarchy of `path`; `controllers` are the folders in which limits are written."""
        self.path = path
        self.controllers: Dict[str, str] = dict(controllers or {})
        self._kind = kind
        self._is_v2 = self._may_clone = kind == _V2
        self._is_limited = False
        self._joined: Set[int] = set()

    def version(self, controller: str) -> str:
        return "v2" if self._is_v2 and self.controllers.get(controller) == self.path else "v1"

    def write_limit(self, controller: str, values: Mapping[str, str], node: str = "") -> None:
        """Write files of a controller, in the group or in a node's part of it. OSError where that is impossible."""
        folder = self._folder_of(controller, node)
        for name, value in values.items():
            _write(f"{folder}/{name}", value)
        self._is_limited = True

    def has_limit(self, controller: str, name: str) -> bool:
        """Whether the controller has a file of that name here."""
        return os.path.exists(f"{self._folder_of(controller, '')}/{name}")

    def _folder_of(self, controller: str, node: str) -> str:
        folder = self.controllers[controller]
        _make(folder)
        if node:
            folder = f"{folder}/{node}"
            _make(folder)
        return folder

    def split(self, pid: int) -> None:
        """Make nodes' parts of the group possible: on v2 a group with parts has no process itself."""
        if self._is_v2 and self.path in self.controllers.values():
            _make(f"{self.path}/{_LAUNCHER}")
            _write(f"{self.path}/{_LAUNCHER}/{_PROCS}", str(pid))
            wanted = " ".join(f"+{name}" for name, path in self.controllers.items() if path == self.path)
            _write(f"{self.path}/{_SUBTREE}", wanted)

    def parts(self, node: str) -> List[str]:
        """The files by which a process joins a node's part."""
        folders = sorted({f"{path}/{node}" for path in self.controllers.values()})
        return [f"{folder}/{_PROCS}" for folder in folders if os.path.isdir(folder)]

    def enter(self) -> None:
        """Move this process, which has one thread, into the group. On v1 a thread that moves itself is moved at once,
        without blocking other processes that fork.
        """
        for path in self._to_join():
            _make(path)
            is_v1 = os.path.exists(f"{path}/{_TASKS}")
            _write(f"{path}/{_TASKS if is_v1 else _PROCS}", "0")

    def enter_for_channel(self) -> None:
        """Move this process, a command that a member has opened, into a part of the group: so it has the limits of the
        run, and is none of its processes.
        """
        for folder in dict.fromkeys((self.path, *self.controllers.values())):
            if os.path.isdir(folder):
                with contextlib.suppress(OSError):
                    _make(f"{folder}/{_CHANNELS}")
                    _write(f"{folder}/{_CHANNELS}/{_PROCS}", "0")

    def join(self, pid: int) -> None:
        """Make sure that a process is in the folders of the controllers: wait shortly, since it may be entering them by
        itself, then move it, once.
        """
        if pid in self._joined:
            return
        deadline = time.monotonic() + _ENTER_SECONDS
        while self._missing_folders(pid) and time.monotonic() < deadline:
            time.sleep(0.0005)
        for path in self._missing_folders(pid):
            _make(path)
            _write(f"{path}/{_PROCS}", str(pid))
        self._joined.add(pid)

    def _missing_folders(self, pid: int) -> List[str]:
        """The folders that a process is not in."""
        there = _groups_of(pid)
        controllers = {path: controller for controller, path in self.controllers.items()}
        names = {path: os.path.basename(there.get(controllers[path], "")) for path in self._to_join()}
        return [path for path, name in names.items() if name != os.path.basename(path)]

    def _to_join(self) -> List[str]:
        """The folders of the controllers in which `fork` does not create processes."""
        folders = dict.fromkeys(self.controllers.values())
        return [path for path in folders if path != self.path or not self._may_clone]

    def fork(self) -> int:
        """Fork; where the system can, the child is in the group from the start."""
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

    def move_in(self, pids: List[int]) -> None:
        """Move processes of our own group into this one; those in other groups, such as containers, stay. Processes
        that are forked meanwhile are moved by the next call.
        """
        with contextlib.suppress(OSError):
            ours = _groups_of("self")
            limits = self.controllers if self._is_limited else {}
            for pid in pids:
                theirs = _groups_of(pid)
                for kind, path in {self._kind: self.path, **limits}.items():
                    if theirs and theirs.get(kind) == ours.get(kind) is not None:
                        _make(path)
                        with contextlib.suppress(ProcessLookupError):
                            _write(f"{path}/{_PROCS}", str(pid))

    def pids(self) -> List[int]:
        """The processes in the group and its parts, without those of channels."""
        parts = [path for path in parts_of(self.path) if os.path.basename(path) != _CHANNELS]
        return [pid for path in (self.path, *parts) for pid in _pids_in(path)]

    def kill(self) -> None:
        """Kill all processes in the group, also if they fork fast. Not by cgroup.kill: some kernels (6.14 and newer)
        then kill every process that is created in the group later, too.
        """
        if not os.path.isdir(self.path):
            return
        self._freeze(True)
        try:
            for _ in range(_MOST_ROUNDS):  # until no process is new, where there is no freezer
                pids = self.pids()
                for pid in pids:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                if set(self.pids()) <= set(pids):
                    return
        finally:
            self._freeze(False)

    def remove(self) -> bool:
        """Remove the group, and end the channels in it. True if it is gone: ended processes leave it after a moment."""
        for pid in _pids_in(f"{self.path}/{_CHANNELS}"):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + _REMOVE_SECONDS
        return all([_remove(path, deadline) for path in dict.fromkeys((self.path, *self.controllers.values()))])

    def _freeze(self, wanted: bool) -> None:
        name, word = ("cgroup.freeze", str(int(wanted))) if self._is_v2 else ("freezer.state", _STATES[wanted])
        with contextlib.suppress(OSError):
            _write(f"{self.path}/{name}", word)

    def _open(self) -> int:
        try:
            _make(self.path)
            return os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            self._may_clone = False
            return -1


def _make(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o755)


def _write(path: str, word: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, word.encode("ascii"))
    finally:
        os.close(fd)


def _remove(path: str, deadline: float) -> bool:
    """Remove a group and its parts; what still has processes after that moment stays."""
    while True:
        try:
            for part in parts_of(path):
                os.rmdir(part)
            os.rmdir(path)
            return True
        except FileNotFoundError:
            return True
        except OSError:
            if _pids_in(path) or time.monotonic() > deadline:
                return False
            time.sleep(0.001)


def is_run_group(path: str) -> bool:
    return os.path.basename(path).startswith(_PREFIX)


def parts_of(path: str) -> List[str]:
    """The groups below a group."""
    try:
        return [entry.path for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return []


def _pids_in(path: str) -> List[int]:
    try:
        with open(f"{path}/{_PROCS}", "rb") as file:
            return [int(word) for word in file.read().split() if word != b"0"]
    except OSError:
        return []


def _groups_of(pid: object) -> Dict[str, str]:
    """The group of a process in each hierarchy, by the names of its controllers."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return {}
    return {name or _V2: path for _, names, path in rows for name in names.split(",")}


_STATES = {True: "FROZEN", False: "THAWED"}


class Groups:
    """Where this process may make groups."""

    def __init__(self, path: str, kind: str, controllers: Optional[Mapping[str, str]] = None) -> None:
        self._path = path
        self._kind = kind
        self._controllers = dict(controllers or {})  # the parents of groups, by controller

    @classmethod
    def find(cls) -> Optional[Groups]:
        own = list(_own_groups())
        for kind, path, top in own:
            if kind not in (_V2, *_V1) or not _is_writable(path):
                continue
            parent = (limiting_parent(path, top) or path) if kind == _V2 else path
            controllers = dict.fromkeys(_enabled(parent), parent) if kind == _V2 else {}
            for name, other, _ in own:
                if name in CONTROLLERS and name not in controllers and _is_writable(other):
                    controllers[name] = other
            found = cls(parent, kind, controllers)
            found._remove_stale()
            return found
        return None

    def group(self, root: str, job: str, nonce: object, known: object = None) -> Group:
        """The group of a job. `known` is its path in the record of an earlier supervisor, which may have started in
        another group than ours: it counts only if its name is that of this job.
        """
        name = _PREFIX + hashlib.sha256(f"{root}\0{job}\0{nonce}".encode("utf-8", "replace")).hexdigest()[:32]
        controllers = {controller: f"{parent}/{name}" for controller, parent in self._controllers.items()}
        if isinstance(known, str) and os.path.basename(known) == name and os.path.exists(f"{known}/{_PROCS}"):
            kind = _V2 if os.path.exists(f"{known}/cgroup.events") else self._kind
            return Group(known, kind, controllers)
        return Group(f"{self._path}/{name}", self._kind, controllers)

    def limits(self) -> Dict[str, str]:
        """The version of control groups by which each controller limits processes here."""
        is_v2 = self._kind == _V2
        return {name: "v2" if is_v2 and path == self._path else "v1" for name, path in self._controllers.items()}

    def _remove_stale(self) -> None:
        """Remove old empty groups of runs. A new one is about to be used."""
        for parent in {self._path, *self._controllers.values()}:
            for path in parts_of(parent):
                if is_run_group(path):
                    with contextlib.suppress(OSError):  # it is not empty
                        if time.time() - os.stat(path).st_mtime > _OLD_SECONDS:
                            _remove(path, 0.0)


def _is_writable(path: str) -> bool:
    return os.access(path, os.W_OK) and os.access(f"{path}/{_PROCS}", os.W_OK)


def limiting_parent(path: str, top: str) -> Optional[str]:
    """The nearest group of v2, from our own upwards, whose children can be limited. A group that has processes, as
    ours has, cannot have such children, unless it is the root.
    """
    with contextlib.suppress(OSError):
        _write(f"{path}/{_SUBTREE}", " ".join(f"+{name}" for name in CONTROLLERS))
    while path.startswith(top):
        if _is_writable(path) and len(_enabled(path)) == len(CONTROLLERS):
            return path
        path = os.path.dirname(path)
    return None


def _enabled(path: str) -> List[str]:
    """The controllers that limit the children of a group of v2."""
    try:
        with open(f"{path}/{_SUBTREE}", encoding="ascii") as file:
            names = file.read().split()
    except OSError:
        return []
    return [name for name in CONTROLLERS if name in names]


def _own_groups() -> Iterator[Tuple[str, str, str]]:
    """Kind and folder of the groups that this process is in, the best first, and where the hierarchy is mounted."""
    own = _groups_of("self")
    try:
        mounts = list(_mounts())
    except (OSError, ValueError):
        return
    for kind in (_V2, *_V1, *CONTROLLERS):
        for mount in mounts:
            root, path = mount.root.rstrip("/"), own.get(kind, "")
            if mount.kind == kind and f"{path}/".startswith(f"{root}/"):
                yield kind, (mount.path + path[len(root) :]).rstrip("/"), mount.path.rstrip("/")


def _mounts() -> Iterator[_Mount]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            place, _, system = line.rstrip("\n").partition(" - ")
            root, path = place.split(" ")[3:5]
            kind, _, options = system.split(" ", 2)
            if kind == _V2:
                yield _Mount(kind, root, path)
            elif kind == "cgroup":
                yield from (_Mount(name, root, path) for name in (*_V1, *CONTROLLERS) if name in options.split(","))


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
