"""Container of a run: its supervisor creates it, starts it at most once, polls it, and removes it at the end.

Docker keeps what a supervisor could lose: whether the script was started, is running, and how it ended. So a new
supervisor finds the container by its name and continues. An engine that does not answer says nothing about the
container's state: the supervisor waits for it, however long it takes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..environments.build_once import BuildHooks
from ..supervisor.launch import CannotStart
from ..supervisor.script_process import Exit, ScriptProcess
from ..system import process_tree
from ..system.process_tree import Process
from ..workdir.machine_folder import Machine, remove
from ..workdir.run_folder import Refused, RunFolder, open_below, read_json
from . import create_request, images
from .create_request import ENTRY_DIR, FAILED, STARTED, STARTED_TWICE, ContainerContents, container_name
from .docker_api import RETRY_SECONDS, START_SECONDS, Answer, Engine, EngineRefused, EngineUnreachable, NoEngine, retry

NO_PROCESS = Process(0, 0)
_REMOVE_SECONDS = 120.0
_EXEC_SECONDS = 10.0
_RUNC = b"runc:["  # the name of the first process until it executes the image's program
_MAX_CLEANUP_SECONDS = 7 * 86400  # after that, a cleanup no longer looks for the container
_MAX_ENTRY_FILE_BYTES = 4096
_MAX_MESSAGE = 1000
_ZERO_TIME = "0001-"  # prefix of Docker's zero time ("not set")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")
_EXIT_KEY = b'"StatusCode"'
_LABEL = "windlass.body"
_KILLED = 128 + signal.SIGKILL
_LOST = 255  # the engine's exit code for an exit that it did not see
_ENDED_BY_ENGINE = (_KILLED, 128 + signal.SIGTERM)
_NO_PROGRAM = 127
_NO_SHELL = "The image {image} has no /bin/sh, and without a shell no script can be started in it."
_INITS = ("docker-init", "catatonit")

Wait = Callable[[float], None]


class Container(ScriptProcess):
    def __init__(self, machine: Machine, folder: RunFolder, run: Mapping[str, Any]) -> None:
        super().__init__(folder, NO_PROCESS)
        self.machine = machine
        self.run = run
        self.name = container_name(run)
        self._path = f"/containers/{self.name}"
        self._mark = os.fsencode(f"WINDLASS_COOKIE={run['nonce']}")
        self._wait_request: Optional[Answer] = None  # open `wait` request; answers when the container exits
        self._wait_body = b""  # what was read from it
        self._is_unreachable = self._was_unreachable = False
        self.may_have_missed_exit = False  # the engine or the supervisor was down when the script may have exited
        self._was_killed = False
        self._was_created = False
        self._is_orphan = False
        self._tree = process_tree.Tree(f"WINDLASS_COOKIE={run['nonce']}")
        self._state: Mapping[str, Any] = {}
        self._contents: Optional[ContainerContents] = None
        self._body: Dict[str, Any] = {}

    @property
    def engine(self) -> Engine:
        return Engine(self.run["container"].get("engine"))

    # ---- creation, repeatable until it is started ----

    def prepare_image(self, hooks: BuildHooks) -> ContainerContents:
        """Pull or build the image."""
        self._contents = images.prepare_image(self.machine, self.run, self.folder, hooks)
        return self._contents

    def create(self, run: Mapping[str, Any], wait: Wait) -> None:
        """Create the container, or replace one that was created for another configuration. Repeatable until started."""
        assert self._contents is not None
        self.run = run
        try:
            self.write_secrets(b"")
            self._body = create_request.create_body(run, self.machine, self.folder, self._contents, self._user())
            retry(self._create, wait)
        except (EngineRefused, OSError) as e:
            raise CannotStart(f"The container of this run could not be made: {e}") from None
        except EngineUnreachable as e:
            raise CannotStart(str(e)) from None

    def write_secrets(self, secrets: bytes) -> None:
        """Write the run's secrets to their file. It must exist at creation, and be full before the start."""
        create_request.place_secrets(self.run, secrets)

    def _user(self) -> str:
        """The user of the script, who owns its files: this account, which is root inside a rootless engine."""
        try:
            is_own = os.getuid() != 0 and os.stat(self.engine.path).st_uid == os.getuid()
        except (OSError, NoEngine):
            is_own = False
        return "0:0" if is_own else f"{os.getuid()}:{os.getgid()}"

    def _create(self) -> None:
        digest = hashlib.sha256(json.dumps(self._body, sort_keys=True).encode()).hexdigest()
        labels = {"windlass.job": self.folder.job, "windlass.root": self.machine.root, _LABEL: digest}
        os.makedirs(self.folder.at(ENTRY_DIR), 0o700, exist_ok=True)
        there = self._inspect()
        known: Mapping[str, str] = (there or {"Config": {}})["Config"].get("Labels") or {}
        if there is not None and known.get(_LABEL) != digest:
            # Created for another configuration, here or by a killed supervisor, and never started; or the container of
            # a package layer.
            self.engine.remove_container(self.name, force=_LABEL not in known)
            there = None
        if there is not None and not self._is_limited(there):
            self.engine.remove_container(self.name)
            there = None
        if there is None:
            host = {**create_request.limits_of(self.run), **self._body["HostConfig"]}
            body = {**self._body, "HostConfig": host, "Labels": labels}
            self.engine.call("POST", f"/containers/create?name={self.name}", body, seconds=START_SECONDS)
        self._was_created = True

    def _is_limited(self, there: Mapping[str, Any]) -> bool:
        """Whether a container that was created ahead has the run's current limits, or could be updated to them."""
        wanted = create_request.limits_of(self.run)
        has = there.get("HostConfig") or {}
        if all(has.get(name) == value for name, value in wanted.items()):
            return True
        try:
            self.engine.call("POST", f"{self._path}/update", wanted)
        except EngineRefused:
            return False
        return True

    # ---- running ----

    def start(self, wait: Wait) -> None:
        """Start it, unless it was ever started. After a try only the engine knows, so retry until it answers."""
        while True:
            try:
                return self._start()
            except EngineUnreachable as e:
                self._note_unreachable(str(e))
                wait(RETRY_SECONDS)

    def _start(self) -> None:
        try:
            if not self._has_started():
                self._call_start()
            self._was_created = True
        except EngineRefused as e:
            if not self._has_started():
                # An engine that was killed while it started the container does not know that it runs, and refuses.
                self._is_orphan = self._has_entry_file(STARTED) or "already" in str(e)
                if not self._is_orphan:
                    raise CannotStart(_explain(str(e), self._body.get("Image"))) from None
        self._find_process()

    def _call_start(self) -> None:
        try:
            self.engine.call("POST", f"{self._path}/start", seconds=START_SECONDS)
        except EngineRefused as e:
            if not any(word in str(e) for word in _INITS) or not self._body.get("HostConfig", {}).pop("Init", False):
                raise
            self._create()  # the engine lacks the init program that reaps zombies; most scripts leave none
            self.engine.call("POST", f"{self._path}/start", seconds=START_SECONDS)

    def _has_started(self) -> bool:
        there = self._inspect()
        return there is None or not there["State"]["StartedAt"].startswith(_ZERO_TIME)

    def _find_process(self) -> None:
        """Find its first process on this machine, if it is visible from here."""
        there = self._inspect() or {"State": {}}
        pid = there["State"].get("Pid") or 0
        _await_exec(pid)
        found = process_tree.identify(pid) if pid and process_tree.has_mark(pid, self._mark) else None
        if self._is_orphan:
            found = min(self._tree.members(), key=lambda process: process.start, default=None)
        self.process = found or NO_PROCESS

    def poll(self) -> Optional[Exit]:
        if self._is_orphan:
            return self._poll_orphan()
        self._read_wait_request()
        try:
            there = self._inspect()
            self._is_unreachable = False
            if there is None:
                return self._exit_of_removed()
            self._state = there["State"]
            if self._state["Running"] or self._state.get("Paused") or self._state.get("Restarting"):
                self._open_wait_request()
                return None
        except EngineUnreachable as e:
            self._note_unreachable(str(e))
            return None
        return self._exit_of_state(int(self._state["ExitCode"]))

    def signal(self, number: int, everyone: process_tree.Tree) -> bool:
        """Send a signal through the engine: to the first process; KILL goes to all."""
        if self._is_orphan:
            return bool(everyone.signal(number))
        try:
            if self._state.get("Paused"):
                self.engine.call("POST", f"{self._path}/unpause")
            self.engine.call("POST", f"{self._path}/kill?signal={int(number)}")
        except (EngineRefused, EngineUnreachable):
            return False  # it has exited, or the caller tries again
        self._was_killed = self._was_killed or number == signal.SIGKILL
        return True

    def members(self) -> List[process_tree.ProcessInfo]:
        seen = process_tree.read_process(self.process.pid) if self.process.pid else None
        if seen is None or seen.start != self.process.start:
            return []
        return [seen, *process_tree.descendants(seen.pid)]

    def release(self) -> None:
        self._close_wait_request()

    def times(self) -> Dict[str, float]:
        began, ended = (_timestamp(self._state.get(name, "")) for name in ("StartedAt", "FinishedAt"))
        if began is None or ended is None or ended < began:
            return {}
        return {"started_at": began, "ended_at": ended, "seconds": round(ended - began, 3)}

    # ---- exit and removal ----

    def remove_with_retry(self) -> None:
        """Remove it, with retries while the engine is unreachable; after two minutes, leave it to the cleanup."""
        create_request.remove_secrets(self.run)
        deadline = time.monotonic() + _REMOVE_SECONDS
        while self._was_created or os.path.isdir(self.folder.at(ENTRY_DIR)):
            try:
                self.remove()
                remove(self.folder.at(ENTRY_DIR))
                return
            except OSError as e:
                if time.monotonic() > deadline:
                    self.folder.append_event("trouble", message=str(e))
                    return
                time.sleep(RETRY_SECONDS)

    def remove(self) -> None:
        """Remove it. OSError if the engine is unreachable or refuses."""
        try:
            self.engine.remove_container(self.name)
        except (EngineUnreachable, EngineRefused) as e:
            raise OSError(f"The container {self.name} is still there: {e}") from None

    def _exit_of_state(self, code: int) -> Exit:
        self.failure = self._failure(code)
        if self._has_entry_file(STARTED_TWICE):
            return self._unknown_exit(
                "Its container was started twice, the second time in vain; so its end was not kept."
            )
        if code == _LOST and self.may_have_missed_exit:
            return self._unknown_exit("The Docker engine was not there when it ended, and does not know how.")
        if code == _KILLED and (self._state.get("OOMKilled") or self._was_killed):
            self.was_oom_killed = bool(self._state.get("OOMKilled"))
            return Exit(None, int(signal.SIGKILL))
        if code in _ENDED_BY_ENGINE and self._was_unreachable:
            self.end_message = (
                "The Docker engine was restarted, which ends containers unless it is set to live-restore."
            )
        elif 128 < code < 128 + signal.NSIG:
            self.end_message = f"{code} is 128 + {code - 128}: it was ended by that signal, or has ended so by itself."
        return Exit(code)

    def _has_entry_file(self, name: str) -> bool:
        return os.path.lexists(self.folder.at(f"{ENTRY_DIR}/{name}"))

    def _read_entry_file(self, name: str) -> str:
        """The text of a file in the entry folder, where the script can put a link, a FIFO, or an endless file."""
        try:
            fd = open_below(self.folder.path, f"{ENTRY_DIR}/{name}")
        except (OSError, Refused):
            return ""
        try:
            return os.read(fd, _MAX_ENTRY_FILE_BYTES).decode("utf-8", "replace").strip()[:_MAX_MESSAGE]
        finally:
            os.close(fd)

    def _failure(self, code: int) -> str:
        """Why the script was never executed; empty if it was."""
        if self._has_entry_file(FAILED):
            return self._read_entry_file(FAILED)
        if not self._has_entry_file(STARTED) and code == _NO_PROGRAM:
            return _NO_SHELL.format(image=self.run["container"].get("image") or "of this run")
        if not self._has_entry_file(STARTED):
            return (
                f"The container cannot write to the run's folder as user {self._user()}. Does the engine remap users?"
            )
        return ""

    def _poll_orphan(self) -> Optional[Exit]:
        """Poll a container that the engine lost: its processes are found by their marker variable."""
        if self._tree.members():
            return None
        self.failure = self._failure(0)
        return self._unknown_exit(
            "The Docker engine was killed while it started the container, and never knew of its end."
        )

    def _exit_of_removed(self) -> Optional[Exit]:
        if self.process is not NO_PROCESS and process_tree.is_alive(self.process):
            return None
        return self._unknown_exit("Its container was removed by somebody else, and its exit code with it.")

    def _unknown_exit(self, why: str) -> Exit:
        self.end_message = why
        return Exit()

    # ---- the engine ----

    def _inspect(self) -> Optional[Dict[str, Any]]:
        try:
            found: Optional[Dict[str, Any]] = self.engine.call("GET", f"{self._path}/json")
        except EngineRefused as e:
            if e.status == 404:
                return None
            raise EngineUnreachable(f"The engine cannot tell: {e}") from None
        if found is None:  # which would mean that there is no container
            raise EngineUnreachable("The engine broke off before it described the container.")
        return found

    @property
    def fd(self) -> int:
        """Descriptor of the open `wait` request, readable when the container exits; -1 if there is none."""
        return self._wait_request.fileno() if self._wait_request is not None else -1

    @property
    def poll_interval(self) -> Optional[float]:
        return RETRY_SECONDS if self._wait_request is None else None

    def _open_wait_request(self) -> None:
        """Open a `wait` request: the engine answers it as soon as the container exits."""
        if self._wait_request is None:
            self._wait_request, self._wait_body = self.engine.open("POST", f"{self._path}/wait"), b""

    def _read_wait_request(self) -> None:
        if self._wait_request is None:
            return
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        try:
            data = self._wait_request.take() if poll.poll(0) else None
        except EngineUnreachable:
            data = b""
        self._wait_body += data or b""
        if data == b"":
            # Without an exit code in the answer, the engine broke off, though it may be back already.
            self._was_unreachable = self._was_unreachable or _EXIT_KEY not in self._wait_body
            self.may_have_missed_exit = self.may_have_missed_exit or self._was_unreachable
            self._close_wait_request()

    def _close_wait_request(self) -> None:
        if self._wait_request is not None:
            self._wait_request.close()
        self._wait_request = None

    def _note_unreachable(self, why: str) -> None:
        if not self._is_unreachable:
            self.folder.append_event("engine_away", message=why)
        self._is_unreachable = self._was_unreachable = self.may_have_missed_exit = True
        self._close_wait_request()


