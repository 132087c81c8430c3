"""Supervisor of one run, from the claim to status.json: a process without threads, forked by the host, outliving it.

A supervisor may not be the first one of its job. It holds the lock, so earlier ones are dead, and the folder records
what they did. Without an "exec" event it starts the script; a running script is adopted; of an ended script it writes
the status.
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
from ..containers.create_request import ENTRY_DIR
from ..distributed import command as distributed
from ..environments.build_progress import Stage
from ..environments.environment import (
    BuildHooks,
    EnvironmentBuild,
    EnvironmentFailed,
    ReadyEnvironment,
    existing_environment,
    interpreter_of,
    is_built,
)
from ..system import kernel, limits, process_tree
from ..system.cgroup import Group
from ..system.process_tree import Process, Tree
from ..system.wakeup import Wakeup
from ..workdir import run_files, source_tree, source_tree_reuse
from ..workdir.machine_folder import Machine
from ..workdir.run_folder import LOG, RunFolder, append, encode, write_json
from . import launch, prestage, status_file
from .monitor import ScriptMonitor
from .script_process import AdoptedScript, ChildScript, Exit, ScriptProcess, exit_from, reap_all
from .secrets_fd import VARIABLE, SecretsFile

# Time between TERM and KILL for processes that are left when the script has ended.
_LEFTOVER_SECONDS = 2.0
_MOST_CRASHES = 3
_HOLD_SECONDS = 1.0
# Snapshots of this size take long to place: the stage is shown.
_LARGE_SNAPSHOT, _MANY_FILES = 32 << 20, 1000
# Prefix of the run's properties that name replaced packages; the server's limits of a property.
_REPLACED = "replaced."
_LONGEST_KEY, _LONGEST_VALUE = 100, 1000
_IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)


class Stopped(Exception):
    """The run was stopped before its script was started."""


class OutOfTime(Exception):
    """The environment was not ready within the run's build limit. Other runs may go on to wait for it."""


class Abandoned(Exception):
    """The run was pre-staged, and its host is gone. Another supervisor can start it from the beginning."""


