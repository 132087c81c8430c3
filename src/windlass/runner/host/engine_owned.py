"""Host for jobs that an engine starts: it places, reads, observes, stops and cleans up jobs.

It never forks or adopts a supervisor and concludes nothing from process ids: the supervisor (supervisor/standalone.py)
may run on another machine that shares only the folder. The state of a job is what its folder says.
"""

from __future__ import annotations

from typing import Any, Dict

from ..shared_folder import heartbeat, permission
from ..shared_folder.heartbeat import Heartbeats
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import RunFolder
from . import engine_requests, loop, requests
from .folder_relay import FolderRelay
from .framing import Pipe

# inotify does not report what other machines write.
_SAFETY_SECONDS = 1.0


def serve(root: str) -> int:
    return loop.serve(root, EngineOwnedHost)


class EngineOwnedHost(loop.Host):
    actions = engine_requests.ACTIONS
    relay: FolderRelay

    def __init__(self, machine: Machine, pipe: Pipe) -> None:
        super().__init__(machine, pipe, FolderRelay(pipe), _SAFETY_SECONDS)
        self.heartbeats = Heartbeats()

    def follow(self, folder: RunFolder, run: Dict[str, Any], nonce: str) -> None:
        """Watch a placed job, and relay the calls of its script."""
        self.watch.add(folder, run, nonce)
        self.relay.add(folder, run)

    def watch_job(self, folder: RunFolder, nonce: str) -> None:
        super().watch_job(folder, nonce)
        if folder.job in self.watch.jobs:
            self.relay.add(folder, folder.run())

    def forget(self, job: str) -> None:
        super().forget(job)
        self.relay.remove(job)
        self.heartbeats.forget(self.machine.folder(job).path)

    def silence(self, folder: RunFolder) -> float:
        """Seconds without a heartbeat of the job's supervisor."""
        return self.heartbeats.silence(folder.at(heartbeat.NAME))

    def check_job(self, folder: RunFolder) -> None:
        if folder.job not in self.watch.jobs or self.is_replaced(folder):
            return
        status = folder.status(self.boot_id)
        if status is None and not folder.is_claimed:
            # A bare event: the server then asks for waiting instances, and for the job's state in the engine.
            instances = permission.waiting(folder, self.heartbeats)
            self.send_state(folder, f"waiting: {' '.join(instances)}" if instances else "", None)
            return
        seen = requests.pushed_observation(folder, status)
        self.send_state(folder, "ended" if status else requests.pushed_state(seen), seen)
        if status is not None:
            self.forget(folder.job)
