"""Owns one run on behalf of an engine, which starts it as a program: `runner.pyz supervise --root ROOT JOB`.

It shares the machine's folder with a host that it never meets (host/engine_owned.py). It claims the job, takes the
secrets over, and forks the supervisor. As long as that lives, this process writes the heartbeat and serves the relay:
its socket is here, where the script is, and its frames go through the run folder.

It is a subreaper and starts another supervisor if one is killed, which adopts the script. If the engine ends us
(SIGTERM), the script is stopped as by a request; if it kills us, the supervisor ends the script.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import Any, Dict, List, Optional

from ..host.framing import BrokenFrame
from ..host.relay import Relay, write_url
from ..shared_folder import heartbeat, placement
from ..shared_folder.exchange import Exchange, session_of
from ..shared_folder.heartbeat import Heartbeat
from ..shared_folder.permission import Permission, check_instance
from ..system import kernel, process_tree
from ..system.cgroup import Groups
from ..system.private import check_private
from ..system.process_tree import Process
from ..system.wakeup import Wakeup
from ..workdir.machine_folder import Machine, remove
from ..workdir.run_folder import RunFolder, read_whole
from . import status_file
from .script_process import Exit, reap_children
from .secrets_fd import Granted
from .supervisor import supervise

INSTANCE_VARIABLE = "WINDLASS_INSTANCE"
_POLL_SECONDS = 0.25
_BUSY_SECONDS = 0.02  # while calls of the script are under way
_SESSION_SECONDS = 0.5
_MOST_SUPERVISORS = 5


def main(root: str, job: str, instance: str = "") -> int:
    os.umask(0o077)
    check_private(root)
    machine = Machine(root)
    folder = SharedFolder(machine.runs, job)
    return Standalone(machine, folder, instance or os.environ.get(INSTANCE_VARIABLE, "")).run()


class SharedFolder(RunFolder):
    """A run folder whose host cannot signal the supervisor: requests to stop are looked for."""

    poll_seconds = 1.0
    parent = 0  # of the supervisor, in the supervisor

    def stop(self) -> Optional[Dict[str, Any]]:
        found = super().stop()
        if found is None and self.parent and os.getppid() != self.parent:
            return {"reason": "supervisor_lost", "grace": 0.0}
        return found


class Standalone:
    def __init__(self, machine: Machine, folder: SharedFolder, instance: str) -> None:
        self.machine = machine
        self.folder = folder
        self.instance = instance
        self.boot_id = process_tree.boot_id()
        self._is_ended = False  # by the engine

    def run(self) -> int:
        run = self.folder.run()
        if not run:
            return self._say(0, "was cleaned up") if self._is_cleaned() else self._say(2, "has no run.json")
        if self._is_started():
            return self._say(0, "was started already; this start does nothing")
        self.wakeup = Wakeup((signal.SIGCHLD, signal.SIGUSR1, signal.SIGHUP))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_end)
        signal.signal(signal.SIGUSR2, self._on_stop)  # for the supervisor, until it has its own handler
        if run.get("claim") == "server":
            if not self.instance:
                return self._say(2, f"needs the name of this instance: --instance NAME, or {INSTANCE_VARIABLE}")
            if not self._is_permitted():
                return 0
        if self._is_started() or not self.folder.claim():
            return self._say(0, "was started already; this start does nothing")
        lock = self.folder.lock()
        if lock is None or self._is_cleaned():  # a host that cleans up has noted that before it has looked at the claim
            return self._say(0, "was cleaned up")
        return self._own(run, lock)

    def _say(self, code: int, what: str) -> int:
        print(f"windlass runner: {self.folder.job} {what}.", file=sys.stderr, flush=True)
        return code

    def _on_end(self, *_: object) -> None:
        self._is_ended = True

    def _on_stop(self, *_: object) -> None:
        self.folder.unwritten_stop = {"reason": "stopped", "grace": float(self.folder.run().get("grace") or 0.0)}

    def _is_cleaned(self) -> bool:
        return os.path.exists(f"{self.machine.ended}/{self.folder.job}")

    def _is_started(self) -> bool:
        """Also if the script has removed the claim."""
        return self.folder.is_claimed or self.machine.supervisor_of(self.folder) is not None

    # ---- permission ----

    def _is_permitted(self) -> bool:
        """Wait until the server has decided which instance owns the attempt."""
        permission = Permission(self.folder, check_instance(self.instance))
        while not permission.is_granted:
            if permission.owner is not None:
                self._say(0, f"is owned by the instance {permission.owner}; {self.instance} executes nothing")
                return False
            if self._is_ended or self._is_started() or not self.folder.exists:
                self._say(0, f"is not waited for by {self.instance} any more")
                return False
            permission.heartbeat.step(time.monotonic())
            self.wakeup.wait(_POLL_SECONDS)
        return True

    # ---- the run ----

    def _own(self, run: Dict[str, Any], lock: int) -> int:
        values = placement.take_secrets(self.folder)
        names = run.get("secrets") or []
        if set(names) - set(values or {}):
            status_file.put_unstarted(
                self.folder, run, lock, "start_failed", "Its secrets are not in its folder any more."
            )
            return self._say(1, "was granted secrets that are not in its folder any more")
        try:
            granted = self._grant(run, {name: (values or {})[name] for name in names})
            relay = RelayServer(self.machine, self.folder, run) if run.get("relay") else None
        except OSError as e:
            status_file.put_unstarted(
                self.folder, run, lock, "start_failed", f"What its script needs cannot be made: {e}"
            )
            return self._say(1, f"cannot be started: {e}")
        kernel.become_subreaper()
        try:
            return self._attend(run, lock, granted, relay)
        finally:
            if relay is not None:
                relay.close()

    def _grant(self, run: Dict[str, Any], values: Dict[str, str]) -> Optional[Granted]:
        if not values:
            return None
        granted = Granted(str(run.get("run")), self.machine.trash)
        granted.fill(values)
        return granted

    def _attend(
        self, run: Dict[str, Any], lock: int, granted: Optional[Granted], relay: "Optional[RelayServer]"
    ) -> int:
        beats = Heartbeat(self.folder.at(heartbeat.NAME), instance=self.instance)
        supervisors = 1
        supervisor = self._fork(run, lock, granted, relay)
        is_told = False
        while True:
            now = time.monotonic()
            beats.step(now)
            if self._is_ended and not is_told:
                is_told = True
                os.kill(supervisor, signal.SIGUSR2)  # which stops the run
            self._wait(relay, beats.next_moment)
            ended = self._reap(supervisor)
            if ended is not None:
                if ended == Exit(0) or self.folder.status(self.boot_id) is not None:
                    return 0
                if supervisors == _MOST_SUPERVISORS:
                    status_file.put_unstarted(self.folder, run, lock, "supervisor_lost", "Its supervisors were killed.")
                    return 1
                time.sleep(0.05 * 2**supervisors)
                supervisors, is_told = supervisors + 1, False
                supervisor = self._fork(run, lock, granted, relay)

    def _fork(self, run: Dict[str, Any], lock: int, granted: Optional[Granted], relay: "Optional[RelayServer]") -> int:
        groups = Groups.find()
        group = groups.group(self.machine.root, self.folder.job, run.get("nonce")) if groups is not None else None
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self.wakeup.close()
                if relay is not None:
                    relay.drop_descriptors()
                self.folder.parent = parent
                kernel.die_with_parent(signal.SIGUSR1)  # which wakes it: it stops the run then
                code = supervise(self.machine, self.folder, lock, run, self.boot_id, granted, group)
            finally:
                os._exit(code)
        return pid

    def _wait(self, relay: "Optional[RelayServer]", moment: float) -> None:
        poll = select.poll()
        poll.register(self.wakeup.fd, select.POLLIN)
        if relay is not None:
            relay.register(poll)
            moment = min(moment, relay.next_moment())
        ready = [fd for fd, _ in poll.poll(max(0.0, moment - time.monotonic()) * 1000)]
        if self.wakeup.fd in ready:
            self.wakeup.drain()
        if relay is not None:
            relay.step(ready)

    def _reap(self, supervisor: int) -> Optional[Exit]:
        """Let go of children that ended, and return how the supervisor did, if it is one of them. A script that it has
        left us may be another: its next supervisor waits for the exit status."""
        found = None
        for pid, process, ended in reap_children():
            written = self.folder.process()
            is_script = written is not None and process == Process(written["pid"], written["starttime"])
            if pid == supervisor:
                found = ended
            elif is_script and "exited" not in self.folder.story():
                self.folder.tell("exited", by="host", **ended._asdict())
        return found


class RelayServer:
    """The socket by which the script calls the server, and the exchange of its frames with the host."""

    def __init__(self, machine: Machine, folder: RunFolder, run: Dict[str, Any]) -> None:
        self._folder = folder
        self._url = f"{machine.relay(run['relay'])}/url"  # as the host has noted it
        self._parent = f"{os.environ.get('TMPDIR') or '/tmp'}/windlass-{os.urandom(8).hex()}"
        os.mkdir(self._parent, 0o700)
        machine.relays = self._parent  # not on a disk that other machines share
        self._place = machine.relay(run["relay"])
        self._exchange: Optional[Exchange] = None
        self._session_at = 0.0
        self._relay = Relay(self)
        self._relay.listen(self._place, self._read_url())

    # ---- as the relay sees its channel ----

    @property
    def is_free(self) -> bool:
        return self._exchange is not None and self._exchange.is_free

    def send(self, head: Dict[str, Any], body: bytes = b"") -> None:
        if self._exchange is not None:
            self._exchange.send({name: head[name] for name in head if name != "event"}, body)

    # ---- the loop's side ----

    def register(self, poll: "select.poll") -> None:
        self._relay.register(poll)

    def next_moment(self) -> float:
        now = time.monotonic()
        pause = _BUSY_SECONDS if self._relay.has_lines and self._exchange is not None else _SESSION_SECONDS
        return min(self._relay.next_moment(), max(now, self._session_at), now + pause)

    def step(self, ready: List[int]) -> None:
        now = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk; what waits is written at the next step
            if now >= self._session_at:
                self._session_at = now + _SESSION_SECONDS
                self._follow_session()
            self._relay.serve(ready)
            self._relay.step(now)
            if self._exchange is not None:
                self._receive(self._exchange)
                if self._relay.has_lines:
                    self._exchange.refresh(now)
                self._exchange.flush()

    def _follow_session(self) -> None:
        """A host that begins knows nothing of our lines: they end, and scripts ask again."""
        session = session_of(self._folder)
        if session is not None and (self._exchange is None or self._exchange.session != session):
            self._begin(session)

    def _begin(self, session: str) -> None:
        self._relay.hang_up()
        self._exchange = Exchange(self._folder, session, sends="up", reads="down")
        write_url(self._place, self._read_url())

    def _receive(self, exchange: Exchange) -> None:
        try:
            for head, body in exchange.receive():
                line, room = head.get("line"), head.get("room", 0)
                if isinstance(line, int) and isinstance(room, int):
                    self._relay.take(line, body, room, head.get("end") is True)
        except BrokenFrame:  # not by a host of ours
            self._relay.hang_up()
            self._exchange = None

    def _read_url(self) -> str:
        try:
            return read_whole(self._url).decode("ascii")
        except (OSError, ValueError):
            return ""

    # ---- the end ----

    def drop_descriptors(self) -> None:
        """In a child."""
        self._relay.close()

    def close(self) -> None:
        self._relay.close()
        with contextlib.suppress(OSError):
            remove(self._parent)
