"""The far end of the pipe: one process a machine, warm, without threads, so that it may fork a supervisor at any time.

It answers requests, tells what happens in the folders it was asked to watch, and is a subreaper: the script of a
supervisor that was killed becomes its child, so that its true exit status is known all the same.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
import traceback
from typing import Any, Dict, List, Optional

from . import failpoints, hold, kernel, requests, spares, tree
from .folder import RunFolder
from .frames import BrokenFrame, Pipe
from .granted import Granted
from .machine import Machine
from .relay import Relay
from .script import Exit, reap_children
from .supervise import supervise
from .system import stopped
from .system.cgroup import Group, Groups
from .system.orphans import Orphans, Signs
from .tree import Process, Tree
from .wakeup import Wakeup
from .watch import Watch, Watched

_MOST_STRANGERS = 1000
# A supervisor that was stopped is continued; one that is stopped again after that long is replaced.
_CONTINUED_SECONDS = 1.0
# A supervisor that has not taken a signal of ours for so long is replaced: it may only be starved of a processor.
_DEAF_SECONDS = 30.0
# How long a lock may be held by a process that is not known as the supervisor: another host's may not have signed yet.
_UNNAMED_SECONDS = 10.0


def serve(root: str) -> int:
    os.umask(0o077)
    _close_strays()
    pipe = Pipe(os.dup(0), os.dup(1))
    _leave_standard_streams(keep_errors=True)
    machine = Machine(root)
    machine.make()
    hold.forget_old(machine)
    host = Host(machine, pipe)
    host.greet()
    stopped.continue_all(root)
    gc.collect()
    gc.freeze()  # what is here now is shared with every supervisor, and stays so
    try:
        host.run()
    except BrokenFrame as e:
        print(f"windlass runner: the pipe broke off: {e}", file=sys.stderr)
        return 1
    return 0


def _close_strays() -> None:
    """Descriptors that whoever started us forgot to close; scripts should not inherit them."""
    if os.path.isdir("/proc/self/fd"):
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                try:
                    os.close(int(name))
                except OSError:
                    pass


def _leave_standard_streams(keep_errors: bool) -> None:
    """Nothing that is printed by accident may get into the pipe, and nobody may wait for us to close it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2 if keep_errors else nothing, 1)
    if not keep_errors:
        os.dup2(nothing, 2)
    os.close(nothing)