def remove_leftover(machine: Machine, path: str) -> None:
    """Remove the container of a run whose folder is deleted, if one is left. OSError: try again later."""
    run = read_json(f"{path}/run.json") or {}
    if not run.get("container"):
        return
    create_request.remove_secrets(run)
    is_recent = time.time() - os.stat(path).st_mtime < _MAX_CLEANUP_SECONDS
    if os.path.isdir(f"{path}/{ENTRY_DIR}") and is_recent:
        Container(machine, machine.folder(str(run["job"])), run).remove()


def _timestamp(text: str) -> Optional[float]:
    """Parse a time of the engine: Docker's end in Z, Podman's may have a UTC offset. None for "not set"."""
    import datetime

    found = _TIME.match(text)
    if found is None or text.startswith(_ZERO_TIME):
        return None
    whole, part, zone = found.groups()
    return datetime.datetime.strptime(whole + zone, "%Y-%m-%dT%H:%M:%S%z").timestamp() + float(f"0{part or ''}")


def _await_exec(pid: int) -> None:
    """Wait until the first process is the image's program: just after a start it may still be runc."""
    deadline = time.monotonic() + _EXEC_SECONDS
    while pid and process_tree.name_of(pid).startswith(_RUNC) and time.monotonic() < deadline:
        time.sleep(0.005)


def _explain(reason: str, image: Optional[str]) -> str:
    """The error message for a container that the engine refused to start, with a fix if we know one."""
    if '"/bin/sh"' in reason:
        return _NO_SHELL.format(image=image)
    if "could not select device driver" in reason:
        return (
            "The Docker engine of this machine cannot hand out GPUs. Install NVIDIA's container toolkit there "
            f"(nvidia-container-toolkit), then restart the engine. It says: {reason}"
        )
    return f"The container could not be started: {reason}"
