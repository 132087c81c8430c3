"""Resource usage of a run: samples of its process tree, the total at the end, and kills by the OOM killer."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from typing import Any, Dict, List, Set, Tuple

from ..system import process_tree
from ..system.cgroup import is_run_group, parts_of
from ..workdir.run_folder import RunFolder, append, read_whole
from .launch import find_command

_PAGE = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")
_MB = 1 << 20
_KILL_WAIT_SECONDS = 2.0


class Meter:
    """Usage since just before the script started. Processes that were reaped are in our own counters."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.at("usage.jsonl")
        self._cpu_before = _reaped_cpu_seconds()
        self._io_before = _io(os.getpid())
        self._peak_rss = 0.0
        self._most = 1
        self._last: Dict[str, Any] = {}
        self.gpu = GpuProbe(folder)

    def sample(self, alive: List[process_tree.ProcessInfo]) -> None:
        """Add a line to usage.jsonl."""
        members = [seen for seen in alive if seen.pid != self.gpu.pid]
        read, written = self._io([seen.pid for seen in members])
        line: Dict[str, Any] = {
            "at": round(time.time(), 3),
            "cpu_seconds": round(self._cpu() + sum(seen.ticks for seen in members) / _TICKS, 2),
            "rss_mb": round(sum(seen.pages for seen in members) * _PAGE / _MB, 1),
            "processes": len(members),
            "read_mb": round(read / _MB, 1),
            "written_mb": round(written / _MB, 1),
        }
        line.update(self.gpu.of({seen.pid for seen in members}))
        self._peak_rss = max(self._peak_rss, line["rss_mb"])
        self._most = max(self._most, len(members))
        self._last = line
        append(self._path, json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n")

    def summary(self, peak_kb: int) -> Dict[str, Any]:
        """The total, once all processes have ended. `peak_kb` is the script's own peak memory, from the kernel."""
        read, written = self._io([])
        found = {
            "cpu_seconds": round(max(self._cpu(), self._last.get("cpu_seconds", 0.0)), 2),
            "peak_rss_mb": round(max(self._peak_rss, peak_kb / 1024), 1),
            "processes": self._most,
            "read_mb": max(round(read / _MB, 1), self._last.get("read_mb", 0.0)),
            "written_mb": max(round(written / _MB, 1), self._last.get("written_mb", 0.0)),
        }
        return {**found, **self.gpu.peaks}

    def _cpu(self) -> float:
        return _reaped_cpu_seconds() - self._cpu_before

    def _io(self, pids: List[int]) -> Tuple[int, int]:
        own = _io(os.getpid())
        counts = [_io(pid) for pid in pids]
        read = own[0] - self._io_before[0] + sum(count[0] for count in counts)
        written = own[1] - self._io_before[1] + sum(count[1] for count in counts)
        return max(read, 0), max(written, 0)


def _reaped_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _io(pid: int) -> Tuple[int, int]:
    """Bytes read from and written to disks, also by children that were waited for."""
    try:
        words = dict(line.split(b": ") for line in read_whole(f"/proc/{pid}/io").splitlines())
        return int(words[b"read_bytes"]), int(words[b"write_bytes"])
    except (OSError, ValueError, KeyError):
        return 0, 0


class GpuProbe:
    """Queries nvidia-smi, where there is one, without waiting: the answer is used by the next sample."""

    _APPS = ("--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits")
    _LOAD = ("--query-gpu=uuid,utilization.gpu", "--format=csv,noheader,nounits")

    def __init__(self, folder: RunFolder) -> None:
        self._answer = folder.at("claim/gpu.csv")
        self._queries_load = False
        self._apps: List[List[str]] = []
        self._load: Dict[str, float] = {}
        self.pid = 0
        self.peaks: Dict[str, float] = {}

    def query(self) -> None:
        program = find_command("nvidia-smi", os.environ.get("PATH")) if not self.pid else None
        if program is None:
            return
        words = [program, *(self._LOAD if self._queries_load else self._APPS)]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        actions = [(os.POSIX_SPAWN_OPEN, 1, self._answer, flags, 0o600)]
        self.pid = os.posix_spawn(program, words, os.environ, file_actions=actions)

    def collect(self) -> None:
        """Read the answer of nvidia-smi, which has ended."""
        self.pid = 0
        try:
            with open(self._answer, encoding="utf-8", errors="replace") as file:
                rows = [[word.strip() for word in line.split(",")] for line in file]
        except OSError:
            return
        if self._queries_load:
            self._load = {row[0]: _number(row[1]) for row in rows if len(row) == 2}
        else:
            self._apps = [row for row in rows if len(row) == 3]
        self._queries_load = not self._queries_load
        if self._queries_load:
            self.query()

    def stop(self) -> None:
        """Kill nvidia-smi. If the driver hangs, a killed process does not end: wait a short time only."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            deadline = time.monotonic() + _KILL_WAIT_SECONDS
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            self.pid = 0

    def of(self, pids: Set[int]) -> Dict[str, float]:
        """The use of GPUs by these processes; nothing on a machine without."""
        apps = [row for row in self._apps if row[0].isdigit() and int(row[0]) in pids]
        if not apps:
            return {}
        memory = sum(_number(row[2]) for row in apps)
        percent = sum(self._load.get(uuid, 0.0) for uuid in {row[1] for row in apps})
        self.peaks = {"peak_gpu_mb": max(memory, self.peaks.get("peak_gpu_mb", 0.0))}
        return {"gpu_mb": memory, "gpu_percent": percent}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0  # "[N/A]"


class MemoryWatch:
    """Whether the OOM killer has killed a process lately.

    The kernel counts kills for each control group and for the machine, without process ids. A kill in the last few
    seconds is attributed to the script, an older one to another process. Each sample moves the window.
    """

    def __init__(self, counter: str) -> None:
        self._counter = counter
        self._older = self._newer = _count(counter)

    def sample(self) -> None:
        self._older, self._newer = self._newer, _count(self._counter)

    def has_killed(self) -> bool:
        return _count(self._counter) > self._older

    def has_killed_own(self) -> bool:
        """Whether it was certainly a process of the run: the run's group has its own counter."""
        return is_run_group(os.path.dirname(self._counter)) and _count(self._counter) > 0


def memory_counter(pid: int) -> str:
    """The file that counts OOM kills in the control group of a process; without a group, on the machine."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return "/proc/vmstat"
    for _, controllers, path in groups:
        if "memory" in controllers.split(","):
            top, name = "/sys/fs/cgroup/memory", "memory.oom_control"
        elif controllers == "":
            top, name = "/sys/fs/cgroup", "memory.events"
        else:
            continue
        while path:  # a group without that controller is counted in a parent group
            if os.path.exists(f"{top}{path}/{name}"):
                return f"{top}{path}/{name}"
            path = path.rpartition("/")[0]
    return "/proc/vmstat"


def _count(path: str) -> int:
    """The count of a group; of a run's own group with its nodes' groups, since v1 counts each group alone."""
    folder, name = os.path.split(path)
    parts = [f"{part}/{name}" for part in parts_of(folder)] if is_run_group(folder) else []
    return sum(map(_count_in, (path, *parts)))


def _count_in(path: str) -> int:
    try:
        text = read_whole(path)
    except OSError:
        return 0
    at = text.find(b"oom_kill ")
    return int(text[at + 9 :].split(None, 1)[0]) if at >= 0 else 0
