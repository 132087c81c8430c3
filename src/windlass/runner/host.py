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
from .tree import Process
from .wakeup import Wakeup
from .watch import Watch

_MOST_STRANGERS = 1000


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
        self._wakeup = Wakeup((signal.SIGCHLD, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP))
        self._supervisors: Dict[int, str] = {}  # job by pid
        self._cleaner: Optional[int] = None  # a child that removes what was put into the trash
        self._has_more_trash = False
        self._bereft: Dict[str, float] = {}  # jobs whose supervisor died, and when to look at them
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
        moment = min([self.watch.next_moment(), self.relay.next_moment(), *self._bereft.values()])
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
        for job in [job for job, moment in self._bereft.items() if moment <= now]:
            del self._bereft[job]
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
        status, is_startable = folder.status(self.boot_id), False
        if status is None:
            if folder.is_held():
                return  # nothing has become of it yet
            is_startable = self.is_startable(folder)
            status = None if is_startable else self.examine(folder)
        watched = self.watch.jobs.get(folder.job)
        if watched is None:
            return
        if status is not None:  # which says how large each file is
            self._forget(folder.job)
        seen = None if is_startable else requests.seen(folder, status)
        state = "startable" if is_startable else "ended" if status else requests.stage_of(seen)
        if state != watched.state:
            watched.state = state
            self._tell_changed(folder.job, seen)

    def _tell_grown(self, job: str, path: str, size: int) -> None:
        self.pipe.send({"event": "grew", "job": job, "path": path, "size": size})

    def _tell_changed(self, job: str, seen: Optional[Dict[str, Any]] = None) -> None:
        self.pipe.send({"event": "changed", "job": job, **({} if seen is None else {"seen": seen})})

    # ---- jobs ----

    def attend(self, folder: RunFolder) -> None:
        """From now on tell what happens to a job; its present state counts as news."""
        if folder.exists:
            self.watch.add(folder, folder.run())
            self.watch.look_around(folder.job)
            self.watch.news.add(folder.job)
        self._tell_changed(folder.job)

    def begin(self, folder: RunFolder, run: Dict[str, Any], values: Dict[str, str]) -> bool:
        """The claim is ours: start a supervisor, with the values of what the run was granted."""
        failpoints.reach("F10")
        lock = folder.lock()
        if lock is None:  # another host has found the claim without a supervisor, and was quicker
            return False
        self.watch.add(folder, run)
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
        if status is not None or folder.is_locked() or self._bereft.get(folder.job, 0.0) > time.monotonic():
            return status
        begun = self.machine.supervisor_of(folder)
        if not folder.is_claimed and not self.is_begun(folder):
            return None
        if begun is not None and begun["boot_id"] == self.boot_id and tree.is_alive(_process(begun)):
            return None  # its script has removed the lock, and not the one who held it
        os.makedirs(folder.at("claim"), 0o700, exist_ok=True)
        lock = folder.lock()
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
                self._become_nobody(folder.job)
                code = supervise(self.machine, folder, lock, run, self.boot_id, granted)
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
        if folder.exists:
            os.rename(folder.path, f"{self.machine.trash}/{folder.job}.{time.monotonic_ns()}")
            self.clear_away()

    def _forget(self, job: str) -> None:
        self.watch.remove(job)
        self._tries.pop(job, None)
        self._bereft.pop(job, None)
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
            elif pid == self._cleaner:
                self._cleaner = None
                if self._has_more_trash:
                    self.clear_away()
            elif process is not None:
                self._strangers[process] = ended
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
