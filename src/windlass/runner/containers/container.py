"""The container of a run, as its supervisor sees it: made, started at most once, asked, and removed at the end.

Docker keeps what a supervisor could lose: whether the script was started, whether it lives, and how it ended. So a new
supervisor finds the container by its name and goes on. An engine that does not answer says nothing about a container:
that is waited for, however long it takes.
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

from ..environments.build_once import Tools
from ..supervisor.launch import CannotStart
from ..supervisor.script_process import Exit, Script
from ..system import process_tree
from ..system.process_tree import Process
from ..workdir.machine_folder import Machine, remove
from ..workdir.run_folder import Refused, RunFolder, open_below, read_json
from . import create_request, images
from .create_request import DOOR, FAILED, TWICE, WAY_IN, Interior, name_of
from .docker_api import PULSE, START_SECONDS, Answer, Engine, EngineAway, EngineRefused, NoEngine, insist

NOBODY = Process(0, 0)
_BURIAL_SECONDS = 120.0
_EXEC_SECONDS = 10.0
_RUNC = b"runc:["  # how it calls itself until then
_LONGEST_SECONDS = 7 * 86400  # that an engine may be away
_MOST_TOLD = 4096  # bytes
_LONGEST_MESSAGE = 1000
_NEVER = "0001-"  # how a time begins that never was
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")
_END = b'"StatusCode"'
_LABEL = "windlass.body"
_KILLED = 128 + signal.SIGKILL
_LOST = 255  # what the engine says of an end that it did not see
_ENDED_BY_ENGINE = (_KILLED, 128 + signal.SIGTERM)
_NO_PROGRAM = 127
_NO_SHELL = "The image {image} has no /bin/sh, and without a shell no script can be started in it."
_INITS = ("docker-init", "catatonit")

Wait = Callable[[float], None]


class Container(Script):
    def __init__(self, machine: Machine, folder: RunFolder, run: Mapping[str, Any]) -> None:
        super().__init__(folder, NOBODY)
        self.machine = machine
        self.run = run
        self.name = name_of(run)
        self._path = f"/containers/{self.name}"
        self._mark = os.fsencode(f"WINDLASS_COOKIE={run['nonce']}")
        self._waiting: Optional[Answer] = None  # the engine's word on the end, once it comes
        self._heard = b""  # of it
        self._is_away = self._was_away = False
        self.may_have_missed = False  # somebody was away while the script may have ended: the engine, or a supervisor
        self._was_killed = False
        self._was_made = False
        self._is_stray = False
        self._everyone = process_tree.Tree(f"WINDLASS_COOKIE={run['nonce']}")
        self._state: Mapping[str, Any] = {}
        self._inside: Optional[Interior] = None
        self._body: Dict[str, Any] = {}

    @property
    def engine(self) -> Engine:
        return Engine(self.run["container"].get("engine"))

    # ---- its making, repeatable until it is started ----

    def furnish(self, tools: Tools) -> Interior:
        """Have what it is made from."""
        self._inside = images.furnish(self.machine, self.run, self.folder, tools)
        return self._inside

    def create(self, run: Mapping[str, Any], wait: Wait) -> None:
        """Have it ready to be started, exactly as the run wants it now."""
        assert self._inside is not None
        self.run = run
        try:
            self.hand_over(b"")
            self._body = create_request.body_of(run, self.machine, self.folder, self._inside, self._user())
            insist(self._create, wait)
        except (EngineRefused, OSError) as e:
            raise CannotStart(f"The container of this run could not be made: {e}") from None
        except EngineAway as e:
            raise CannotStart(str(e)) from None

    def hand_over(self, secrets: bytes) -> None:
        """What the run was granted. The place must be there when it is made, and is filled before it is started."""
        create_request.place_secrets(self.run, secrets)

    def _user(self) -> str:
        """Who owns the files that it writes: this account, which is root to an engine of its own (rootless)."""
        try:
            is_own = os.getuid() != 0 and os.stat(self.engine.path).st_uid == os.getuid()
        except (OSError, NoEngine):
            is_own = False
        return "0:0" if is_own else f"{os.getuid()}:{os.getgid()}"

    def _create(self) -> None:
        digest = hashlib.sha256(json.dumps(self._body, sort_keys=True).encode()).hexdigest()
        labels = {"windlass.job": self.folder.job, "windlass.root": self.machine.root, _LABEL: digest}
        os.makedirs(self.folder.at(DOOR), 0o700, exist_ok=True)
        there = self._inspect()
        known: Mapping[str, str] = (there or {"Config": {}})["Config"].get("Labels") or {}
        if there is not None and known.get(_LABEL) != digest:
            # Made with other wishes, by us or by one that is dead, and never started. Or packages were installed in it.
            self.engine.remove_container(self.name, force=_LABEL not in known)
            there = None
        if there is not None and not self._is_limited(there):
            self.engine.remove_container(self.name)
            there = None
        if there is None:
            host = {**create_request.limits_of(self.run), **self._body["HostConfig"]}
            body = {**self._body, "HostConfig": host, "Labels": labels}
            self.engine.call("POST", f"/containers/create?name={self.name}", body, seconds=START_SECONDS)
        self._was_made = True

    def _is_limited(self, there: Mapping[str, Any]) -> bool:
        """Whether a container that was made ahead has the limits that its run has by now, or could be given them."""
        wanted = create_request.limits_of(self.run)
        has = there.get("HostConfig") or {}
        if all(has.get(name) == value for name, value in wanted.items()):
            return True
        try:
            self.engine.call("POST", f"{self._path}/update", wanted)
        except EngineRefused:
            return False
        return True

    # ---- its life ----

    def start(self, wait: Wait) -> None:
        """Start it unless it ever was. Once this was called, only the engine knows, so its word is waited for."""
        while True:
            try:
                return self._start()
            except EngineAway as e:
                self._note_away(str(e))
                wait(PULSE)

    def _start(self) -> None:
        try:
            if not self._has_started():
                self._call_start()
            self._was_made = True
        except EngineRefused as e:
            if not self._has_started():
                # An engine that was killed while it started the container knows nothing of that, and only refuses.
                self._is_stray = self._left(WAY_IN) or "already" in str(e)
                if not self._is_stray:
                    raise CannotStart(_explain(str(e), self._body.get("Image"))) from None
        self._meet()

    def _call_start(self) -> None:
        try:
            self.engine.call("POST", f"{self._path}/start", seconds=START_SECONDS)
        except EngineRefused as e:
            if not any(word in str(e) for word in _INITS) or not self._body.get("HostConfig", {}).pop("Init", False):
                raise
            self._create()  # the engine lacks the small program that buries the dead; most scripts leave none
            self.engine.call("POST", f"{self._path}/start", seconds=START_SECONDS)

    def _has_started(self) -> bool:
        there = self._inspect()
        return there is None or not there["State"]["StartedAt"].startswith(_NEVER)

    def _meet(self) -> None:
        """Who its first process is on this machine, if it can be seen from here."""
        there = self._inspect() or {"State": {}}
        pid = there["State"].get("Pid") or 0
        _await_exec(pid)
        found = process_tree.identify(pid) if pid and process_tree.has_mark(pid, self._mark) else None
        if self._is_stray:
            found = min(self._everyone.members(), key=lambda process: process.start, default=None)
        self.process = found or NOBODY

    def look(self) -> Optional[Exit]:
        if self._is_stray:
            return self._look_at_stray()
        self._hear()
        try:
            there = self._inspect()
            self._is_away = False
            if there is None:
                return self._missing()
            self._state = there["State"]
            if self._state["Running"] or self._state.get("Paused") or self._state.get("Restarting"):
                self._listen()
                return None
        except EngineAway as e:
            self._note_away(str(e))
            return None
        return self._end(int(self._state["ExitCode"]))

    def signal(self, number: int, everyone: process_tree.Tree) -> bool:
        """By the engine: to the first process, and a KILL to all."""
        if self._is_stray:
            return bool(everyone.signal(number))
        try:
            if self._state.get("Paused"):
                self.engine.call("POST", f"{self._path}/unpause")
            self.engine.call("POST", f"{self._path}/kill?signal={int(number)}")
        except (EngineRefused, EngineAway):
            return False  # it has ended, or it is tried again
        self._was_killed = self._was_killed or number == signal.SIGKILL
        return True

    def members(self) -> List[process_tree.Seen]:
        seen = process_tree.look(self.process.pid) if self.process.pid else None
        if seen is None or seen.start != self.process.start:
            return []
        return [seen, *process_tree.descendants(seen.pid)]

    def let_go(self) -> None:
        self._hang_up()

    def moments(self) -> Dict[str, float]:
        began, ended = (_moment(self._state.get(name, "")) for name in ("StartedAt", "FinishedAt"))
        if began is None or ended is None or ended < began:
            return {}
        return {"started_at": began, "ended_at": ended, "seconds": round(ended - began, 3)}

    # ---- its end ----

    def bury(self) -> None:
        """Remove it, and if the engine is away, when it is back. Not for ever: whoever cleans up tries again."""
        create_request.remove_secrets(self.run)
        deadline = time.monotonic() + _BURIAL_SECONDS
        while self._was_made or os.path.isdir(self.folder.at(DOOR)):
            try:
                self.remove()
                remove(self.folder.at(DOOR))
                return
            except OSError as e:
                if time.monotonic() > deadline:
                    self.folder.tell("trouble", message=str(e))
                    return
                time.sleep(PULSE)

    def remove(self) -> None:
        """OSError if the engine is away."""
        try:
            self.engine.remove_container(self.name)
        except (EngineAway, EngineRefused) as e:
            raise OSError(f"The container {self.name} is still there: {e}") from None

    def _end(self, code: int) -> Exit:
        self.failure = self._failure(code)
        if self._left(TWICE):
            return self._unknown("Its container was started twice, the second time in vain; so its end was not kept.")
        if code == _LOST and self.may_have_missed:
            return self._unknown("The Docker engine was not there when it ended, and does not know how.")
        if code == _KILLED and (self._state.get("OOMKilled") or self._was_killed):
            self.was_starved = bool(self._state.get("OOMKilled"))
            return Exit(None, int(signal.SIGKILL))
        if code in _ENDED_BY_ENGINE and self._was_away:
            self.words = "The Docker engine was restarted, which ends containers unless it is set to live-restore."
        elif 128 < code < 128 + signal.NSIG:
            self.words = f"{code} is 128 + {code - 128}: it was ended by that signal, or has ended so by itself."
        return Exit(code)

    def _left(self, name: str) -> bool:
        return os.path.lexists(self.folder.at(f"{DOOR}/{name}"))

    def _read(self, name: str) -> str:
        """What stands at the door. The script can put anything there: a link, a FIFO, a file without end."""
        try:
            fd = open_below(self.folder.path, f"{DOOR}/{name}")
        except (OSError, Refused):
            return ""
        try:
            return os.read(fd, _MOST_TOLD).decode("utf-8", "replace").strip()[:_LONGEST_MESSAGE]
        finally:
            os.close(fd)

    def _failure(self, code: int) -> str:
        """Why the script was never executed, if so."""
        if self._left(FAILED):
            return self._read(FAILED)
        if not self._left(WAY_IN) and code == _NO_PROGRAM:
            return _NO_SHELL.format(image=self.run["container"].get("image") or "of this run")
        if not self._left(WAY_IN):
            return (
                f"The container cannot write to the run's folder as user {self._user()}. Does the engine remap users?"
            )
        return ""

    def _look_at_stray(self) -> Optional[Exit]:
        """The engine does not know it, but its processes are known by their mark."""
        if self._everyone.members():
            return None
        self.failure = self._failure(0)
        return self._unknown("The Docker engine was killed while it started the container, and never knew of its end.")

    def _missing(self) -> Optional[Exit]:
        if self.process is not NOBODY and process_tree.is_alive(self.process):
            return None
        return self._unknown("Its container was removed by somebody else, and with it the word on how it ended.")

    def _unknown(self, why: str) -> Exit:
        self.words = why
        return Exit()

    # ---- the engine ----

    def _inspect(self) -> Optional[Dict[str, Any]]:
        try:
            found: Optional[Dict[str, Any]] = self.engine.call("GET", f"{self._path}/json")
        except EngineRefused as e:
            if e.status == 404:
                return None
            raise EngineAway(f"The engine cannot tell: {e}") from None
        if found is None:  # which would read as if there were no container
            raise EngineAway("The engine broke off before it told of the container.")
        return found

    @property
    def fd(self) -> int:
        """What can be read when there is news."""
        return self._waiting.fileno() if self._waiting is not None else -1

    @property
    def pulse(self) -> Optional[float]:
        return PULSE if self._waiting is None else None

    def _listen(self) -> None:
        """The engine tells of the end as soon as it is there."""
        if self._waiting is None:
            self._waiting, self._heard = self.engine.open("POST", f"{self._path}/wait"), b""

    def _hear(self) -> None:
        if self._waiting is None:
            return
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        try:
            told = self._waiting.take() if poll.poll(0) else None
        except EngineAway:
            told = b""
        self._heard += told or b""
        if told == b"":
            # Unless it has told of the end, it was away, though it may be back by the time that we look.
            self._was_away = self._was_away or _END not in self._heard
            self.may_have_missed = self.may_have_missed or self._was_away
            self._hang_up()

    def _hang_up(self) -> None:
        if self._waiting is not None:
            self._waiting.close()
        self._waiting = None

    def _note_away(self, why: str) -> None:
        if not self._is_away:
            self.folder.tell("engine_away", message=why)
        self._is_away = self._was_away = self.may_have_missed = True
        self._hang_up()


def forget(machine: Machine, path: str) -> None:
    """Remove what may be left of the container of a run whose folder goes away. OSError: not now."""
    run = read_json(f"{path}/run.json") or {}
    if not run.get("container"):
        return
    create_request.remove_secrets(run)
    is_worth_it = time.time() - os.stat(path).st_mtime < _LONGEST_SECONDS
    if os.path.isdir(f"{path}/{DOOR}") and is_worth_it:
        Container(machine, machine.folder(str(run["job"])), run).remove()


def _moment(text: str) -> Optional[float]:
    """A time as the engine writes it: Docker's end in Z, Podman's may tell how far they are ahead. None for never."""
    import datetime

    found = _TIME.match(text)
    if found is None or text.startswith(_NEVER):
        return None
    whole, part, zone = found.groups()
    return datetime.datetime.strptime(whole + zone, "%Y-%m-%dT%H:%M:%S%z").timestamp() + float(f"0{part or ''}")


def _await_exec(pid: int) -> None:
    """An engine says that it has started a container just before that is so: then its first process is still runc."""
    deadline = time.monotonic() + _EXEC_SECONDS
    while pid and process_tree.name_of(pid).startswith(_RUNC) and time.monotonic() < deadline:
        time.sleep(0.005)


def _explain(words: str, image: Optional[str]) -> str:
    """The engine's refusal to start, and what to do about it."""
    if '"/bin/sh"' in words:
        return _NO_SHELL.format(image=image)
    if "could not select device driver" in words:
        return (
            "The Docker engine of this machine cannot hand out GPUs. Install NVIDIA's container toolkit there "
            f"(nvidia-container-toolkit), then restart the engine. It says: {words}"
        )
    return f"The container could not be started: {words}"