def supervise(
    machine: Machine,
    folder: RunFolder,
    lock: int,
    run: Dict[str, Any],
    boot_id: str,
    secrets_file: Optional[SecretsFile] = None,
    group: Optional[Group] = None,
    known: Iterable[Process] = (),
) -> int:
    """Main function of a supervisor process; returns its exit code. `known` are processes of the run that earlier
    supervisors have left.
    """
    supervisor = Supervisor(machine, folder, lock, run, boot_id, secrets_file, group)
    for process in known:
        supervisor.tree.add(process)
    try:
        supervisor.run_job()
    except Exception:
        supervisor.record_crash(traceback.format_exc())
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
        secrets_file: Optional[SecretsFile],
        group: Optional[Group],
    ) -> None:
        self.machine = machine
        self.folder = folder
        self.lock = lock
        self.run = run
        self.host = os.getppid()
        self.boot_id = boot_id
        self.secrets_file = secrets_file  # the values of the secrets that `run` names
        self.group = group  # the control group of the run's processes, where there is one
        self.tree = Tree(f"WINDLASS_COOKIE={run.get('nonce')}", group)
        self.wakeup = Wakeup((signal.SIGCHLD, signal.SIGUSR1))
        signal.signal(signal.SIGUSR2, self._on_stop)
        self.monitor: Optional[ScriptMonitor] = None
        self.is_reaper = False
        self.is_first = False
        self.is_durable = False  # the claim is fsynced
        self.build_ends: Optional[float] = None  # deadline for the environment
        self.placed: source_tree_reuse.Index = {}
        self.launch: Optional[launch.Launch] = None
        self.stage = Stage(folder)
        self.container = Container(machine, folder, run) if run.get("container") else None

    def run_job(self) -> None:
        self.wakeup.add_signals(_IGNORED_SIGNALS)  # with a handler that does nothing: exec resets it for the script
        self.is_reaper = kernel.become_subreaper()
        if self.folder.status(self.boot_id) is not None:
            return
        if self._has_booted_since():
            self.finish("node_lost", Exit(), "The machine was restarted while this run was on it.")
            return
        with suppress(OSError):  # a full disk; the host that forked us knows our pid
            write_json(self.folder.at("claim/supervisor.json"), self._process_record())
        events = self.folder.last_events()
        if "exec" in events or self.machine.supervisor_of(self.folder) is not None:
            self._resume(events)
            return
        if "claimed" in events:
            self.tree.end(0, reap_all)  # build processes of a killed supervisor
            self.folder.clear_stage()
        self._begin()

    def _on_stop(self, *_: object) -> None:
        """Handle SIGUSR2: stop the job, when stop.json could not be written."""
        self.folder.unwritten_stop = {"reason": "stopped", "grace": float(self.run.get("grace") or 0.0)}

    def _has_booted_since(self) -> bool:
        written = (self.run, self.folder.supervisor() or {}, self.folder.process() or {})
        return any(one.get("boot_id", self.boot_id) != self.boot_id for one in written)

    def _process_record(self, of: Optional[Process] = None) -> Dict[str, Any]:
        """The content of process.json or supervisor.json: of that process, or of our own."""
        one = of or process_tree.identify(os.getpid()) or Process(os.getpid(), 0)
        now = {"at": time.time(), "monotonic": time.monotonic()}
        return {"pid": one.pid, "starttime": one.start, "boot_id": self.boot_id, **now}

    # ---- the first supervisor of a job ----

    def _begin(self) -> None:
        self.is_first = True
        status_file.reserve_space(self.folder, self.lock)
        self.folder.append_event("claimed", boot_id=self.boot_id, pid=os.getpid())
        try:
            self._check_stop()
            self._require_secrets()
            ready = self._prepare()
            self._await_start()
            self._exec(ready)
        except Abandoned:
            return
        except Stopped:
            self._cancel_launch()
            self.finish("stopped", Exit())
        except (EnvironmentFailed, OutOfTime) as e:
            self.finish("environment_failed", Exit(), str(e))
        except (launch.CannotStart, source_tree.CannotPlace) as e:
            self._cancel_launch()
            self.finish("start_failed", Exit(), str(e))
        else:
            self._follow_script(0.0)

    def _await_start(self) -> None:
        """If the job is pre-staged: wait until the host has written a run.json without `hold`."""
        self._check_stop()
        if self.run.get("hold"):
            self._prestage()
        while self.run.get("hold"):
            is_orphaned = os.getppid() != self.host  # checked before the file is read, so that no start is missed
            run = self.folder.run()
            if run and not run.get("hold"):
                self.is_durable = self.is_durable and prestage.is_first_start(self.run, run)
                self.run = run
            elif is_orphaned:
                raise Abandoned
            else:
                self._pause(_HOLD_SECONDS)
        self._check_stop()
        self._require_secrets()

    def _require_secrets(self) -> None:
        """Raise Abandoned if the values of the secrets are missing: they are not in the folder. A host that has them
        can start the job.
        """
        is_there = self.secrets_file is not None and self.secrets_file.is_filled
        if self.run.get("secrets") and not self.run.get("hold") and not is_there:
            raise Abandoned

    def _prestage(self) -> None:
        """Do what would otherwise delay the start: create the container, or fork the script's process."""
        if self.container is not None:
            self.container.create(self.run, self._pause)
        else:
            self._fork()
        try:
            self.folder.append_event("ready", durable=True)
            self.is_durable = True
        except OSError:
            pass  # the disk is full, perhaps only for now

    def _check_stop(self) -> None:
        if self.folder.stop() is not None:
            raise Stopped
        if self.build_ends is not None and time.monotonic() > self.build_ends:
            raise OutOfTime(
                f"The environment was not ready within {float(self.run['build_limit']) / 3600:.3g} h.\n"
                "What it waited for is at the end of the build log; the server's setting build_hours gives it longer."
            )

    def _prepare(self) -> ReadyEnvironment:
        self._place()
        limit = self.run.get("build_limit")
        self.build_ends = None if limit is None else time.monotonic() + float(limit)
        try:
            ready = self._prepare_environment(BuildHooks(self._run_tool, self._pause, self.stage))
            self._record_replaced(ready.replaced)
            self.stage.end("creating the container" if self.container is not None else "")
            return ready
        finally:
            self.build_ends = None

    def _prepare_environment(self, hooks: BuildHooks) -> ReadyEnvironment:
        if self.container is not None:
            return ReadyEnvironment("", replaced=self.container.prepare_image(hooks).replaced)
        if not is_built(self.run):
            return existing_environment(interpreter_of(self.run, self.folder.at("source")))
        building = EnvironmentBuild(self.machine, self.run, self.folder, hooks)
        ready = building.ready()
        if ready is not None:
            return ready
        self.stage.begin("building the environment")
        try:
            return building.wait()
        except OSError as e:
            raise EnvironmentFailed(f"The environment could not be built: {e}") from e

    def _record_replaced(self, replaced: Mapping[str, str]) -> None:
        """Record packages that were replaced in the environment as properties of the run."""
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
        """Run a build program. It ends when we do, and the processes that it leaves are ended after it."""
        tool = launch.Launch("/", log, _die_with_supervisor, self._fork_process)
        error = tool.exec(argv, {**env, "WINDLASS_COOKIE": str(self.run["nonce"])})
        if error:
            raise EnvironmentFailed(error)
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
        self._check_stop()

    def _exec(self, ready: ReadyEnvironment) -> None:
        if self.container is not None:
            self._exec_in_container(self.container)
            return
        env = launch.variables_of(self.run, self.machine, self.folder.path, ready.prefix, ready.variables)
        argv = launch.command_of(self.run, ready.python, self.folder.at("source"), env)
        if self.secrets_file is not None and self.run.get("secrets"):
            env[VARIABLE] = str(self.secrets_file.fd)
        try:
            child = self.launch or self._fork()
            process = process_tree.identify(child.pid) or Process(child.pid, 0)
            parts = self._limit(process)
            if distributed.is_launched(self.run):
                argv = distributed.launcher_command(self.run, self.folder, argv, env, parts)
            # Written before the script can run: a folder without "exec" proves that nothing ran. After a power loss a
            # claimed job is not started again, so the claim or this event must be fsynced (exception: prestage.py).
            self._note_start()
            self.folder.append_event("exec", durable=not self.is_durable, boot_id=self.boot_id)
            write_json(self.folder.at("claim/process.json"), self._process_record(process))
            began_ns = time.time_ns()
            self.launch = None
            error = child.exec(argv, env)
        except OSError as e:
            raise launch.CannotStart(f"The script could not be started: {e}") from e
        if error:
            self.folder.append_event("start_failed", message=error)
            raise launch.CannotStart(error)
        self._attach_monitor(ChildScript(self.folder, process))
        failpoints.reach("F11")
        self.folder.append_event("running", pid=process.pid)
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
        """Record the limits of the run, and by what each is enforced."""
        if wanted is not None:
            said = {"cores": wanted.cores, "memory_mb": wanted.memory_mb, "is_hard": wanted.is_hard, **found}
            self.folder.append_event("limits", False, **said)

    def _exec_in_container(self, container: Container) -> None:
        """Start the script in a container: the engine executes it, and keeps its state."""
        container.create(self.run, self._pause)
        self._note_limits(limits.limits_of(self.run), {"cpu": "container", "memory": "container"})
        try:
            if self.secrets_file is not None:
                container.write_secrets(self.secrets_file.content())
            self._note_start()
            self.folder.append_event("exec", durable=not self.is_durable, boot_id=self.boot_id)
        except OSError as e:
            raise launch.CannotStart(f"The container could not be started: {e}") from e
        began_ns = time.time_ns()
        self._start(container)
        self._attach_monitor(container)
        self.folder.append_event("running", pid=container.process.pid)
        self._note_placed(began_ns)

    def _start(self, container: Container) -> None:
        try:
            container.start(self.wakeup.wait)
        except launch.CannotStart as e:
            self.folder.append_event("start_failed", message=str(e))
            raise
        failpoints.reach("F11")
        if self.folder.process() is None:
            write_json(self.folder.at("claim/process.json"), self._process_record(container.process))

    def _fork(self) -> launch.Launch:
        """Fork the process that will become the script; it sets itself up meanwhile."""
        self.launch = launch.Launch(
            self.folder.at("source"), self.folder.at(LOG), self._set_up_child, self._fork_process
        )
        return self.launch

    def _set_up_child(self) -> None:
        """In the forked process: keep the secrets' descriptor, and join the control groups that will limit it."""
        if self.secrets_file is not None:
            self.secrets_file.make_inheritable()
        wanted = limits.limits_of(self.run)
        if self.group is not None and (self.run.get("hold") or (wanted is not None and wanted.is_urgent)):
            with suppress(OSError):  # then it is moved there before exec
                self.group.enter()

    def _fork_process(self) -> int:
        return os.fork() if self.group is None else self.group.fork()

    def _cancel_launch(self) -> None:
        if self.launch is not None:
            self.launch.cancel()

    def _note_placed(self, began_ns: int) -> None:
        with suppress(OSError):  # then the next run cannot reuse these files
            source_tree_reuse.note(self.machine, self.folder, self.placed, self.boot_id, began_ns)
        self.placed = {}

    def _note_start(self) -> None:
        group = self.group.path if self.group is not None else None
        self.machine.note_start(self.folder, {**self._process_record(), "nonce": self.run.get("nonce"), "group": group})

    # ---- a later supervisor of the job ----

    def _resume(self, events: Dict[str, Dict[str, Any]]) -> None:
        with suppress(OSError):  # a full disk; then the record names the dead supervisor before us
            self._note_start()
        if "start_failed" in events:
            self.finish("start_failed", Exit(), str(events["start_failed"].get("message", "")))
            return
        ended = events.get("exited", {})
        script = self._adopt(is_over="reason" in ended)
        if script is None:
            return
        self.folder.append_event("adopted", pid=os.getpid())
        monitor = self._attach_monitor(script)
        if "stopping" in events:
            monitor.resume_stop(events["stopping"])
        if "reason" in ended:
            self.finish(ended["reason"], exit_from(ended))
        else:
            self._follow_script(time.monotonic() - float((self.folder.process() or {"monotonic": 0.0})["monotonic"]))

    def _adopt(self, is_over: bool) -> Optional[ScriptProcess]:
        """The script that an earlier supervisor has started; None if that start failed, and the run is over."""
        if self.container is not None:
            self.container.may_have_missed_exit = True
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
        return AdoptedScript(self.folder, Process(int(written["pid"]), int(written["starttime"])))

    # ---- until the end ----

    def record_crash(self, error: str) -> None:
        """Record a crash of the supervisor. The next one adopts the script; after some crashes the run ends."""
        reason = error.strip().splitlines()[-1]
        crashes = self.folder.last_events().get("crashed", {}).get("count", 0) + 1
        self.folder.append_event("crashed", count=crashes, message=reason)
        if crashes >= _MOST_CRASHES:
            self.finish("supervisor_lost", Exit(), f"The runner failed: {reason}")
        append(self.folder.at("claim/errors.txt"), error.encode("utf-8", "replace"))

    def _attach_monitor(self, script: ScriptProcess) -> ScriptMonitor:
        script.is_launcher = self.container is None and distributed.is_launched(self.run)
        self.tree.add(script.process)
        self.monitor = ScriptMonitor(script, self.run, self.tree, self.wakeup)
        return self.monitor

    def _follow_script(self, age: float) -> None:
        assert self.monitor is not None
        script = self.monitor.script
        ended = self.monitor.wait(age)
        reason = "start_failed" if script.failure else self.monitor.exit_reason(ended)
        # Written before the process is reaped: if we die now, its exit status is here, or still to be had by wait.
        self.folder.append_event("exited", reason=reason, **ended._asdict())
        script.release()
        failpoints.reach("F15")
        self.finish(reason, ended, script.failure or self._message(reason, ended))

    def _message(self, reason: str, ended: Exit) -> str:
        """The message of an end: from the launcher, the script's process and its memory limit."""
        assert self.monitor is not None
        words = [self.monitor.script.end_message, self._memory_message(reason, ended)]
        if distributed.is_launched(self.run):
            words.insert(0, distributed.failed_rank(self.folder, ENTRY_DIR if self.container is not None else "claim"))
        return " ".join(word for word in words if word)

    def _memory_message(self, reason: str, ended: Exit) -> str:
        wanted = limits.limits_of(self.run)
        if wanted is None or not wanted.memory_mb:
            return ""
        if reason == "out_of_memory":
            return f"The run needed more memory than its limit of {wanted.memory_mb} MB, and was killed."
        if ended != Exit(0) and self.monitor is not None and self.monitor.memory.has_killed_own():
            return f"A process of the run was killed at the run's memory limit of {wanted.memory_mb} MB."
        return ""

    def finish(self, reason: str, ended: Exit, message: str = "") -> None:
        if self.folder.is_replaced(self.lock):
            return  # another supervisor has replaced us, and writes the end from the same events
        status = status_file.describe(self.folder, self.run, reason, ended, message)
        status["boot_id"] = self.boot_id  # at the time of the end
        status["left_behind"] = self._end_leftovers()
        status["usage"] = self.monitor.summary() if self.monitor is not None else None
        status["files"] = run_files.digest_record(self.folder, self.run)
        if self.monitor is not None:
            status.update(self.monitor.script.times())
        status_file.put_status(self.folder, self.run, self.lock, status)
        with suppress(OSError):  # the status says so too
            self.machine.note_script_end(self.folder)
        if self.container is not None:
            self.container.remove_with_retry()

    def _end_leftovers(self) -> int:
        if self.monitor is not None:
            self.monitor.meter.gpu.stop()
        if self.is_reaper and self.is_first and reap_all() and (self.group is None or self.group.remove()):
            return 0  # the common case: no process is left
        left = self.tree.end(_LEFTOVER_SECONDS, reap_all)
        if self.group is not None:
            self.group.kill()
            self.group.remove()
        return left


def _die_with_supervisor() -> None:
    kernel.die_with_parent(signal.SIGKILL)
