"""Host of a machine: forks a supervisor for each job, which is safe at any time since the host has no threads.

It is a subreaper: the script of a killed supervisor becomes its child, so that the exit status is not lost.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Any, Dict, List, Optional

from .. import failpoints
from ..channels import process as channel_process
from ..channels.process import Request
from ..supervisor import prestage
from ..supervisor.script_process import Exit, reap_children
from ..supervisor.secrets_fd import SecretsFile
from ..supervisor.supervisor import supervise
from ..system import kernel, process_tree
from ..system.cgroup import Group, Groups
from ..system.orphans import JobMarks, Orphans
from ..system.process_tree import Process, Tree
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import RunFolder
from . import loop, requests
from .framing import Pipe
from .relay import Relay

_SAFETY_SECONDS = 5.0
_MOST_UNCLAIMED = 1000
# A stopped supervisor is continued; one that is stopped again after that long is replaced.
_CONTINUED_SECONDS = 1.0
# A supervisor with a pending signal is replaced after this time: it may only lack processor time.
_UNRESPONSIVE_SECONDS = 30.0
# How long a lock may be held by an unknown process: a supervisor of another host may not have written its pid yet.
_FOREIGN_LOCK_SECONDS = 10.0
_RUN_HAS_ENDED = "The run has ended, and with it what was opened there."


def serve(root: str) -> int:
    return loop.serve(root, MachineHost)


class MachineHost(loop.Host):
    actions = requests.ACTIONS

    def __init__(self, machine: Machine, pipe: Pipe) -> None:
        super().__init__(machine, pipe, Relay(pipe), _SAFETY_SECONDS)
        prestage.forget_old(machine)
        self._supervisors: Dict[int, str] = {}  # job by pid
        self._orphaned_jobs: Dict[str, float] = {}  # jobs whose supervisor died, and when to check them
        self._recheck_at: Dict[str, float] = {}  # jobs whose supervisor may not respond, and when to check them
        self._foreign_locks: Dict[str, float] = {}  # jobs whose lock is held by an unknown process, and since when
        self._unresponsive: Dict[Process, float] = {}  # supervisors that do not respond, and since when
        self._channels_at = 0.0  # when jobs with open channels are checked next, also if they are not watched
        self._stops: Dict[str, Dict[str, Any]] = {}  # stop requests that could not be written
        self._orphans = Orphans()
        self._groups = Groups.find()
        self._unclaimed_exits: Dict[Process, Exit] = {}  # of processes whose job is not known yet
        self._restarts: Dict[str, int] = {}
        self._pending_secrets: Dict[str, SecretsFile] = {}  # of pre-staged jobs
        kernel.become_subreaper()

    def next_moment(self) -> float:
        channels = self._channels_at if self.channels.jobs else float("inf")
        return min([channels, *self._orphaned_jobs.values(), *self._recheck_at.values()])

    def due_jobs(self, now: float) -> List[str]:
        found = self.channels.jobs if now >= self._channels_at else []
        if found:
            self._channels_at = now + _SAFETY_SECONDS
        for due in (self._orphaned_jobs, self._recheck_at):
            for job in [job for job, moment in due.items() if moment <= now]:
                del due[job]
                found.append(job)
        return found

    def check_job(self, folder: RunFolder) -> None:
        if self.is_replaced(folder):
            return
        status, is_startable = folder.status(self.boot_id), False
        if status is None:
            if folder.is_prestaged():
                return  # pre-staged jobs are not reported
            is_startable = self.is_startable(folder)
            status = None if is_startable else self.ensure_supervised(folder)
        if status is not None:
            self._end_orphans(folder)
            self.channels.end_job(folder.job, _RUN_HAS_ENDED)
        watched = self.watch.jobs.get(folder.job)
        if watched is None:
            return
        seen = None if is_startable else requests.pushed_observation(folder, status)
        self.send_state(
            folder, "startable" if is_startable else "ended" if status else requests.pushed_state(seen), seen
        )
        if status is not None:  # it has the final size of each file
            self.forget(folder.job)

    # ---- jobs ----

    def begin(self, folder: RunFolder, run: Dict[str, Any], values: Dict[str, str]) -> bool:
        """Start the supervisor of a job that we have claimed, with the values of the run's secrets."""
        failpoints.reach("F10")
        lock = folder.lock()
        if lock is None:  # another host has started a supervisor for the claim
            return False
        self.watch.add(folder, run, run["nonce"])
        self._fork(folder, lock, run, self._make_secrets_file(folder.job, run, values))
        return True

    def _make_secrets_file(self, job: str, run: Dict[str, Any], values: Dict[str, str]) -> Optional[SecretsFile]:
        if not run.get("secrets"):
            return None
        secrets_file = SecretsFile(str(run.get("run")), self.machine.trash)
        if run.get("hold"):
            self._pending_secrets[job] = secrets_file
        else:
            secrets_file.fill(values)
        return secrets_file

    def fill_secrets(self, job: str, run: Dict[str, Any], values: Dict[str, str]) -> bool:
        """Give the supervisor of a pre-staged job its secrets. False if another host has created their file."""
        if run.get("hold") or not values:
            return True
        secrets_file = self._pending_secrets.pop(job, None)
        if secrets_file is None:
            return False
        secrets_file.fill(values)
        secrets_file.close()
        return True

    def is_startable(self, folder: RunFolder) -> bool:
        """Whether it is certain that a job has executed nothing, and is not about to."""
        if self.machine.supervisor_of(folder) is not None or (folder.is_locked() and not folder.is_prestaged()):
            return False
        if not folder.is_claimed:
            return folder.exists
        if folder.stop() is not None or "exec" in folder.last_events():
            return False
        # A claim of an earlier boot, or one that ended before exec, is left to a supervisor (see prestage.py).
        return folder.run().get("boot_id") == self.boot_id and folder.status(self.boot_id) is None

    def is_begun(self, folder: RunFolder) -> bool:
        """Whether a script was executed and its end is not recorded yet. Independent of the run's folder."""
        record = self.machine.supervisor_of(folder)
        return record is not None and not record["has_ended"]

    def ensure_supervised(self, folder: RunFolder) -> Optional[Dict[str, Any]]:
        """The status of a claimed job; None if it has not ended. If it has no supervisor either, one is started."""
        status = folder.status(self.boot_id)
        if status is not None or self._orphaned_jobs.get(folder.job, 0.0) > time.monotonic():
            return status
        if self._is_supervised(folder) or not (folder.is_claimed or self.is_begun(folder)):
            return None
        record = self.machine.supervisor_of(folder)
        os.makedirs(folder.at("claim"), 0o700, exist_ok=True)
        lock = folder.lock()
        if lock is None and folder.job in self._foreign_locks:
            lock = self._replace_lock(folder)
        if lock is None:
            return None
        status = folder.status(self.boot_id)  # it may have ended meanwhile
        if status is not None:
            os.close(lock)
            return status
        self._back_off(folder.job)
        self._record_exit(folder)
        self._fork(folder, lock, folder.run() or record or {}, None)
        return None

    # ---- supervisors ----

    def supervisor(self, folder: RunFolder) -> Optional[Process]:
        """The supervisor of a job, if that is proven: we have forked it, or the job's records name it, it is alive, and
        it has the lock open. Scripts can write these records, and hold the lock, too.
        """
        for pid, job in self._supervisors.items():
            if job == folder.job:
                return process_tree.identify(pid)
        lock = f"{os.path.realpath(folder.path)}/claim/lock"
        for written in (folder.supervisor(), self.machine.supervisor_of(folder)):
            if written is None or written.get("boot_id") != self.boot_id:
                continue
            process = _process(written)
            if process_tree.is_alive(process) and process_tree.has_open(process.pid, lock):
                return process
        return None

    def wake(self, folder: RunFolder, number: int = signal.SIGUSR1) -> None:
        """Signal the supervisor to check for requests. One without supervisor.json yet checks by itself."""
        supervisor = self.supervisor(folder)
        if supervisor is not None:
            process_tree.send(supervisor, number)

    def stop_unwritten(self, folder: RunFolder, stop: Dict[str, Any]) -> None:
        """Stop a job whose stop.json cannot be written: the disk is full, or permissions are missing."""
        self._stops[folder.job] = stop
        folder.unwritten_stop = stop
        if self.ensure_supervised(folder) is None:
            self.wake(folder, signal.SIGUSR2)

    def _is_supervised(self, folder: RunFolder) -> bool:
        """Whether a job has a supervisor, or may have: its lock is held by an unknown process for a short time."""
        supervisor = self.supervisor(folder)
        if supervisor is not None:
            self._foreign_locks.pop(folder.job, None)
            self._check_responsive(folder, supervisor)
            return True
        if not folder.is_locked():
            self._foreign_locks.pop(folder.job, None)
            return False
        since = self._foreign_locks.setdefault(folder.job, time.monotonic())
        is_new = time.monotonic() < since + _FOREIGN_LOCK_SECONDS
        if is_new:
            self._recheck_at[folder.job] = since + _FOREIGN_LOCK_SECONDS
        return is_new

    def _check_responsive(self, folder: RunFolder, supervisor: Process) -> None:
        """Continue a stopped supervisor, once; kill one that does not respond, so that it is replaced."""
        is_stopped = process_tree.is_stopped(supervisor.pid)
        if not is_stopped and not process_tree.has_pending(supervisor.pid, signal.SIGUSR1):
            self._unresponsive.pop(supervisor, None)
            return
        now = time.monotonic()
        if supervisor not in self._unresponsive:
            process_tree.send(supervisor, signal.SIGCONT)
        since = self._unresponsive.setdefault(supervisor, now)
        patience = _CONTINUED_SECONDS if is_stopped else _UNRESPONSIVE_SECONDS
        if now >= since + patience:
            folder.append_event("replaced", pid=supervisor.pid)
            self._end_tree_if_stopped(folder)
            process_tree.send(supervisor, signal.SIGKILL)
            del self._unresponsive[supervisor]
        self._recheck_at[folder.job] = now + _CONTINUED_SECONDS

    def _end_tree_if_stopped(self, folder: RunFolder) -> None:
        """Kill the processes of a job that is to be stopped: its script may SIGSTOP each new supervisor."""
        stop = folder.stop() or self._stops.get(folder.job)
        if stop is None or folder.run().get("container"):
            return
        if "stopping" not in folder.last_events():
            folder.append_event("stopping", reason=str(stop.get("reason") or "stopped"), kill_at=time.monotonic())
        self._tree(folder).signal(signal.SIGKILL)

    def _tree(self, folder: RunFolder) -> Tree:
        """The processes of a run, without its supervisor."""
        found = Tree(f"WINDLASS_COOKIE={folder.run().get('nonce')}", self.group(folder), is_ancestor=False)
        for process in self._orphans.owned_by(folder.job):
            found.add(process)
        written = folder.process()
        if written is not None and written.get("boot_id") == self.boot_id:
            found.add(_process(written))
        return found

    def group(self, folder: RunFolder) -> Optional[Group]:
        """The control group of a run; None where there are none."""
        if self._groups is None:
            return None
        known = (self.machine.supervisor_of(folder) or {}).get("group")
        return self._groups.group(self.machine.root, folder.job, folder.run().get("nonce"), known)

    def _replace_lock(self, folder: RunFolder) -> Optional[int]:
        """Replace a lock that is held by a process other than the supervisor. Before exec the holder could still
        execute the script: then it is killed instead.
        """
        if "exec" not in folder.last_events() and self.machine.supervisor_of(folder) is None:
            self._tree(folder).signal(signal.SIGKILL)
            return None
        self._foreign_locks.pop(folder.job, None)
        return folder.lock_anew()

    def _end_orphans(self, folder: RunFolder) -> None:
        """Kill processes that killed supervisors of a job have left."""
        self._find_orphans()
        for process in self._orphans.end(folder.job):
            process_tree.kill_below(process)

    def _find_orphans(self) -> None:
        known = {*self._supervisors, *self.channels.pids, *(() if self._cleaner is None else (self._cleaner,))}
        self._orphans.update(known, self._marks_of)

    def _marks_of(self, job: str) -> JobMarks:
        folder = self.machine.folder(job)
        written = folder.process()
        return JobMarks(os.fsencode(f"WINDLASS_COOKIE={folder.run().get('nonce')}"), written["pid"] if written else 0)

    def _back_off(self, job: str) -> None:
        """Delay the next supervisor of a job, exponentially: its supervisors may die at once."""
        tries = self._restarts[job] = self._restarts.get(job, 0) + 1
        if tries > 1:
            self._orphaned_jobs[job] = time.monotonic() + min(60.0, 0.05 * 2 ** min(tries, 12))

    def _fork(self, folder: RunFolder, lock: int, run: Dict[str, Any], secrets_file: Optional[SecretsFile]) -> None:
        try:
            pid = os.fork()
        except OSError:
            os.close(lock)  # else the host would hold it, like a supervisor
            if secrets_file is not None:
                self._pending_secrets.pop(folder.job, None)
                secrets_file.close()
            raise
        if pid == 0:
            code = 1
            try:
                folder.unwritten_stop = self._stops.get(folder.job)
                self.drop_descriptors(folder.job)
                known = self._orphans.owned_by(folder.job)
                code = supervise(self.machine, folder, lock, run, self.boot_id, secrets_file, self.group(folder), known)
            finally:
                os._exit(code)
        os.close(lock)
        if secrets_file is not None and folder.job not in self._pending_secrets:
            secrets_file.close()
        self._supervisors[pid] = folder.job

    def open_channel(self, number: int, folder: Optional[RunFolder], request: Request) -> None:
        """Open a channel to a job's surroundings; without a folder, to those of the account."""
        group = self.group(folder) if folder is not None else None

        def fork(connection: socket.socket, mark: str) -> int:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    self.drop_descriptors()
                    code = channel_process.serve(self.machine, folder, request, mark, connection, group)
                finally:
                    os._exit(code)
            return pid

        self.channels.open(number, folder.job if folder is not None else "", fork)

    def drop_descriptors(self, job: str = "") -> None:
        for other in [other for other in self._pending_secrets if other != job]:
            self._pending_secrets[other].close()
        super().drop_descriptors(job)

    def discard(self, folder: RunFolder) -> None:
        self._end_orphans(folder)
        self.channels.end_job(folder.job, _RUN_HAS_ENDED)
        group = self.group(folder)
        if group is not None:
            group.kill()
            group.remove()
        super().discard(folder)

    def forget(self, job: str) -> None:
        super().forget(job)
        self._restarts.pop(job, None)
        self._orphaned_jobs.pop(job, None)
        self._recheck_at.pop(job, None)
        self._foreign_locks.pop(job, None)
        self._stops.pop(job, None)
        self._close_secrets(job)

    def _close_secrets(self, job: str) -> None:
        secrets_file = self._pending_secrets.pop(job, None)
        if secrets_file is not None:
            secrets_file.close()

    # ---- ended children ----

    def reap(self) -> None:
        """Reap children that ended: supervisors, and orphans of killed supervisors."""
        orphaned = []
        for pid, process, ended in reap_children():
            if pid in self._supervisors:
                orphaned.append(self._supervisors.pop(pid))
                if ended != Exit(0):
                    self._orphans.add_job(orphaned[-1])
            elif self.channels.reap(pid, has_failed=ended != Exit(0)) or self.reap_cleaner(pid):
                continue
            elif process is not None:
                self._unclaimed_exits[process] = ended
        self._find_orphans()
        for job in {*orphaned, *self._restarts}:
            self._record_exit(self.machine.folder(job))
        for job in orphaned:
            self._close_secrets(job)
            self.watch.changed_jobs.add(job)
        while len(self._unclaimed_exits) > _MOST_UNCLAIMED:
            del self._unclaimed_exits[next(iter(self._unclaimed_exits))]

    def _record_exit(self, folder: RunFolder) -> None:
        """If the host has reaped this job's script, record its exit status: the new supervisor waits for it."""
        written = folder.process() if self._unclaimed_exits else None
        if written is None:
            return
        ended = self._unclaimed_exits.pop(_process(written), None)
        if ended is not None and "exited" not in folder.last_events():
            folder.append_event("exited", by="host", **ended._asdict())


def _process(written: Dict[str, Any]) -> Process:
    return Process(written["pid"], written["starttime"])
