"""The host's loop: one process a machine, without threads, that answers requests and pushes events.

What becomes of a job is for its two subclasses to say: MachineHost forks the supervisors of jobs, EngineOwnedHost only
sees the folders of jobs whose supervisors an engine starts elsewhere.
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
from .file_watcher import Watch, Watched
from .framing import BrokenFrame, Pipe

if TYPE_CHECKING:
    from .folder_relay import FolderRelay
    from .relay import Relay


def serve(root: str, make: "Callable[[Machine, Pipe], Host]") -> int:
    os.umask(0o077)
    _close_strays()
    pipe = Pipe(os.dup(0), os.dup(1))
    leave_standard_streams(keep_errors=True)
    machine = Machine(root)
    machine.make()
    host = make(machine, pipe)
    host.greet()
    stopped.continue_all(root)
    gc.collect()
    gc.freeze()  # what is here now is shared with every process that is forked, and stays so
    try:
        host.run()
    except BrokenFrame as e:
        print(f"windlass runner: the connection broke off: {e}", file=sys.stderr)
        return 1
    return 0


def _close_strays() -> None:
    """Close descriptors that the program that started us left open; scripts should not inherit them."""
    if os.path.isdir("/proc/self/fd"):
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                try:
                    os.close(int(name))
                except OSError:
                    pass


def leave_standard_streams(keep_errors: bool) -> None:
    """Nothing that is printed by accident may get into the connection, and nothing waits for us to close it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2 if keep_errors else nothing, 1)
    if not keep_errors:
        os.dup2(nothing, 2)
    os.close(nothing)


class Host:
    actions: ClassVar[Mapping[str, Callable[..., Any]]] = {}  # by the names of requests

    def __init__(self, machine: Machine, pipe: Pipe, relay: "Union[Relay, FolderRelay]", safety_seconds: float) -> None:
        """`safety_seconds`: how often folders are looked at where the kernel does not tell what happens in them."""
        self.machine = machine
        self.pipe = pipe
        self.boot_id = process_tree.boot_id()
        self.python = sys.version.split()[0]
        self.watch = Watch(self._send_grown, safety_seconds)
        self.relay = relay
        # Not a terminal's signals but the end of stdin ends a host.
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
            self.clear_away()

    # ---- the loop ----

    def run(self) -> None:
        while self.pipe.is_open:
            ready = self._wait()
            if self.wakeup.fd in ready:
                self.wakeup.drain()
                self.reap()
            self.watch.listen(ready)
            if self.pipe.sink in ready:
                self.pipe.flush()
            if self.pipe.source in ready:
                self._serve()
            self.relay.serve(ready)
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
        moment = min(self.watch.next_moment(), self.relay.next_moment(), self.next_moment())
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
        self.watch.news.update(self.due_jobs(now))
        self._send_news()  # a state before the log that belongs to it
        self.watch.step(is_heard=self.pipe.is_listening)
        self.relay.step(now)
        self._send_news()

    def _send_news(self) -> None:
        while self.watch.news:
            try:
                self.look_at(self.machine.folder(self.watch.news.pop()))
            except OSError:  # its script took a right away, or no process can be made now: the others go on
                traceback.print_exc()

    def _send_grown(self, watched: Watched, path: str, size: int) -> None:
        if self.machine.is_of(watched.folder, watched.nonce):
            job = watched.folder.job
            self.pipe.send({"event": "grew", "job": job, "nonce": watched.nonce, "path": path, "size": size})

    def send_changed(self, job: str, nonce: str, seen: Optional[Dict[str, Any]] = None) -> None:
        self.pipe.send({"event": "changed", "job": job, "nonce": nonce, **({} if seen is None else {"seen": seen})})

    def send_state(self, folder: RunFolder, state: str, seen: Optional[Dict[str, Any]]) -> None:
        """Push the state of a watched job, if it is another one than was pushed last."""
        watched = self.watch.jobs.get(folder.job)
        if watched is not None and state != watched.state:
            watched.state = state
            self.send_changed(folder.job, watched.nonce, seen)

    def is_replaced(self, folder: RunFolder) -> bool:
        """Whether a watched job was cleaned up, and another server has a job of that id here now. Says so."""
        watched = self.watch.jobs.get(folder.job)
        if watched is None or self.machine.is_of(folder, watched.nonce):
            return False
        self.forget(folder.job)
        self.send_changed(folder.job, watched.nonce)
        return True

    # ---- jobs ----

    def look_at(self, folder: RunFolder) -> None:
        """Push what became of a job, if it is one that is watched."""
        raise NotImplementedError

    def next_moment(self) -> float:
        """When there is something to do although nothing happens."""
        return float("inf")

    def due_jobs(self, now: float) -> List[str]:
        """The jobs to look at by now."""
        return []

    def watch_job(self, folder: RunFolder, nonce: str) -> None:
        """From now on push what happens to a job; its present state counts as news."""
        if folder.exists and self.machine.is_of(folder, nonce):
            self.watch.add(folder, folder.run(), nonce)
            self.watch.look_around(folder.job)
            self.watch.news.add(folder.job)
        self.send_changed(folder.job, nonce)

    def forget(self, job: str) -> None:
        self.watch.remove(job)

    def discard(self, folder: RunFolder) -> None:
        """Forget a job and remove its folder; big ones take long, so that is done by a child."""
        self.forget(folder.job)
        if folder.exists:
            os.rename(folder.path, f"{self.machine.trash}/{folder.job}.{time.monotonic_ns()}")
            self.clear_away()

    # ---- children ----

    def clear_away(self) -> None:
        """Empty the trash, which may take long: by a child."""
        if self._cleaner is not None:
            self._has_more_trash = True
            return
        self._has_more_trash = False
        pid = os.fork()
        if pid == 0:
            try:
                self.drop_descriptors()
                source_tree_reuse.clear_away(self.machine, self.boot_id)
            finally:
                os._exit(0)
        self._cleaner = pid

    def drop_descriptors(self, job: str = "") -> None:
        """In a child: keep nothing of the host but its warm modules, and what is for this job."""
        self.wakeup.close()
        self.watch.close()
        self.relay.close()
        os.close(self.pipe.source)
        os.close(self.pipe.sink)
        os.setsid()
        os.chdir("/")
        leave_standard_streams(keep_errors=False)

    def reap(self) -> None:
        """Let go of children that ended."""
        for pid, _, _ in reap_children():
            self.has_cleaned(pid)

    def has_cleaned(self, pid: int) -> bool:
        """Whether that child was the one that empties the trash."""
        if pid != self._cleaner:
            return False
        self._cleaner = None
        if self._has_more_trash:
            self.clear_away()
        return True
