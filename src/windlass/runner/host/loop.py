"""Event loop of the host: one process per machine, without threads, that answers requests and pushes events.

The state of jobs is left to two subclasses: MachineHost forks the supervisors of jobs, EngineOwnedHost only
reads the folders of jobs whose supervisors an engine starts elsewhere.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, List, Mapping, Optional, Union

from ..supervisor.script_process import reap_children
from ..system import process_tree, stopped
from ..system.wakeup import Wakeup
from ..workdir import source_tree_reuse
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import RunFolder
from . import requests
from .channels import Channels
from .file_watcher import FileWatcher, WatchedJob
from .framing import BrokenFrame, Pipe

if TYPE_CHECKING:
    from .folder_relay import FolderRelay
    from .relay import Relay


def serve(root: str, make: "Callable[[Machine, Pipe], Host]") -> int:
    os.umask(0o077)
    _close_inherited_fds()
    pipe = Pipe(os.dup(0), os.dup(1))
    leave_standard_streams(keep_errors=True)
    machine = Machine(root)
    machine.make()
    host = make(machine, pipe)
    host.greet()
    stopped.continue_all(root)
    gc.collect()
    gc.freeze()  # objects from before stay shared with forked processes
    try:
        host.run()
    except BrokenFrame as e:
        print(f"windlass runner: the connection broke off: {e}", file=sys.stderr)
        return 1
    return 0


def _close_inherited_fds() -> None:
    """Close descriptors that the program that started us left open; scripts should not inherit them."""
    if os.path.isdir("/proc/self/fd"):
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                try:
                    os.close(int(name))
                except OSError:
                    pass


def leave_standard_streams(keep_errors: bool) -> None:
    """Redirect the standard streams: accidental output must not get into the connection, and the other side must not
    wait for us to close it.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2 if keep_errors else nothing, 1)
    if not keep_errors:
        os.dup2(nothing, 2)
    os.close(nothing)


