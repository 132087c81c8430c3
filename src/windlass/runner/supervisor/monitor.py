"""Monitor of a running script: time limit, requests to stop, resource usage, and the cap of its log."""

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
from .script_process import Exit, ScriptProcess, ended_child

# Seconds between samples: the first ones soon, since many scripts are short.
_SAMPLES = (0.5, 1.5, 3.0, 5.0)
# A log that grows by this much between two samples is sampled more often.
_FAST_GROWTH = 64 << 20
_DEFAULT_GRACE = 30.0


class ScriptMonitor:
    def __init__(self, script: ScriptProcess, run: Dict[str, Any], tree: Tree, wakeup: Wakeup) -> None:
        self.script = script
        self.folder = script.folder
        self.run = run
        self.tree = tree
        self.wakeup = wakeup
        self.meter = Meter(self.folder)
        self.memory = MemoryWatch(memory_counter(script.process.pid))
        self.reason = ""  # why the processes were asked to end; empty until then
        self._kill_at = 0.0
        self._is_killing = False
        self._samples = 0
        self._sample_at = time.monotonic() + _SAMPLES[0]
        self._log_size = 0

    def resume_stop(self, stopping: Dict[str, Any]) -> None:
        """Go on with a stop that an earlier supervisor began; `stopping` is its event."""
        self.reason = str(stopping.get("reason") or "stopped")
        self._kill_at = float(stopping.get("kill_at", 0.0))

    def wait(self, age: float) -> Exit:
        """Wait until the script has ended. `age` is for how many seconds it has run already."""
        limit = self.run.get("time_limit")
        deadline = None if limit is None else time.monotonic() - age + float(limit)
        while True:
            ended = self.script.poll()
            if ended is not None:
                return ended
            self._apply_limits(deadline)
            self._sample()
            self._wait_for_event(deadline)

    def exit_reason(self, ended: Exit) -> str:
        """The `reason` of status.json."""
        if self.reason:
            return self.reason
        if ended.signal == signal.SIGKILL and (self.script.was_oom_killed or self.memory.has_killed()):
            return "out_of_memory"
        if not ended.is_known:
            return "exit_unknown"
        return "signaled" if ended.signal is not None else "exited"

    def summary(self) -> Dict[str, Any]:
        """The total resource usage, once all processes have ended."""
        return self.meter.summary(self.script.peak_kb)

    def _apply_limits(self, deadline: Optional[float]) -> None:
        now = time.monotonic()
        stop = self.folder.stop()
        if stop is not None:
            self._request_stop(str(stop.get("reason") or "stopped"), now + float(stop.get("grace", _DEFAULT_GRACE)))
        if deadline is not None and now >= deadline:
            self._request_stop("time_limit", now + float(self.run.get("grace", _DEFAULT_GRACE)))
        if self.reason and now >= self._kill_at:
            if not self._is_killing:  # recorded once, however long it takes
                self.folder.append_event("killing")
            self._is_killing = True
            self.script.signal(signal.SIGKILL, self.tree)
            failpoints.reach("F23")
            self._kill_at = time.monotonic() + 1.0  # and again, for processes forked meanwhile

    def _request_stop(self, reason: str, kill_at: float) -> None:
        if self.reason:
            self._kill_at = min(self._kill_at, kill_at)
            return
        if self.script.signal(signal.SIGTERM, self.tree):  # else the script has just ended by itself
            self.reason, self._kill_at = reason, kill_at
            self.folder.append_event("stopping", reason=reason, kill_at=kill_at)
            failpoints.reach("F22")

    def _sample(self) -> None:
        if time.monotonic() < self._sample_at:
            return
        self._samples += 1
        seconds = _SAMPLES[min(self._samples, len(_SAMPLES) - 1)]
        try:
            members = self.script.members()
            self.tree.update(members)
            self.meter.sample(members)
            self.meter.gpu.query()
            self.memory.sample()
            if self._trim_log():
                seconds = _SAMPLES[0]
        except OSError as e:
            self.folder.append_event("trouble", message=str(e))  # a full disk does not end the monitoring
        self._sample_at = time.monotonic() + seconds

    def _trim_log(self) -> bool:
        """Keep the log below its cap. True if it grows so fast that it needs sampling more often."""
        cap = self.run.get("log_cap")
        size = run_files.file_size(self.folder.at(LOG)) or 0
        grown, self._log_size = size - self._log_size, size
        if cap:
            run_files.free_middles(self.folder, int(cap))
        return grown > _FAST_GROWTH

    def _wait_for_event(self, deadline: Optional[float]) -> None:
        moments = [self._sample_at]
        if self.reason:
            moments.append(self._kill_at)
        elif deadline is not None:
            moments.append(deadline)
        seconds = max(0.0, min(moments) - time.monotonic())
        polls = [each for each in (self.script.poll_interval, self.folder.poll_seconds) if each is not None]
        self.wakeup.wait(min([seconds, *polls]), self.script.fd)
        self._reap_others()

    def _reap_others(self) -> None:
        """Reap adopted children, whose parents died. The script itself is reaped in script_process.py."""
        pid = ended_child() if hasattr(os, "waitid") else 0
        while pid not in (0, self.script.process.pid):
            os.waitpid(pid, 0)
            if pid == self.meter.gpu.pid:
                self.meter.gpu.collect()
            pid = ended_child()
