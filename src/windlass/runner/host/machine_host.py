"""The host of a machine: it forks a supervisor for each job, at any time, which it can since it has no threads.

It is a subreaper: the script of a supervisor that was killed becomes its child, so that its true exit status is known
all the same.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, List, Optional

from .. import failpoints
from ..supervisor import prestage
from ..supervisor.script_process import Exit, reap_children
from ..supervisor.secrets_fd import Granted
from ..supervisor.supervisor import supervise
from ..system import kernel, process_tree
from ..system.cgroup import Group, Groups
from ..system.orphans import Orphans, Signs
from ..system.process_tree import Process, Tree
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import RunFolder
from . import loop, requests
from .framing import Pipe
from .relay import Relay

_SAFETY_SECONDS = 5.0
_MOST_UNCLAIMED = 1000
# A supervisor that was stopped is continued; one that is stopped again after that long is replaced.
_CONTINUED_SECONDS = 1.0
# A supervisor that has not taken a signal of ours for so long is replaced: it may only be starved of a processor.
_DEAF_SECONDS = 30.0
# How long a lock may be held by a process that is not known as the supervisor: another host's may not have signed yet.
_UNNAMED_SECONDS = 10.0


def serve(root: str) -> int:
    return loop.serve(root, MachineHost)


class MachineHost(loop.Host):
    actions = requests.ACTIONS

    def __init__(self, machine: Machine, pipe: Pipe) -> None:
        super().__init__(machine, pipe, Relay(pipe), _SAFETY_SECONDS)
        prestage.forget_old(machine)
        self._supervisors: Dict[int, str] = {}  # job by pid
        self._orphaned: Dict[str, float] = {}  # jobs whose supervisor died, and when to look at them
        self._checks: Dict[str, float] = {}  # jobs whose supervisor is in doubt, and when to look at them
        self._unnamed: Dict[str, float] = {}  # jobs whose lock is held by an unknown process, and since when
        self._deaf: Dict[Process, float] = {}  # supervisors that do not react, and since when
        self._stops: Dict[str, Dict[str, Any]] = {}  # to stop jobs, which could not be written down
        self._orphans = Orphans()
        self._groups = Groups.find()
        self._unclaimed_exits: Dict[Process, Exit] = {}  # of processes whose job is not known yet
        self._tries: Dict[str, int] = {}
        self._pending_secrets: Dict[str, Granted] = {}  # of jobs that are held ready
        kernel.become_subreaper()

    def next_moment(self) -> float:
        return min([float("inf"), *self._orphaned.values(), *self._checks.values()])

    def due_jobs(self, now: float) -> List[str]:
        found = []
        for due in (self._orphaned, self._checks):
            for job in [job for job, moment in due.items() if moment <= now]:
                del due[job]
                found.append(job)
        return found

    def look_at(self, folder: RunFolder) -> None:
        if self.is_replaced(folder):
            return
        status, is_startable = folder.status(self.boot_id), False
        if status is None:
            if folder.is_held():
                return  # nothing has become of it yet
            is_startable = self.is_startable(folder)
            status = None if is_startable else self.ensure_supervised(folder)
        if status is not None:
            self._end_orphans(folder)
        watched = self.watch.jobs.get(folder.job)
        if watched is None:
            return
        seen = None if is_startable else requests.seen(folder, status)
        self.send_state(folder, "startable" if is_startable else "ended" if status else requests.stage_of(seen), seen)
        if status is not None:  # which says how large each file is
            self.forget(folder.job)

    # ---- jobs ----

    def begin(self, folder: RunFolder, run: Dict[str, Any], values: Dict[str, str]) -> bool:
        """The claim is ours: start a supervisor, with the values of what the run was granted."""
        failpoints.reach("F10")
        lock = folder.lock()
        if lock is None:  # another host has found the claim without a supervisor, and was quicker
            return False
        self.watch.add(folder, run, run["nonce"])
        self._fork(folder, lock, run, self._grant(folder.job, run, values))
        return True

    def _grant(self, job: str, run: Dict[str, Any], values: Dict[str, str]) -> Optional[Granted]:
        if not run.get("secrets"):
            return None
        granted = Granted(str(run.get("run")), self.machine.trash)
        if run.get("hold"):
            self._pending_secrets[job] = granted
        else:
            granted.fill(values)
        return granted

    def hand_over(self, job: str, run: Dict[str, Any], values: Dict[str, str]) -> bool:
        """Give a supervisor that holds a job ready what its run was granted; False if it cannot be had from us."""
        if run.get("hold") or not values:
            return True
        granted = self._pending_secrets.pop(job, None)
        if granted is None:
            return False
        granted.fill(values)
        granted.close()
        return True

    def is_startable(self, folder: RunFolder) -> bool:
        """Whether there is proof that nothing was executed for a job, and nothing is about to be."""
        if self.machine.supervisor_of(folder) is not None or (folder.is_locked() and not folder.is_held()):
            return False
        if not folder.is_claimed:
            return folder.exists
        if folder.stop() is not None or "exec" in folder.story():
            return False
        # Another boot's claim, or one that was ended before its exec, is for a supervisor to judge (see prestage.py).
        return folder.run().get("boot_id") == self.boot_id and folder.status(self.boot_id) is None

    def is_begun(self, folder: RunFolder) -> bool:
        """Whether a script was executed and its end not recorded yet, whatever it did to its folder."""
        begun = self.machine.supervisor_of(folder)
        return begun is not None and not begun["has_ended"]

    def ensure_supervised(self, folder: RunFolder) -> Optional[Dict[str, Any]]:
        """How a claimed job ended, or None. If it has begun, and has neither an end nor a supervisor, it gets one."""
        status = folder.status(self.boot_id)
        if status is not None or self._orphaned.get(folder.job, 0.0) > time.monotonic():
            return status
        if self._is_supervised(folder) or not (folder.is_claimed or self.is_begun(folder)):
            return None
        begun = self.machine.supervisor_of(folder)
        os.makedirs(folder.at("claim"), 0o700, exist_ok=True)
        lock = folder.lock()
        if lock is None and folder.job in self._unnamed:
            lock = self._replace_lock(folder)
        if lock is None:
            return None
        status = folder.status(self.boot_id)  # it may have ended between two looks
        if status is not None:
            os.close(lock)
            return status
        self._count_try(folder.job)
        self._record_exit(folder)
        self._fork(folder, lock, folder.run() or begun or {}, None)
        return None

    # ---- supervisors ----

    def supervisor(self, folder: RunFolder) -> Optional[Process]:
        """The process that supervises a job, if it is proven to: we have forked it, or it is the one that the job's
        records name, lives, and has its lock open. Scripts can write these records, and hold the lock, too.
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
        """Have a supervisor look for news. One that has not signed yet does so by itself."""
        supervisor = self.supervisor(folder)
        if supervisor is not None:
            process_tree.send(supervisor, number)

    def stop_unwritten(self, folder: RunFolder, stop: Dict[str, Any]) -> None:
        """Have a job stopped in whose folder nothing can be written: the disk is full, or its script took the right."""
        self._stops[folder.job] = stop
        folder.unwritten_stop = stop
        if self.ensure_supervised(folder) is None:
            self.wake(folder, signal.SIGUSR2)

    def _is_supervised(self, folder: RunFolder) -> bool:
        """Whether a supervisor looks after a job, as far as is known now."""
        supervisor = self.supervisor(folder)
        if supervisor is not None:
            self._unnamed.pop(folder.job, None)
            self._check(folder, supervisor)
            return True
        if not folder.is_locked():
            self._unnamed.pop(folder.job, None)
            return False
        since = self._unnamed.setdefault(folder.job, time.monotonic())
        is_new = time.monotonic() < since + _UNNAMED_SECONDS
        if is_new:
            self._checks[folder.job] = since + _UNNAMED_SECONDS
        return is_new

    def _check(self, folder: RunFolder, supervisor: Process) -> None:
        """Continue a supervisor that was stopped, once; kill one that does not react. Its successor is begun when it
        is dead.
        """
        is_stopped = process_tree.is_stopped(supervisor.pid)
        if not is_stopped and not process_tree.has_pending(supervisor.pid, signal.SIGUSR1):
            self._deaf.pop(supervisor, None)
            return
        now = time.monotonic()
        if supervisor not in self._deaf:
            process_tree.send(supervisor, signal.SIGCONT)
        since = self._deaf.setdefault(supervisor, now)
        patience = _CONTINUED_SECONDS if is_stopped else _DEAF_SECONDS
        if now >= since + patience:
            folder.tell("replaced", pid=supervisor.pid)
            self._end_tree_if_stopped(folder)
            process_tree.send(supervisor, signal.SIGKILL)
            del self._deaf[supervisor]
        self._checks[folder.job] = now + _CONTINUED_SECONDS

    def _end_tree_if_stopped(self, folder: RunFolder) -> None:
        """The script of a job that is to be stopped may stop every supervisor before that one can act: so we end it."""
        stop = folder.stop() or self._stops.get(folder.job)
        if stop is None or folder.run().get("container"):
            return
        if "stopping" not in folder.story():
            folder.tell("stopping", reason=str(stop.get("reason") or "stopped"), kill_at=time.monotonic())
        self._tree(folder).signal(signal.SIGKILL)

    def _tree(self, folder: RunFolder) -> Tree:
        """The processes of a run, without its supervisor."""
        found = Tree(f"WINDLASS_COOKIE={folder.run().get('nonce')}", self.group(folder), is_ancestor=False)
        for process in self._orphans.of(folder.job):
            found.know(process)
        written = folder.process()
        if written is not None and written.get("boot_id") == self.boot_id:
            found.know(_process(written))
        return found

    def group(self, folder: RunFolder) -> Optional[Group]:
        """The control group of a run; None where there are none."""
        if self._groups is None:
            return None
        known = (self.machine.supervisor_of(folder) or {}).get("group")
        return self._groups.group(self.machine.root, folder.job, folder.run().get("nonce"), known)

    def _replace_lock(self, folder: RunFolder) -> Optional[int]:
        """Another lock instead of one that a process holds which is not the supervisor. Not before the script was
        executed: then the owner of the old one could execute it, too. It is ended instead.
        """
        if "exec" not in folder.story() and self.machine.supervisor_of(folder) is None:
            self._tree(folder).signal(signal.SIGKILL)
            return None
        self._unnamed.pop(folder.job, None)
        return folder.lock_anew()

    def _end_orphans(self, folder: RunFolder) -> None:
        """End what the supervisors of a job left us when they were killed."""
        self._inherit()
        for process in self._orphans.end(folder.job):
            process_tree.kill_below(process)

    def _inherit(self) -> None:
        known = {*self._supervisors, *(() if self._cleaner is None else (self._cleaner,))}
        self._orphans.look(known, self._signs)

    def _signs(self, job: str) -> Signs:
        folder = self.machine.folder(job)
        written = folder.process()
        return Signs(os.fsencode(f"WINDLASS_COOKIE={folder.run().get('nonce')}"), written["pid"] if written else 0)

    def _count_try(self, job: str) -> None:
        """Supervisors that die as soon as they live are not replaced ever more often."""
        tries = self._tries[job] = self._tries.get(job, 0) + 1
        if tries > 1:
            self._orphaned[job] = time.monotonic() + min(60.0, 0.05 * 2 ** min(tries, 12))

    def _fork(self, folder: RunFolder, lock: int, run: Dict[str, Any], granted: Optional[Granted]) -> None:
        try:
            pid = os.fork()
        except OSError:
            os.close(lock)  # else we would seem to be its supervisor
            if granted is not None:
                self._pending_secrets.pop(folder.job, None)
                granted.close()
            raise
        if pid == 0:
            code = 1
            try:
                folder.unwritten_stop = self._stops.get(folder.job)
                self.drop_descriptors(folder.job)
                known = self._orphans.of(folder.job)
                code = supervise(self.machine, folder, lock, run, self.boot_id, granted, self.group(folder), known)
            finally:
                os._exit(code)
        os.close(lock)
        if granted is not None and folder.job not in self._pending_secrets:
            granted.close()
        self._supervisors[pid] = folder.job

    def drop_descriptors(self, job: str = "") -> None:
        for other in [other for other in self._pending_secrets if other != job]:
            self._pending_secrets[other].close()
        super().drop_descriptors(job)

    def discard(self, folder: RunFolder) -> None:
        self._end_orphans(folder)
        group = self.group(folder)
        if group is not None:
            group.kill()
            group.remove()
        super().discard(folder)

    def forget(self, job: str) -> None:
        super().forget(job)
        self._tries.pop(job, None)
        self._orphaned.pop(job, None)
        self._checks.pop(job, None)
        self._unnamed.pop(job, None)
        self._stops.pop(job, None)
        self._let_go(job)

    def _let_go(self, job: str) -> None:
        granted = self._pending_secrets.pop(job, None)
        if granted is not None:
            granted.close()

    # ---- the dead ----

    def reap(self) -> None:
        """Let go of children that ended: supervisors, and what supervisors that were killed have left us."""
        orphaned = []
        for pid, process, ended in reap_children():
            if pid in self._supervisors:
                orphaned.append(self._supervisors.pop(pid))
                if ended != Exit(0):
                    self._orphans.expect(orphaned[-1])
            elif not self.has_cleaned(pid) and process is not None:
                self._unclaimed_exits[process] = ended
        self._inherit()
        for job in {*orphaned, *self._tries}:
            self._record_exit(self.machine.folder(job))
        for job in orphaned:
            self._let_go(job)
            self.watch.news.add(job)
        while len(self._unclaimed_exits) > _MOST_UNCLAIMED:
            del self._unclaimed_exits[next(iter(self._unclaimed_exits))]

    def _record_exit(self, folder: RunFolder) -> None:
        """If a script of this job has died in our arms, tell how: its new supervisor waits for it."""
        written = folder.process() if self._unclaimed_exits else None
        if written is None:
            return
        ended = self._unclaimed_exits.pop(_process(written), None)
        if ended is not None and "exited" not in folder.story():
            folder.tell("exited", by="host", **ended._asdict())


def _process(written: Dict[str, Any]) -> Process:
    return Process(written["pid"], written["starttime"])