class Host:
    def __init__(self, machine: Machine, pipe: Pipe) -> None:
        self.machine = machine
        self.pipe = pipe
        self.boot_id = tree.boot_id()
        self.python = sys.version.split()[0]
        self.watch = Watch(self._tell_grown)
        self.relay = Relay(pipe)
        # Not a terminal's signals but the end of stdin ends a host.
        self._wakeup = Wakeup((signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP))
        self._supervisors: Dict[int, str] = {}  # job by pid
        self._cleaner: Optional[int] = None  # a child that removes what was put into the trash
        self._has_more_trash = False
        self._bereft: Dict[str, float] = {}  # jobs whose supervisor died, and when to look at them
        self._checks: Dict[str, float] = {}  # jobs whose supervisor is in doubt, and when to look at them
        self._unnamed: Dict[str, float] = {}  # jobs whose lock is held by an unknown process, and since when
        self._deaf: Dict[Process, float] = {}  # supervisors that do not react, and since when
        self._wishes: Dict[str, Dict[str, Any]] = {}  # to stop jobs, which could not be written down
        self._orphans = Orphans()
        self._groups = Groups.find()
        self._strangers: Dict[Process, Exit] = {}  # the dead that nobody has asked for yet
        self._tries: Dict[str, int] = {}
        self._to_fill: Dict[str, Granted] = {}  # of jobs that are held ready
        kernel.become_subreaper()

    def greet(self) -> None:
        self.pipe.greet()
        self.pipe.send(
            {"event": "hello", "version": 1, "pid": os.getpid(), "python": self.python,
             "boot_id": self.boot_id, "root": self.machine.root, "now": time.time()}
        )  # fmt: skip
        if os.listdir(self.machine.trash) or os.listdir(self.machine.spares):
            self.clear_away()

    # ---- the loop ----

    def run(self) -> None:
        while self.pipe.is_open:
            ready = self._wait()
            if self._wakeup.fd in ready:
                self._wakeup.drain()
                self._reap()
            self.watch.listen(ready)
            if self.pipe.sink in ready:
                self.pipe.flush()
            if self.pipe.source in ready:
                self._serve()
            self.relay.serve(ready)
            self._step()

    def _wait(self) -> List[int]:
        poll = select.poll()
        poll.register(self._wakeup.fd, select.POLLIN)
        if self.pipe.is_listening:
            poll.register(self.pipe.source, select.POLLIN)
        if self.pipe.has_waiting:
            poll.register(self.pipe.sink, select.POLLOUT)
        for fd in self.watch.fds:
            poll.register(fd, select.POLLIN)
        self.relay.register(poll)
        moments = (*self._bereft.values(), *self._checks.values())
        moment = min([self.watch.next_moment(), self.relay.next_moment(), *moments])
        return [fd for fd, _ in poll.poll(max(0.0, moment - time.monotonic()) * 1000)]

    def _serve(self) -> None:
        for request, body in self.pipe.receive():
            try:
                found, data = requests.answer(self, request, body)
            except Exception:  # a bug of ours ends this request, not the host
                traceback.print_exc()
                trouble = traceback.format_exc().strip().splitlines()[-1]
                found, data = {"error": {"code": "failed", "message": f"The runner failed: {trouble}"}}, b""
            self.pipe.send({"id": request.get("id"), "ok": "error" not in found, **found}, data)

    def _step(self) -> None:
        now = time.monotonic()
        for due in (self._bereft, self._checks):
            for job in [job for job, moment in due.items() if moment <= now]:
                del due[job]
                self.watch.news.add(job)
        self._tell_news()  # a state before the log that belongs to it
        self.watch.step(is_heard=self.pipe.is_listening)
        self.relay.step(now)
        self._tell_news()

    def _tell_news(self) -> None:
        while self.watch.news:
            try:
                self._look_at(self.machine.folder(self.watch.news.pop()))
            except OSError:  # its script took a right away, or no process can be made now: the others go on
                traceback.print_exc()

    def _look_at(self, folder: RunFolder) -> None:
        """Tell what became of a job, if it is one that is watched."""
        watched = self.watch.jobs.get(folder.job)
        if watched is not None and not self.machine.is_of(folder, watched.nonce):
            self._forget(folder.job)  # it was cleaned up, and another server has a job of that id here now
            return self._tell_changed(folder.job, watched.nonce)
        status, is_startable = folder.status(self.boot_id), False
        if status is None:
            if folder.is_held():
                return  # nothing has become of it yet
            is_startable = self.is_startable(folder)
            status = None if is_startable else self.examine(folder)
        if status is not None:
            self._end_orphans(folder)
        watched = self.watch.jobs.get(folder.job)
        if watched is None:
            return
        if status is not None:  # which says how large each file is
            self._forget(folder.job)
        seen = None if is_startable else requests.seen(folder, status)
        state = "startable" if is_startable else "ended" if status else requests.stage_of(seen)
        if state != watched.state:
            watched.state = state
            self._tell_changed(folder.job, watched.nonce, seen)

    def _tell_grown(self, watched: Watched, path: str, size: int) -> None:
        if self.machine.is_of(watched.folder, watched.nonce):
            job = watched.folder.job
            self.pipe.send({"event": "grew", "job": job, "nonce": watched.nonce, "path": path, "size": size})

    def _tell_changed(self, job: str, nonce: str, seen: Optional[Dict[str, Any]] = None) -> None:
        self.pipe.send({"event": "changed", "job": job, "nonce": nonce, **({} if seen is None else {"seen": seen})})

    # ---- jobs ----

    def attend(self, folder: RunFolder, nonce: str) -> None:
        """From now on tell what happens to a job; its present state counts as news."""
        if folder.exists and self.machine.is_of(folder, nonce):
            self.watch.add(folder, folder.run(), nonce)
            self.watch.look_around(folder.job)
            self.watch.news.add(folder.job)
        self._tell_changed(folder.job, nonce)

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
            self._to_fill[job] = granted
        else:
            granted.fill(values)
        return granted

    def hand_over(self, job: str, run: Dict[str, Any], values: Dict[str, str]) -> bool:
        """Give a supervisor that holds a job ready what its run was granted; False if it cannot be had from us."""
        if run.get("hold") or not values:
            return True
        granted = self._to_fill.pop(job, None)
        if granted is None:
            return False
        granted.fill(values)
        granted.close()
        return True

    def is_startable(self, folder: RunFolder) -> bool:
        """Whether there is proof that nothing was executed for a job, and nobody is about to."""
        if self.machine.supervisor_of(folder) is not None or (folder.is_locked() and not folder.is_held()):
            return False
        if not folder.is_claimed:
            return folder.exists
        if folder.stop() is not None or "exec" in folder.story():
            return False
        # Another boot's claim, or one that was ended before its exec, is for a supervisor to judge; see also hold.py.
        return folder.run().get("boot_id") == self.boot_id and folder.status(self.boot_id) is None

    def is_begun(self, folder: RunFolder) -> bool:
        """Whether a script was executed and its end not told yet, whatever it did to its folder."""
        begun = self.machine.supervisor_of(folder)
        return begun is not None and not begun["has_ended"]

    def examine(self, folder: RunFolder) -> Optional[Dict[str, Any]]:
        """How a claimed job ended, or None. If it has begun, and has neither an end nor a supervisor, it gets one."""
        status = folder.status(self.boot_id)
        if status is not None or self._bereft.get(folder.job, 0.0) > time.monotonic():
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
        self._match(folder)
        self._fork(folder, lock, folder.run() or begun or {}, None)
        return None

    # ---- supervisors ----

    def supervisor(self, folder: RunFolder) -> Optional[Process]:
        """The process that supervises a job, if it is proven to: we have forked it, or it is the one that the job's
        records name, lives, and has its lock open. Scripts can write these records, and hold the lock, too.
        """
        for pid, job in self._supervisors.items():
            if job == folder.job:
                return tree.identify(pid)
        lock = f"{os.path.realpath(folder.path)}/claim/lock"
        for written in (folder.supervisor(), self.machine.supervisor_of(folder)):
            if written is None or written.get("boot_id") != self.boot_id:
                continue
            process = _process(written)
            if tree.is_alive(process) and tree.has_open(process.pid, lock):
                return process
        return None

    def wake(self, folder: RunFolder, number: int = signal.SIGUSR1) -> None:
        """Have a supervisor look for news. One that has not signed yet does so by itself."""
        supervisor = self.supervisor(folder)
        if supervisor is not None:
            tree.send(supervisor, number)

    def stop_unwritten(self, folder: RunFolder, wish: Dict[str, Any]) -> None:
        """Have a job stopped in whose folder nothing can be written: the disk is full, or its script took the right."""
        self._wishes[folder.job] = wish
        folder.wish = wish
        if self.examine(folder) is None:
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
        is_stopped = tree.is_stopped(supervisor.pid)
        if not is_stopped and not tree.has_pending(supervisor.pid, signal.SIGUSR1):
            self._deaf.pop(supervisor, None)
            return
        now = time.monotonic()
        if supervisor not in self._deaf:
            tree.send(supervisor, signal.SIGCONT)
        since = self._deaf.setdefault(supervisor, now)
        patience = _CONTINUED_SECONDS if is_stopped else _DEAF_SECONDS
        if now >= since + patience:
            folder.tell("replaced", pid=supervisor.pid)
            self._end_tree_if_stopped(folder)
            tree.send(supervisor, signal.SIGKILL)
            del self._deaf[supervisor]
        self._checks[folder.job] = now + _CONTINUED_SECONDS

    def _end_tree_if_stopped(self, folder: RunFolder) -> None:
        """The script of a job that is to be stopped may stop every supervisor before that one can act: so we end it."""
        stop = folder.stop() or self._wishes.get(folder.job)
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
            tree.kill_below(process)

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
            self._bereft[job] = time.monotonic() + min(60.0, 0.05 * 2 ** min(tries, 12))

    def _fork(self, folder: RunFolder, lock: int, run: Dict[str, Any], granted: Optional[Granted]) -> None:
        try:
            pid = os.fork()
        except OSError:
            os.close(lock)  # else we would seem to be its supervisor
            if granted is not None:
                self._to_fill.pop(folder.job, None)
                granted.close()
            raise
        if pid == 0:
            code = 1
            try:
                folder.wish = self._wishes.get(folder.job)
                self._become_nobody(folder.job)
                known = self._orphans.of(folder.job)
                code = supervise(self.machine, folder, lock, run, self.boot_id, granted, self.group(folder), known)
            finally:
                os._exit(code)
        os.close(lock)
        if granted is not None and folder.job not in self._to_fill:
            granted.close()
        self._supervisors[pid] = folder.job

    def _become_nobody(self, job: str = "") -> None:
        """In the child: nothing of the host is kept but its warm modules, and what is for this job."""
        for other in [other for other in self._to_fill if other != job]:
            self._to_fill[other].close()
        self._wakeup.close()
        self.watch.close()
        self.relay.close()
        os.close(self.pipe.source)
        os.close(self.pipe.sink)
        os.setsid()
        os.chdir("/")
        _leave_standard_streams(keep_errors=False)

    def discard(self, folder: RunFolder) -> None:
        """Forget a job and remove its folder; big ones take long, so that is done by a child."""
        self._forget(folder.job)
        self._end_orphans(folder)
        group = self.group(folder)
        if group is not None:
            group.kill()
            group.remove()
        if folder.exists:
            os.rename(folder.path, f"{self.machine.trash}/{folder.job}.{time.monotonic_ns()}")
            self.clear_away()

    def _forget(self, job: str) -> None:
        self.watch.remove(job)
        self._tries.pop(job, None)
        self._bereft.pop(job, None)
        self._checks.pop(job, None)
        self._unnamed.pop(job, None)
        self._wishes.pop(job, None)
        self._let_go(job)

    def _let_go(self, job: str) -> None:
        granted = self._to_fill.pop(job, None)
        if granted is not None:
            granted.close()

    def clear_away(self) -> None:
        """Remove what was put into the trash, which may take long: by a child."""
        if self._cleaner is not None:
            self._has_more_trash = True
            return
        self._has_more_trash = False
        pid = os.fork()
        if pid == 0:
            try:
                self._become_nobody()
                spares.clear_away(self.machine, self.boot_id)
            finally:
                os._exit(0)
        self._cleaner = pid

    # ---- the dead ----

    def _reap(self) -> None:
        """Let go of children that ended: supervisors, and what supervisors that were killed have left us."""
        orphaned = []
        for pid, process, ended in reap_children():
            if pid in self._supervisors:
                orphaned.append(self._supervisors.pop(pid))
                if ended != Exit(0):
                    self._orphans.expect(orphaned[-1])
            elif pid == self._cleaner:
                self._cleaner = None
                if self._has_more_trash:
                    self.clear_away()
            elif process is not None:
                self._strangers[process] = ended
        self._inherit()
        for job in {*orphaned, *self._tries}:
            self._match(self.machine.folder(job))
        for job in orphaned:
            self._let_go(job)
            self.watch.news.add(job)
        while len(self._strangers) > _MOST_STRANGERS:
            del self._strangers[next(iter(self._strangers))]

    def _match(self, folder: RunFolder) -> None:
        """If a script of this job has died in our arms, tell how: its new supervisor waits for it."""
        written = folder.process() if self._strangers else None
        if written is None:
            return
        ended = self._strangers.pop(_process(written), None)
        if ended is not None and "exited" not in folder.story():
            folder.tell("exited", by="host", **ended._asdict())


def _process(written: Dict[str, Any]) -> Process:
    return Process(written["pid"], written["starttime"])
