"""Stays with a script while it runs: its time limit, the wish to stop it, what it uses, the cap of its log."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, Optional

from .. import failpoints
from ..system.process_tree import Tree
from ..system.wakeup import Wakeup
from ..workdir import run_files
from ..workdir.run_folder import LOG
from .resource_usage import MemoryWatch, Meter, memory_counter
from .script_process import Exit, Script, ended_child

# Seconds between samples: the first ones soon, since many scripts are short.
_SAMPLES = (0.5, 1.5, 3.0, 5.0)
# A log that grows by this much between two looks is looked at more often.
_BLAST = 64 << 20
_DEFAULT_GRACE = 30.0


class Attendance:
    def __init__(self, script: Script, run: Dict[str, Any], tree: Tree, wakeup: Wakeup) -> None:
        self.script = script
        self.folder = script.folder
        self.run = run
        self.tree = tree
        self.wakeup = wakeup
        self.meter = Meter(self.folder)
        self.memory = MemoryWatch(memory_counter(script.process.pid))
        self.reason = ""  # why the tree was asked to end, once it was
        self._kill_at = 0.0
        self._is_killing = False
        self._samples = 0
        self._sample_at = time.monotonic() + _SAMPLES[0]
        self._log_size = 0

    def remember(self, stopping: Dict[str, Any]) -> None:
        """An earlier supervisor has asked the tree to end."""
        self.reason = str(stopping.get("reason") or "stopped")
        self._kill_at = float(stopping.get("kill_at", 0.0))

    def stay(self, age: float) -> Exit:
        """Until it has ended. `age` is how long it has run already."""
        limit = self.run.get("time_limit")
        deadline = None if limit is None else time.monotonic() - age + float(limit)
        while True:
            ended = self.script.look()
            if ended is not None:
                return ended
            self._obey(deadline)
            self._sample()
            self._wait(deadline)

    def verdict(self, ended: Exit) -> str:
        """The reason of the end."""
        if self.reason:
            return self.reason
        if ended.signal == signal.SIGKILL and (self.script.was_starved or self.memory.has_killed()):
            return "out_of_memory"
        if not ended.is_known:
            return "exit_unknown"
        return "signaled" if ended.signal is not None else "exited"

    def summary(self) -> Dict[str, Any]:
        """What was used, once everybody is dead."""
        return self.meter.summary(self.script.peak_kb)

    def _obey(self, deadline: Optional[float]) -> None:
        now = time.monotonic()
        wish = self.folder.stop()
        if wish is not None:
            self._ask(str(wish.get("reason") or "stopped"), now + float(wish.get("grace", _DEFAULT_GRACE)))
        if deadline is not None and now >= deadline:
            self._ask("time_limit", now + float(self.run.get("grace", _DEFAULT_GRACE)))
        if self.reason and now >= self._kill_at:
            if not self._is_killing:  # said once, however long it takes
                self.folder.tell("killing")
            self._is_killing = True
            self.script.signal(signal.SIGKILL, self.tree)
            failpoints.reach("F23")
            self._kill_at = time.monotonic() + 1.0  # and again, for those born meanwhile

    def _ask(self, reason: str, kill_at: float) -> None:
        if self.reason:
            self._kill_at = min(self._kill_at, kill_at)
            return
        if self.script.signal(signal.SIGTERM, self.tree):  # else it has just ended by itself, and that counts
            self.reason, self._kill_at = reason, kill_at
            self.folder.tell("stopping", reason=reason, kill_at=kill_at)
            failpoints.reach("F22")

    def _sample(self) -> None:
        if time.monotonic() < self._sample_at:
            return
        self._samples += 1
        seconds = _SAMPLES[min(self._samples, len(_SAMPLES) - 1)]
        try:
            members = self.script.members()
            self.tree.meet(members)
            self.meter.sample(members)
            self.meter.gpu.ask()
            self.memory.look()
            if self._mind_log():
                seconds = _SAMPLES[0]
        except OSError as e:
            self.folder.tell("trouble", message=str(e))  # a full disk is no reason to leave the script alone
        self._sample_at = time.monotonic() + seconds

    def _mind_log(self) -> bool:
        """Keep the log below its cap. True if it grows so fast that it needs more attention."""
        cap = self.run.get("log_cap")
        size = run_files.file_size(self.folder.at(LOG)) or 0
        grown, self._log_size = size - self._log_size, size
        if cap:
            run_files.free_middles(self.folder, int(cap))
        return grown > _BLAST

    def _wait(self, deadline: Optional[float]) -> None:
        moments = [self._sample_at]
        if self.reason:
            moments.append(self._kill_at)
        elif deadline is not None:
            moments.append(deadline)
        seconds = max(0.0, min(moments) - time.monotonic())
        pulses = [pulse for pulse in (self.script.pulse, self.folder.poll_seconds) if pulse is not None]
        self.wakeup.wait(min([seconds, *pulses]), self.script.fd)
        self._reap_others()

    def _reap_others(self) -> None:
        """Let go of those who became our children when their parents died; the script itself is looked at elsewhere."""
        pid = ended_child() if hasattr(os, "waitid") else 0
        while pid not in (0, self.script.process.pid):
            os.waitpid(pid, 0)
            if pid == self.meter.gpu.pid:
                self.meter.gpu.reaped()
            pid = ended_child()