class Host:
    actions: ClassVar[Mapping[str, Callable[..., Any]]] = {}  # by the names of requests

    def __init__(self, machine: Machine, pipe: Pipe, relay: "Union[Relay, FolderRelay]", safety_seconds: float) -> None:
        """`safety_seconds`: how often folders are rescanned, for changes that inotify does not report."""
        self.machine = machine
        self.pipe = pipe
        self.boot_id = process_tree.boot_id()
        self.python = sys.version.split()[0]
        self.watch = FileWatcher(self._send_grown, safety_seconds)
        self.relay = relay
        self.channels = Channels(pipe)
        # The end of stdin ends a host, not the signals of a terminal.
        self.wakeup = Wakeup((signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP))
        self._cleaner: Optional[int] = None  # a child that empties the trash
        self._has_more_trash = False

    def greet(self) -> None:
        self.pipe.greet()
        self.pipe.send(
            {"event": "hello", "version": 1, "pid": os.getpid(), "python": self.python,
             "boot_id": self.boot_id, "root": self.machine.root, "now": time.time()}
        )  # fmt: skip
        if os.listdir(self.machine.trash) or os.listdir(self.machine.spares):
            self.empty_trash()

    # ---- the loop ----

    def run(self) -> None:
        while self.pipe.is_open:
            ready = self._wait()
            if self.wakeup.fd in ready:
                self.wakeup.drain()
                self.reap()
            self.watch.read_events(ready)
            if self.pipe.sink in ready:
                self.pipe.flush()
            if self.pipe.source in ready:
                self._answer_requests()
            self.relay.serve(ready)
            self.channels.serve(ready)
            self._step()

    def _wait(self) -> List[int]:
        poll = select.poll()
        poll.register(self.wakeup.fd, select.POLLIN)
        if self.pipe.is_listening:
            poll.register(self.pipe.source, select.POLLIN)
        if self.pipe.has_waiting:
            poll.register(self.pipe.sink, select.POLLOUT)
        for fd in self.watch.fds:
            poll.register(fd, select.POLLIN)
        self.relay.register(poll)
        self.channels.register(poll)
        moment = min(self.watch.next_moment(), self.relay.next_moment(), self.next_moment())
        return [fd for fd, _ in poll.poll(max(0.0, moment - time.monotonic()) * 1000)]

    def _answer_requests(self) -> None:
        for request, body in self.pipe.receive():
            try:
                found, data = requests.answer(self, request, body)
            except Exception:  # a bug fails this request, not the host
                traceback.print_exc()
                error = traceback.format_exc().strip().splitlines()[-1]
                found, data = {"error": {"code": "failed", "message": f"The runner failed: {error}"}}, b""
            self.pipe.send({"id": request.get("id"), "ok": "error" not in found, **found}, data)

    def _step(self) -> None:
        now = time.monotonic()
        self.watch.changed_jobs.update(self.due_jobs(now))
        self._send_changes()  # a state is sent before the log that belongs to it
        self.watch.step(can_send=self.pipe.is_listening)
        self.relay.step(now)
        self._send_changes()

    def _send_changes(self) -> None:
        while self.watch.changed_jobs:
            try:
                self.check_job(self.machine.folder(self.watch.changed_jobs.pop()))
            except OSError:  # missing permissions, or fork failed: other jobs go on
                traceback.print_exc()

    def _send_grown(self, watched: WatchedJob, path: str, size: int) -> None:
        if self.machine.has_nonce(watched.folder, watched.nonce):
            job = watched.folder.job
            self.pipe.send({"event": "file_grew", "job": job, "nonce": watched.nonce, "path": path, "size": size})

    def send_changed(self, job: str, nonce: str, seen: Optional[Dict[str, Any]] = None) -> None:
        self.pipe.send({"event": "job_changed", "job": job, "nonce": nonce, **({} if seen is None else {"seen": seen})})

    def send_state(self, folder: RunFolder, state: str, seen: Optional[Dict[str, Any]]) -> None:
        """Push the state of a watched job, if it differs from the last one pushed."""
        watched = self.watch.jobs.get(folder.job)
        if watched is not None and state != watched.state:
            watched.state = state
            self.send_changed(folder.job, watched.nonce, seen)

    def is_replaced(self, folder: RunFolder) -> bool:
        """Whether a watched job was replaced by another server's job of that id. Pushes that change."""
        watched = self.watch.jobs.get(folder.job)
        if watched is None or self.machine.has_nonce(folder, watched.nonce):
            return False
        self.forget(folder.job)
        self.send_changed(folder.job, watched.nonce)
        return True

    # ---- jobs ----

    def check_job(self, folder: RunFolder) -> None:
        """Check the state of a job, and push it if the job is watched."""
        raise NotImplementedError

    def next_moment(self) -> float:
        """When the next job is due for a check."""
        return float("inf")

    def due_jobs(self, now: float) -> List[str]:
        """The jobs that are due for a check."""
        return []

    def watch_job(self, folder: RunFolder, nonce: str) -> None:
        """Push changes of a job from now on; its present state is pushed once."""
        if folder.exists and self.machine.has_nonce(folder, nonce):
            self.watch.add(folder, folder.run(), nonce)
            self.watch.rescan(folder.job)
            self.watch.changed_jobs.add(folder.job)
        self.send_changed(folder.job, nonce)

    def forget(self, job: str) -> None:
        self.watch.remove(job)

    def discard(self, folder: RunFolder) -> None:
        """Forget a job and remove its folder, in a child process, since large ones take long."""
        self.forget(folder.job)
        if folder.exists:
            os.rename(folder.path, f"{self.machine.trash}/{folder.job}.{time.monotonic_ns()}")
            self.empty_trash()

    # ---- children ----

    def empty_trash(self) -> None:
        """Empty the trash in a child process, since it may take long."""
        if self._cleaner is not None:
            self._has_more_trash = True
            return
        self._has_more_trash = False
        pid = os.fork()
        if pid == 0:
            try:
                self.drop_descriptors()
                source_tree_reuse.empty_trash(self.machine, self.boot_id)
            finally:
                os._exit(0)
        self._cleaner = pid

    def drop_descriptors(self, job: str = "") -> None:
        """Close the host's descriptors in a forked child, except those for this job."""
        self.wakeup.close()
        self.watch.close()
        self.relay.close()
        self.channels.close()
        os.close(self.pipe.source)
        os.close(self.pipe.sink)
        os.setsid()
        os.chdir("/")
        leave_standard_streams(keep_errors=False)

    def reap(self) -> None:
        """Reap children that ended."""
        for pid, _, _ in reap_children():
            self.reap_cleaner(pid)

    def reap_cleaner(self, pid: int) -> bool:
        """Handle the end of the cleanup process. False if that child was another one."""
        if pid != self._cleaner:
            return False
        self._cleaner = None
        if self._has_more_trash:
            self.empty_trash()
        return True
