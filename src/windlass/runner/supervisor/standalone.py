"""Stand-alone supervisor of one run, started by an engine as a program: `runner.pyz supervise --root ROOT JOB`.

It shares only the machine's folder with the host (host/engine_owned.py). It claims the job, takes the secrets over, and
forks the supervisor. As long as that lives, this process writes the heartbeat and serves the relay: the socket is on
this machine, where the script is, and the frames go through the run folder.

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
from .secrets_fd import SecretsFile
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
    """A run folder whose host cannot signal the supervisor, which polls for requests to stop."""

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
        self._is_ended = False  # by a signal of the engine

    def run(self) -> int:
        run = self.folder.run()
        if not run:
            return self._report(0, "was cleaned up") if self._is_cleaned() else self._report(2, "has no run.json")
        if self._is_started():
            return self._report(0, "was started already; this start does nothing")
        self.wakeup = Wakeup((signal.SIGCHLD, signal.SIGUSR1, signal.SIGHUP))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_end)
        signal.signal(signal.SIGUSR2, self._on_stop)  # inherited by the supervisor until it sets its own handler
        if run.get("claim") == "server":
            if not self.instance:
                return self._report(2, f"needs the name of this instance: --instance NAME, or {INSTANCE_VARIABLE}")
            if not self._is_permitted():
                return 0
        if self._is_started() or not self.folder.claim():
            return self._report(0, "was started already; this start does nothing")
        lock = self.folder.lock()
        if lock is None or self._is_cleaned():  # cleanup is recorded before the host checks the claim
            return self._report(0, "was cleaned up")
        return self._run_claimed(run, lock)

    def _report(self, code: int, what: str) -> int:
        print(f"windlass runner: {self.folder.job} {what}.", file=sys.stderr, flush=True)
        return code

    def _on_end(self, *_: object) -> None:
        self._is_ended = True

    def _on_stop(self, *_: object) -> None:
        self.folder.unwritten_stop = {"reason": "stopped", "grace": float(self.folder.run().get("grace") or 0.0)}

    def _is_cleaned(self) -> bool:
        return os.path.exists(f"{self.machine.ended}/{self.folder.job}")

    def _is_started(self) -> bool:
        """Whether the job was started, also if the script has removed the claim."""
        return self.folder.is_claimed or self.machine.supervisor_of(self.folder) is not None

    # ---- permission ----

    def _is_permitted(self) -> bool:
        """Wait until the server has decided which instance owns the attempt."""
        permission = Permission(self.folder, check_instance(self.instance))
        while not permission.is_granted:
            if permission.owner is not None:
                self._report(0, f"is owned by the instance {permission.owner}; {self.instance} executes nothing")
                return False
            if self._is_ended or self._is_started() or not self.folder.exists:
                self._report(0, f"is given up by {self.instance}: it was cancelled, started or removed")
                return False
            permission.heartbeat.step(time.monotonic())
            self.wakeup.wait(_POLL_SECONDS)
        return True

    # ---- the run ----

    def _run_claimed(self, run: Dict[str, Any], lock: int) -> int:
        values = placement.take_secrets(self.folder)
        names = run.get("secrets") or []
        if set(names) - set(values or {}):
            status_file.put_unstarted(
                self.folder, run, lock, "start_failed", "Its secrets are not in its folder any more."
            )
            return self._report(1, "was granted secrets that are not in its folder any more")
        try:
            secrets_file = self._make_secrets_file(run, {name: (values or {})[name] for name in names})
            relay = RelayServer(self.machine, self.folder, run) if run.get("relay") else None
        except OSError as e:
            status_file.put_unstarted(
                self.folder, run, lock, "start_failed", f"What its script needs cannot be made: {e}"
            )
            return self._report(1, f"cannot be started: {e}")
        kernel.become_subreaper()
        try:
            return self._supervise(run, lock, secrets_file, relay)
        finally:
            if relay is not None:
                relay.close()

    def _make_secrets_file(self, run: Dict[str, Any], values: Dict[str, str]) -> Optional[SecretsFile]:
        if not values:
            return None
        secrets_file = SecretsFile(str(run.get("run")), self.machine.trash)
        secrets_file.fill(values)
        return secrets_file

    def _supervise(
        self, run: Dict[str, Any], lock: int, secrets_file: Optional[SecretsFile], relay: "Optional[RelayServer]"
    ) -> int:
        beat = Heartbeat(self.folder.at(heartbeat.NAME), instance=self.instance)
        supervisors = 1
        supervisor = self._fork(run, lock, secrets_file, relay)
        is_signalled = False
        while True:
            now = time.monotonic()
            beat.step(now)
            if self._is_ended and not is_signalled:
                is_signalled = True
                os.kill(supervisor, signal.SIGUSR2)  # which stops the run
            self._wait(relay, beat.next_moment)
            ended = self._reap(supervisor)
            if ended is not None:
                if ended == Exit(0) or self.folder.status(self.boot_id) is not None:
                    return 0
                if supervisors == _MOST_SUPERVISORS:
                    status_file.put_unstarted(self.folder, run, lock, "supervisor_lost", "Its supervisors were killed.")
                    return 1
                time.sleep(0.05 * 2**supervisors)
                supervisors, is_signalled = supervisors + 1, False
                supervisor = self._fork(run, lock, secrets_file, relay)

    def _fork(
        self, run: Dict[str, Any], lock: int, secrets_file: Optional[SecretsFile], relay: "Optional[RelayServer]"
    ) -> int:
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
                kernel.die_with_parent(signal.SIGUSR1)  # wakes the supervisor, which then stops the run
                code = supervise(self.machine, self.folder, lock, run, self.boot_id, secrets_file, group)
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
        """Reap children that ended. Returns the exit of the supervisor, if it is one of them. The exit status of a
        script whose supervisor was killed is recorded: the next supervisor waits for it."""
        found = None
        for pid, process, ended in reap_children():
            written = self.folder.process()
            is_script = written is not None and process == Process(written["pid"], written["starttime"])
            if pid == supervisor:
                found = ended
            elif is_script and "exited" not in self.folder.last_events():
                self.folder.append_event("exited", by="host", **ended._asdict())
        return found


class RelayServer:
    """Serves the relay socket on the script's machine, and exchanges its frames with the host."""

    def __init__(self, machine: Machine, folder: RunFolder, run: Dict[str, Any]) -> None:
        self._folder = folder
        self._url = f"{machine.relay(run['relay'])}/url"  # written by the host
        self._parent = f"{os.environ.get('TMPDIR') or '/tmp'}/windlass-{os.urandom(8).hex()}"
        os.mkdir(self._parent, 0o700)
        machine.relays = self._parent  # local: a Unix socket cannot be shared by machines
        self._place = machine.relay(run["relay"])
        self._exchange: Optional[Exchange] = None
        self._session_at = 0.0
        self._relay = Relay(self)
        self._relay.listen(self._place, self._read_url())

    # ---- the channel of the relay ----

    @property
    def is_free(self) -> bool:
        return self._exchange is not None and self._exchange.is_free

    def send(self, head: Dict[str, Any], body: bytes = b"") -> None:
        if self._exchange is not None:
            self._exchange.send({name: head[name] for name in head if name != "event"}, body)

    # ---- called by the loop ----

    def register(self, poll: "select.poll") -> None:
        self._relay.register(poll)

    def next_moment(self) -> float:
        now = time.monotonic()
        pause = _BUSY_SECONDS if self._relay.has_streams and self._exchange is not None else _SESSION_SECONDS
        return min(self._relay.next_moment(), max(now, self._session_at), now + pause)

    def step(self, ready: List[int]) -> None:
        now = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk: waiting frames are written at the next step
            if now >= self._session_at:
                self._session_at = now + _SESSION_SECONDS
                self._follow_session()
            self._relay.serve(ready)
            self._relay.step(now)
            if self._exchange is not None:
                self._receive(self._exchange)
                if self._relay.has_streams:
                    self._exchange.refresh(now)
                self._exchange.flush()

    def _follow_session(self) -> None:
        """A new host does not know our streams: end them. Scripts connect again."""
        session = session_of(self._folder)
        if session is not None and (self._exchange is None or self._exchange.session != session):
            self._begin(session)

    def _begin(self, session: str) -> None:
        self._relay.end_streams()
        self._exchange = Exchange(self._folder, session, sends="up", reads="down")
        write_url(self._place, self._read_url())

    def _receive(self, exchange: Exchange) -> None:
        try:
            for head, body in exchange.receive():
                stream, credit = head.get("stream"), head.get("credit", 0)
                if isinstance(stream, int) and isinstance(credit, int):
                    self._relay.receive(stream, body, credit, head.get("end") is True)
        except BrokenFrame:  # the frames were not written by a host of ours
            self._relay.end_streams()
            self._exchange = None

    def _read_url(self) -> str:
        try:
            return read_whole(self._url).decode("ascii")
        except (OSError, ValueError):
            return ""

    # ---- the end ----

    def drop_descriptors(self) -> None:
        """Close the sockets in a forked child."""
        self._relay.close()

    def close(self) -> None:
        self._relay.close()
        with contextlib.suppress(OSError):
            remove(self._parent)
