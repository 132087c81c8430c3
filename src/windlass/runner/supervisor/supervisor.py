"""Owns one run, from the claim to status.json. One small process without threads, forked from the host, outliving it.

A supervisor may find that it is not the first one. It holds the lock, so the others are dead, and the folder tells what
they did: no "exec", and it begins; a script that lives, and it adopts it; a script that is dead, and it writes the end.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from contextlib import suppress
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from .. import failpoints
from ..containers.container import Container
from ..containers.create_request import DOOR
from ..distributed import command as distributed
from ..environments import pyenv
from ..environments.build_progress import Stage
from ..environments.environment import (
    Building,
    EnvironmentFailed,
    Ready,
    Tools,
    find_interpreter,
    is_built,
    ready_as_it_is,
    spec_of,
)
from ..system import kernel, limits, process_tree
from ..system.cgroup import Group
from ..system.process_tree import Process, Tree
from ..system.wakeup import Wakeup
from ..workdir import run_files, source_tree, source_tree_reuse
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import LOG, RunFolder, append, encode, write_json
from . import launch, prestage, status_file
from .monitor import Attendance
from .script_process import Adopted, Child, Exit, Script, exit_from, reap_all
from .secrets_fd import VARIABLE, Granted

# What is left of the tree when the script has ended gets this long after TERM.
_LEFTOVER_SECONDS = 2.0
_MOST_CRASHES = 3
_HOLD_SECONDS = 1.0
# A snapshot that takes longer to be placed than people wait without asking why.
_LARGE_SNAPSHOT, _MANY_FILES = 32 << 20, 1000
# How the properties of a run begin that tell what was replaced in its environment, and what the server takes of one.
_REPLACED = "replaced."
_LONGEST_KEY, _LONGEST_VALUE = 100, 1000
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)


class Stopped(Exception):
    """The run was stopped before its script was started."""


class OutOfTime(Exception):
    """The run has waited for its environment as long as it may. That says nothing to others who want the same one."""


class Abandoned(Exception):
    """The run was made ready, and nobody is left who could start it. Another supervisor can begin anew."""


def supervise(
    machine: Machine,
    folder: RunFolder,
    lock: int,
    run: Dict[str, Any],
    boot_id: str,
    granted: Optional[Granted] = None,
    group: Optional[Group] = None,
    known: Iterable[Process] = (),
) -> int:
    """Everything from here to the end of the process. A surprise of ours is written down. `known` are processes of the
    run that earlier supervisors have left.
    """
    supervisor = Supervisor(machine, folder, lock, run, boot_id, granted, group)
    for process in known:
        supervisor.tree.know(process)
    try:
        supervisor.live()
    except Exception:
        supervisor.stumble(traceback.format_exc())
        return 1
    return 0


class Supervisor:
    def __init__(
        self,
        machine: Machine,
        folder: RunFolder,
        lock: int,
        run: Dict[str, Any],
        boot_id: str,
        granted: Optional[Granted],
        group: Optional[Group],
    ) -> None:
        self.machine = machine
        self.folder = folder
        self.lock = lock
        self.run = run
        self.host = os.getppid()
        self.boot_id = boot_id
        self.granted = granted  # the secrets that `run` names; their values are in no folder
        self.group = group  # the control group of all that the run starts, where there is one
        self.tree = Tree(f"WINDLASS_COOKIE={run.get('nonce')}", group)
        self.wakeup = Wakeup((signal.SIGCHLD, signal.SIGUSR1))
        signal.signal(signal.SIGUSR2, self._hear_stop)
        self.attendance: Optional[Attendance] = None
        self.is_reaper = False
        self.is_first = False
        self.is_durable = False  # the claim
        self.build_ends: Optional[float] = None  # when an environment that is not there by then is given up
        self.placed: source_tree_reuse.Index = {}
        self.launch: Optional[launch.Launch] = None
        self.stage = Stage(folder)
        self.container = Container(machine, folder, run) if run.get("container") else None

    def live(self) -> None:
        self.wakeup.hear(_DEAF_TO)  # and do nothing about it; an exec makes them as every program expects them
        self.is_reaper = kernel.become_subreaper()
        if self.folder.status(self.boot_id) is not None:
            return
        if self._has_booted_since():
            self.finish("node_lost", Exit(), "The machine was restarted while this run was on it.")
            return
        with suppress(OSError):  # a full disk; our host knows us all the same
            write_json(self.folder.at("claim/supervisor.json"), self._signature())
        story = self.folder.story()
        if "exec" in story or self.machine.supervisor_of(self.folder) is not None:
            self._resume(story)
            return
        if "claimed" in story:
            self.tree.end(0, reap_all)  # what a supervisor that was killed had started to build with
            self.folder.clear_stage()
        self._begin()

    def _hear_stop(self, *_: object) -> None:
        """The job is to be stopped, and that cannot be written down."""
        self.folder.unwritten_stop = {"reason": "stopped", "grace": float(self.run.get("grace") or 0.0)}

    def _has_booted_since(self) -> bool:
        written = (self.run, self.folder.supervisor() or {}, self.folder.process() or {})
        return any(one.get("boot_id", self.boot_id) != self.boot_id for one in written)

    def _signature(self, of: Optional[Process] = None) -> Dict[str, Any]:
        """Of that process, or our own."""
        one = of or process_tree.identify(os.getpid()) or Process(os.getpid(), 0)
        now = {"at": time.time(), "monotonic": time.monotonic()}
        return {"pid": one.pid, "starttime": one.start, "boot_id": self.boot_id, **now}

    # ---- the first supervisor of a job ----

    def _begin(self) -> None:
        self.is_first = True
        status_file.keep_room(self.folder, self.lock)
        self.folder.tell("claimed", boot_id=self.boot_id, pid=os.getpid())
        try:
            self._heed()
            self._need_granted()
            ready = self._prepare()
            self._await_start()
            self._exec(ready)
        except Abandoned:
            return
        except Stopped:
            self._call_off()
            self.finish("stopped", Exit())
        except (EnvironmentFailed, OutOfTime) as e:
            self.finish("environment_failed", Exit(), str(e))
        except (launch.CannotStart, source_tree.CannotPlace) as e:
            self._call_off()
            self.finish("start_failed", Exit(), str(e))
        else:
            self._attend(0.0)

    def _await_start(self) -> None:
        """If this was only to be made ready: until the host has written a run.json that does not hold us."""
        self._heed()
        if self.run.get("hold"):
            self._get_ready()
        while self.run.get("hold"):
            is_orphaned = os.getppid() != self.host  # looked at before the file, so that no start is missed
            run = self.folder.run()
            if run and not run.get("hold"):
                self.is_durable = self.is_durable and prestage.is_first_start(self.run, run)
                self.run = run
            elif is_orphaned:
                raise Abandoned
            else:
                self._pause(_HOLD_SECONDS)
        self._heed()
        self._need_granted()

    def _need_granted(self) -> None:
        """What was granted is not in the folder: without it nothing begins, and whoever has it may start the job."""
        is_there = self.granted is not None and self.granted.is_filled
        if self.run.get("secrets") and not self.run.get("hold") and not is_there:
            raise Abandoned

    def _get_ready(self) -> None:
        """Do now what would take time then."""
        if self.container is not None:
            self.container.create(self.run, self._pause)
        else:
            self._fork()
        try:
            self.folder.tell("ready", durable=True)
            self.is_durable = True
        except OSError:
            pass  # a full disk, perhaps only now

    def _heed(self) -> None:
        if self.folder.stop() is not None:
            raise Stopped
        if self.build_ends is not None and time.monotonic() > self.build_ends:
            raise OutOfTime(
                f"The environment was not ready within {float(self.run['build_limit']) / 3600:.3g} h.\n"
                "What it waited for is at the end of the build log; the server's setting build_hours gives it longer."
            )

    def _prepare(self) -> Ready:
        self._place()
        limit = self.run.get("build_limit")
        self.build_ends = None if limit is None else time.monotonic() + float(limit)
        try:
            ready = self._furnish(Tools(self._run_tool, self._pause, self.stage))
            self._record_replaced(ready.replaced)
            self.stage.end("creating the container" if self.container is not None else "")
            return ready
        finally:
            self.build_ends = None

    def _furnish(self, tools: Tools) -> Ready:
        if self.container is not None:
            return Ready("", replaced=self.container.furnish(tools).replaced)
        if not is_built(self.run):
            return ready_as_it_is(self._interpreter())
        building = Building(self.machine, self.run, self.folder, tools)
        ready = building.ready()
        if ready is not None:
            return ready
        self.stage.begin("building the environment")
        try:
            return building.wait()
        except OSError as e:
            raise EnvironmentFailed(f"The environment could not be built: {e}") from e

    def _interpreter(self) -> str:
        """The interpreter that is there: not the shim of pyenv that leads to it."""
        spec, source = spec_of(self.run), self.folder.at("source")
        variables = {**(spec.get("variables") or {}), **(self.run.get("env") or {})}
        script = next(iter(self.run["command"][1:]), "")
        folder = source if script.startswith("-") else os.path.join(source, os.path.dirname(script))
        return pyenv.program_of(find_interpreter(spec["interpreter"], source), folder, variables)

    def _record_replaced(self, replaced: Mapping[str, str]) -> None:
        """Make what the environment has in place of what was asked for properties of the run, as a script could."""
        if replaced:
            values = {f"{_REPLACED}{name}"[:_LONGEST_KEY]: text[:_LONGEST_VALUE] for name, text in replaced.items()}
            line = encode({"do": "properties", "values": values}) + b"\n"
            try:
                append(self.folder.at("calls/environment.jsonl"), line)
            except OSError as e:
                raise EnvironmentFailed(f"What the environment replaces could not be recorded: {e}") from e

    def _place(self) -> None:
        if self.run.get("is_placed"):
            return
        folders = ["outputs", "logs", *self.run.get("watch", ())]
        os.umask(0o022)
        try:
            files, target = source_tree.for_script(self.run.get("files") or []), self.folder.at("source")
            if sum(size for _, _, size, _ in files) >= _LARGE_SNAPSHOT or len(files) >= _MANY_FILES:
                self.stage.place(f"copying {len(files)} files into the run's folder")
            self.placed = source_tree.place(self.machine, files, folders, self.boot_id, target)
            self.stage.end()
        except OSError as e:
            raise source_tree.CannotPlace(f"The snapshot could not be placed: {e}") from e
        finally:
            os.umask(0o077)

    def _run_tool(self, argv: List[str], env: Dict[str, str], log: str, meanwhile: Callable[[], None]) -> int:
        """A program that must not outlive us; nor does anything that it leaves running outlive it."""
        tool = launch.Launch("/", log, _die_with_us, self._fork_process)
        trouble = tool.go(argv, {**env, "WINDLASS_COOKIE": str(self.run["nonce"])})
        if trouble:
            raise EnvironmentFailed(trouble)
        try:
            while True:
                done, status = os.waitpid(tool.pid, os.WNOHANG)
                meanwhile()
                if done:
                    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
                self._pause(0.1)
        finally:
            self._end_leftovers()

    def _pause(self, seconds: float) -> None:
        self.wakeup.wait(seconds)
        self._heed()

    def _exec(self, ready: Ready) -> None:
        if self.container is not None:
            self._enter(self.container)
            return
        env = launch.variables_of(self.run, self.machine, self.folder.path, ready.prefix, ready.variables)
        argv = launch.command_of(self.run, ready.python, self.folder.at("source"), env)
        if self.granted is not None and self.run.get("secrets"):
            env[VARIABLE] = str(self.granted.fd)
        try:
            child = self.launch or self._fork()
            process = process_tree.identify(child.pid) or Process(child.pid, 0)
            parts = self._limit(process)
            if distributed.is_launched(self.run):
                argv = distributed.launcher_command(self.run, self.folder, argv, env, parts)
            # There before the script can be: whoever finds no "exec" knows that nothing ran. After a power cut what was
            # claimed before it is not started again (but see prestage.py); so the claim must be on disk, or this.
            self._note_start()
            self.folder.tell("exec", durable=not self.is_durable, boot_id=self.boot_id)
            write_json(self.folder.at("claim/process.json"), self._signature(process))
            began_ns = time.time_ns()
            self.launch = None
            trouble = child.go(argv, env)
        except OSError as e:
            raise launch.CannotStart(f"The script could not be started: {e}") from e
        if trouble:
            self.folder.tell("start_failed", message=trouble)
            raise launch.CannotStart(trouble)
        self._stand_by(Child(self.folder, process))
        failpoints.reach("F11")
        self.folder.tell("running", pid=process.pid)
        self._note_placed(began_ns)

    def _limit(self, process: Process) -> List[List[str]]:
        """Limit the process that will become the script to the run's allocation. Returns the files by which processes
        join the group of each node.
        """
        wanted = limits.limits_of(self.run)
        if wanted is None:
            return []
        found = limits.enforce(wanted, process, self.group, self.machine)
        parts = limits.split(self.group, self.run["allocation"], process.pid)
        self._note_limits(wanted, found)
        return parts

    def _note_limits(self, wanted: Optional[limits.Limits], found: Mapping[str, str]) -> None:
        """Write down what limits the run, and by what."""
        if wanted is not None:
            said = {"cores": wanted.cores, "memory_mb": wanted.memory_mb, "is_hard": wanted.is_hard, **found}
            self.folder.tell("limits", False, **said)

    def _enter(self, container: Container) -> None:
        """The same for a container: the engine executes the script, and remembers it."""
        container.create(self.run, self._pause)
        self._note_limits(limits.limits_of(self.run), {"cpu": "container", "memory": "container"})
        try:
            if self.granted is not None:
                container.hand_over(self.granted.content())
            self._note_start()
            self.folder.tell("exec", durable=not self.is_durable, boot_id=self.boot_id)
        except OSError as e:
            raise launch.CannotStart(f"The container could not be started: {e}") from e
        began_ns = time.time_ns()
        self._start(container)
        self._stand_by(container)
        self.folder.tell("running", pid=container.process.pid)
        self._note_placed(began_ns)

    def _start(self, container: Container) -> None:
        try:
            container.start(self.wakeup.wait)
        except launch.CannotStart as e:
            self.folder.tell("start_failed", message=str(e))
            raise
        failpoints.reach("F11")
        if self.folder.process() is None:
            write_json(self.folder.at("claim/process.json"), self._signature(container.process))

    def _fork(self) -> launch.Launch:
        """The process that will become the script: it gets ready while we do."""
        self.launch = launch.Launch(self.folder.at("source"), self.folder.at(LOG), self._at_birth, self._fork_process)
        return self.launch

    def _at_birth(self) -> None:
        """In that process: keep what was granted, and join the groups by which it will be limited."""
        if self.granted is not None:
            self.granted.hand_on()
        wanted = limits.limits_of(self.run)
        if self.group is not None and (self.run.get("hold") or (wanted is not None and wanted.is_urgent)):
            with suppress(OSError):  # then we move it there
                self.group.enter()

    def _fork_process(self) -> int:
        return os.fork() if self.group is None else self.group.fork()

    def _call_off(self) -> None:
        if self.launch is not None:
            self.launch.call_off()

    def _note_placed(self, began_ns: int) -> None:
        with suppress(OSError):  # then the next run's files are all written anew
            source_tree_reuse.note(self.machine, self.folder, self.placed, self.boot_id, began_ns)
        self.placed = {}

    def _note_start(self) -> None:
        group = self.group.path if self.group is not None else None
        self.machine.note_start(self.folder, {**self._signature(), "nonce": self.run.get("nonce"), "group": group})

    # ---- a later one ----

    def _resume(self, story: Dict[str, Dict[str, Any]]) -> None:
        with suppress(OSError):  # a full disk; then the one before us is on record, who is dead
            self._note_start()
        if "start_failed" in story:
            self.finish("start_failed", Exit(), str(story["start_failed"].get("message", "")))
            return
        ended = story.get("exited", {})
        script = self._adopt(is_over="reason" in ended)
        if script is None:
            return
        self.folder.tell("adopted", pid=os.getpid())
        attendance = self._stand_by(script)
        if "stopping" in story:
            attendance.remember(story["stopping"])
        if "reason" in ended:
            self.finish(ended["reason"], exit_from(ended))
        else:
            self._attend(time.monotonic() - float((self.folder.process() or {"monotonic": 0.0})["monotonic"]))

    def _adopt(self, is_over: bool) -> Optional[Script]:
        """What an earlier supervisor has started; None if that had no effect, and the run is over."""
        if self.container is not None:
            self.container.may_have_missed = True
            try:
                if not is_over:
                    self._start(self.container)
                return self.container
            except launch.CannotStart as e:
                self.finish("start_failed", Exit(), str(e))
                return None
        written = self.folder.process()
        if written is None:
            self.finish("exit_unknown", Exit(), "Its supervisor was killed while the script was being started.")
            return None
        return Adopted(self.folder, Process(int(written["pid"]), int(written["starttime"])))

    # ---- until the end ----

    def stumble(self, trouble: str) -> None:
        """Leave the job to the next supervisor, which adopts its script; not for ever, though."""
        reason = trouble.strip().splitlines()[-1]
        crashes = self.folder.story().get("crashed", {}).get("count", 0) + 1
        self.folder.tell("crashed", count=crashes, message=reason)
        if crashes >= _MOST_CRASHES:
            self.finish("supervisor_lost", Exit(), f"The runner failed: {reason}")
        append(self.folder.at("claim/errors.txt"), trouble.encode("utf-8", "replace"))

    def _stand_by(self, script: Script) -> Attendance:
        script.is_launcher = self.container is None and distributed.is_launched(self.run)
        self.tree.know(script.process)
        self.attendance = Attendance(script, self.run, self.tree, self.wakeup)
        return self.attendance

    def _attend(self, age: float) -> None:
        assert self.attendance is not None
        script = self.attendance.script
        ended = self.attendance.stay(age)
        reason = "start_failed" if script.failure else self.attendance.verdict(ended)
        # Written before the process is let go: if we die now, either it is still a child of somebody, or this is there.
        self.folder.tell("exited", reason=reason, **ended._asdict())
        script.let_go()
        failpoints.reach("F15")
        self.finish(reason, ended, script.failure or self._message(reason, ended))

    def _message(self, reason: str, ended: Exit) -> str:
        """What there is to say of an end: by the launcher, of the script, and of its memory."""
        assert self.attendance is not None
        words = [self.attendance.script.words, self._memory_words(reason, ended)]
        if distributed.is_launched(self.run):
            words.insert(0, distributed.failed_rank(self.folder, DOOR if self.container is not None else "claim"))
        return " ".join(word for word in words if word)

    def _memory_words(self, reason: str, ended: Exit) -> str:
        wanted = limits.limits_of(self.run)
        if wanted is None or not wanted.memory_mb:
            return ""
        if reason == "out_of_memory":
            return f"The run needed more memory than its limit of {wanted.memory_mb} MB, and was killed."
        if ended != Exit(0) and self.attendance is not None and self.attendance.memory.has_killed_own():
            return f"A process of the run was killed at the run's memory limit of {wanted.memory_mb} MB."
        return ""

    def finish(self, reason: str, ended: Exit, message: str = "") -> None:
        if self.folder.is_replaced(self.lock):
            return  # so are we: who has the lock that is there now tells the end, from the same story
        status = status_file.describe(self.folder, self.run, reason, ended, message)
        status["boot_id"] = self.boot_id  # of the boot that saw the end
        status["left_behind"] = self._end_leftovers()
        status["usage"] = self.attendance.summary() if self.attendance is not None else None
        status["files"] = run_files.digest_record(self.folder, self.run)
        if self.attendance is not None:
            status.update(self.attendance.script.moments())
        status_file.put_status(self.folder, self.run, self.lock, status)
        with suppress(OSError):  # the status says so too
            self.machine.note_script_end(self.folder)
        if self.container is not None:
            self.container.bury()

    def _end_leftovers(self) -> int:
        if self.attendance is not None:
            self.attendance.meter.gpu.stop()
        if self.is_reaper and self.is_first and reap_all() and (self.group is None or self.group.remove()):
            return 0  # the common case: no child is left, and nobody could get away
        left = self.tree.end(_LEFTOVER_SECONDS, reap_all)
        if self.group is not None:
            self.group.kill()
            self.group.remove()
        return left


def _die_with_us() -> None:
    kernel.die_with_parent(signal.SIGKILL)
