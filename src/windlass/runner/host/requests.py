"""Request handlers of the host, one function per request of the pipe. docs/dev/runner.md has the table."""

from __future__ import annotations

import errno
import json
import os
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from ..channels import process as channel_process
from ..containers import images
from ..environments import cache, toolchain
from ..environments.environment import is_built, is_prepared
from ..supervisor import prestage
from ..supervisor.secrets_fd import take_values
from ..system import inventory
from ..workdir import emptied_folders, run_files
from ..workdir.run_folder import Refused, RunFolder, is_path, taken, write_json
from . import channels

if TYPE_CHECKING:
    from .loop import Host
    from .machine_host import MachineHost

Request = Dict[str, Any]
Answer = Dict[str, Any]

MAX_READ = 4 << 20
MAX_OBSERVE_BYTES = 8 << 20  # the server accepts 16 MB of JSON
_MOST_LISTED = 50_000  # files of one run
_MOST_LISTED_BYTES = 12 << 20  # of JSON
_MAX_PUSHED_FILES = 100  # files
_FULL_DISK_BYTES = 1 << 20  # bytes
_FRAMEWORKS = ("mpi", "pytorch", "tensorflow")
_MOST_PROCESSES = 1000
_TERM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")
CODES = {errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EACCES: "denied", errno.EPERM: "denied"}
_END_FIELDS = ("reason", "exit_code", "signal", "core_dumped", "message", "files", "usage", "started_at", "ended_at")


def answer(host: "Host", request: Request, body: bytes) -> Tuple[Answer, bytes]:
    """The answer to a request, or its refusal. A malformed request cannot end the host."""
    try:
        do = host.actions.get(str(request.get("do")))
        if do is None:
            raise Refused("invalid", f"There is no request {ascii(request.get('do'))[:80]}.")
        found = do(host, request, body)
        return ({}, found) if isinstance(found, bytes) else (found, b"")
    except Refused as e:
        return _refusal(e.code, str(e)), b""
    except OSError as e:
        return _refusal(CODES.get(e.errno or 0, "failed"), f"{e}"), b""
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        return _refusal("invalid", f"The request {ascii(request.get('do'))[:80]} is malformed: {e!r}"), b""


def _refusal(code: str, message: str) -> Answer:
    return {"error": {"code": code, "message": message}}


# ---- the machine ----


def check(host: "Host", request: Request, body: bytes) -> Answer:
    known = {"python": host.python, "boot_id": host.boot_id}
    return {"inventory": {**inventory.collect(host.machine.root, request.get("engine")), **known}}


def have(host: "Host", request: Request, body: bytes) -> Answer:
    return {"missing": host.machine.missing(request["digests"])}


def put(host: "Host", request: Request, body: bytes) -> Answer:
    host.machine.put(request["digest"], whole_number(request["offset"]), bool(request["last"]), body)
    return {}


def environment_is_prepared(host: "Host", request: Request, body: bytes) -> Answer:
    """Whether an environment is built already, so that a run with it would start at once."""
    run = request["run"]
    is_there = images.is_prepared if run.get("container") else is_prepared
    return {"prepared": is_there(host.machine, run)}


def list_environments(host: "Host", request: Request, body: bytes) -> Answer:
    """The environments that were built here."""
    return {"environments": cache.list_environments(host.machine)}


def evict_environment(host: "Host", request: Request, body: bytes) -> Answer:
    """Remove an environment that no run has used for so long."""
    is_gone = cache.evict(host.machine, request["environment"], number(request["idle_seconds"]))
    host.empty_trash()
    return {"gone": is_gone}


def sdk(host: "Host", request: Request, body: bytes) -> Answer:
    host.machine.unpack_sdk(request["digest"], body)
    return {}


# ---- jobs ----


def start(host: "MachineHost", request: Request, body: bytes) -> Answer:
    """Start a job; with `hold` in its run.json, only pre-stage it."""
    run = check_run(host, request["run"])
    values = take_values(run)
    folder = host.machine.folder(run["job"])
    if not host.machine.has_nonce(folder, run["nonce"]):
        raise taken(folder)
    host.machine.refuse_ended(folder, run["nonce"])
    if not folder.is_claimed and host.machine.supervisor_of(folder) is not None:  # the script has removed its claim
        host.ensure_supervised(folder)
        return {"job": folder.job, "claimed": False}
    if folder.is_claimed:
        folder.check_fence(run["fence"], run["nonce"])
        if folder.is_prestaged():
            if host.fill_secrets(folder.job, run, values):
                return _start_prestaged(host, folder, run)
            # Another host has its secrets' file, or it was pre-staged without one: start from the beginning.
            prestage.end(folder, host.supervisor(folder))
        if not host.is_startable(folder) and not prestage.reclaim(host.machine, folder, run, host.boot_id):
            if not run.get("hold"):  # pre-staging does not need the outcome: start no supervisor to find it
                host.ensure_supervised(folder)
            return {"job": folder.job, "claimed": False}
    missing = missing_for(host, run)
    if missing is not None:
        return missing
    emptied_folders.take(host.machine, folder)
    folder.make(is_built(run) or bool(run.get("container")))
    folder.check_fence(run["fence"], run["nonce"])
    _write(host, folder, run)
    is_ours = folder.claim() or host.is_startable(folder)
    try:
        host.machine.refuse_ended(folder, run["nonce"])  # another host may have cleaned it up meanwhile
    except Refused:
        host.discard(folder)
        raise
    return {"job": folder.job, "claimed": is_ours and host.begin(folder, run, values)}


def missing_for(host: "Host", run: Request) -> Optional[Answer]:
    """The files and the SDK that a job needs and that must be sent first; None if all are here."""
    missing = host.machine.missing_files([*run["files"], *_tools_to_send(host, run)])
    has_sdk = host.machine.has_sdk(run.get("sdk"))
    return {"missing": missing, "sdk": not has_sdk} if missing or not has_sdk else None


def _tools_to_send(host: "Host", run: Request) -> List[List[Any]]:
    """Build tools; only for a run that will build something, since they are large."""
    return toolchain.files_to_send(host.machine, run) if is_built(run) and not is_prepared(host.machine, run) else []


def _start_prestaged(host: "MachineHost", folder: RunFolder, run: Request) -> Answer:
    """Write the run.json for which the supervisor of a pre-staged job waits. With `hold` it waits on."""
    _write(host, folder, run)
    host.wake(folder)
    is_watched = folder.job in host.watch.jobs
    if is_watched and (is_built(run) or run.get("container")):
        host.watch.report_again(folder.job)  # the build and its log were not reported while the job was pre-staged
    return {"job": folder.job, "claimed": is_watched}


def _write(host: "Host", folder: RunFolder, run: Request) -> None:
    run["boot_id"] = host.boot_id
    write_json(folder.at("run.json"), run)


def check_run(host: "Host", run: Any) -> Request:
    """Validate a run.json for the supervisor. Paths of the snapshot are checked when they are placed."""
    if not isinstance(run, dict) or run.get("version") != 1:
        raise Refused("invalid", "This runner reads run.json of version 1.")
    env = {**((run.get("environment") or {}).get("variables") or {}), **(run.get("env") or {})}
    command = run.get("command")
    if not isinstance(command, list) or not command or not all(is_text(word) for word in command):
        raise Refused("invalid", "`command` is a list of words without NUL bytes.")
    if not all(is_text(k) and is_text(v) and k and "=" not in k for k, v in env.items()):
        raise Refused("invalid", "`env` maps names to values, without NUL bytes.")
    if not is_text(run.get("nonce")) or not run["nonce"]:
        raise Refused("invalid", "`nonce` is a text.")
    if not all(is_path(name) for name in run.get("watch") or ()):
        raise Refused("invalid", "`watch` lists folders of the source tree.")
    interpreter = (run.get("environment") or {}).get("interpreter")
    if interpreter is not None and not (is_text(interpreter) and interpreter):
        raise Refused("invalid", "`environment.interpreter` is a path or a command.")
    if run.get("container") is not None:
        _check_container(run["container"])
    if run.get("allocation") is not None:
        _check_allocation(run["allocation"])
    if run.get("distribution") is not None:
        _check_distribution(run["distribution"])
    if run.get("relay") is not None:
        host.machine.relay(run["relay"])
    for name in ("time_limit", "grace", "log_cap", "build_limit"):
        if run.get(name) is not None:
            number(run[name])
    run["fence"] = whole_number(run.get("fence", 0))
    run["files"] = run.get("files") or []
    return run


def _check_container(container: Any) -> None:
    """Check the types only: what is allowed was checked by the driver's plan."""
    if not isinstance(container, dict) or not is_text(container.get("image") or container.get("dockerfile")):
        raise Refused("invalid", "`container` names an image, or has the text of a Dockerfile.")
    env = {} if container.get("env") is None else container["env"]
    if not isinstance(env, dict) or not all(is_text(k) and is_text(v) and k and "=" not in k for k, v in env.items()):
        raise Refused("invalid", "`container.env` maps names to values, without NUL bytes.")
    if not all(isinstance(container.get(name), (dict, type(None))) for name in ("host", "config")):
        raise Refused("invalid", "`container.host` and `container.config` are objects.")


def _check_allocation(allocation: Any) -> None:
    shares = allocation.get("shares") if isinstance(allocation, dict) else None
    if not isinstance(shares, list) or not shares or not all(isinstance(share, dict) for share in shares):
        raise Refused("invalid", "`allocation.shares` lists what the run has of each node.")
    for share in shares:
        number(share.get("cores", 0.0))
        whole_number(share.get("memory_mb", 0))
        if not is_text(share.get("node", "")) or not isinstance(share.get("gpus", []), list):
            raise Refused("invalid", "A share names its node, and lists its GPUs.")
        for device in share.get("gpus", []):
            whole_number(device)


def _check_distribution(distribution: Any) -> None:
    if not isinstance(distribution, dict) or distribution.get("framework") not in _FRAMEWORKS:
        raise Refused("invalid", f"`distribution.framework` is one of {', '.join(_FRAMEWORKS)}.")
    counts = {name: distribution.get(name) for name in ("processes_per_node", "process_count", "workers")}
    for name, count in counts.items():
        if count is not None and not 1 <= whole_number(count) <= _MOST_PROCESSES:
            raise Refused("invalid", f"`distribution.{name}` is from 1 to {_MOST_PROCESSES}.")
    if not 0 <= whole_number(distribution.get("parameter_servers") or 0) <= _MOST_PROCESSES:
        raise Refused("invalid", f"`distribution.parameter_servers` is from 0 to {_MOST_PROCESSES}.")


def is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def observe(host: "MachineHost", request: Request, body: bytes) -> Answer:
    """Observe jobs. Ended jobs list their files; what does not fit into one answer is reported the next time."""
    found: List[Answer] = []
    size_so_far = 0
    for job, nonce in request["jobs"]:
        folder = find(host, job, nonce)
        if folder is None:
            found.append(unknown(job))
            continue
        size = run_files.file_size(folder.at("status.json")) or 0
        is_too_much = size_so_far > 0 and size > 0 and size_so_far + size > MAX_OBSERVE_BYTES
        found.append(running(folder, None) if is_too_much else _observe_if_possible(host, folder))
        size_so_far += size
    return {"jobs": found}


def find(host: "Host", job: str, nonce: str) -> Optional[RunFolder]:
    """The folder of a job, which need not exist; None if another server has a job of that id here."""
    folder = host.machine.folder(job)
    return folder if host.machine.has_nonce(folder, check_nonce(nonce)) else None


def check_nonce(nonce: Any) -> str:
    if not is_text(nonce) or not nonce:
        raise Refused("invalid", "A request that names a job names its nonce too.")
    return str(nonce)


def unknown(job: str) -> Answer:
    return {"phase": "lost", "message": f"The job {job} is not known on this machine."}


def _observe_if_possible(host: "MachineHost", folder: RunFolder) -> Answer:
    """Observe a job. One with an unreadable folder is running, and does not fail the request."""
    try:
        return _observe(host, folder)
    except OSError as e:
        return {"phase": "running", "message": f"Its folder cannot be looked into: {e}"}


def _observe(host: "MachineHost", folder: RunFolder) -> Answer:
    if not folder.exists and not host.is_begun(folder):
        return unknown(folder.job)
    if host.is_startable(folder):
        return {"phase": "lost", "startable": True, "message": f"The job {folder.job} was never started."}
    status = host.ensure_supervised(folder)
    if status is not None:
        return ended(status)
    return {**running(folder, host.machine.supervisor_of(folder)), **full_disk_message(host, folder)}


def full_disk_message(host: "Host", folder: RunFolder) -> Answer:
    """The message for a script that has ended on a full disk, where its status cannot be written."""
    free = os.statvfs(host.machine.root)
    if free.f_bavail * free.f_frsize > _FULL_DISK_BYTES:
        return {}
    exited = folder.last_events().get("exited")  # read only on a full disk: running jobs are observed often
    if exited is None:
        return {}
    code, killer = exited.get("exit_code"), exited.get("signal")
    how = f"exit code {code}" if code is not None else f"signal {killer}" if killer is not None else "unknown"
    return {
        "message": f"Its script has ended ({how}), which cannot be recorded: the disk of {host.machine.root} is full. "
        "Free some space there."
    }


def pushed_observation(folder: RunFolder, status: Optional[Dict[str, Any]]) -> Optional[Answer]:
    """The observation that is pushed with an event; None if it is too long, and must be requested."""
    if status is None:
        return running(folder, None)
    return ended(status) if len(status.get("files") or ()) <= _MAX_PUSHED_FILES else None


def ended(status: Dict[str, Any]) -> Answer:
    return {"phase": "ended", **{name: status.get(name) for name in _END_FIELDS}, **_listed(status.get("files") or [])}


def _listed(files: List[Any]) -> Answer:
    """As many files as fit into one answer; `unlisted` counts the rest."""
    size = 0
    for count, entry in enumerate(files):
        size += len(json.dumps(entry[0])) + 100
        if count >= _MOST_LISTED or size > _MOST_LISTED_BYTES:
            return {"files": files[:count], "unlisted": len(files) - count}
    return {"files": files}


def running(folder: RunFolder, record: Optional[Dict[str, Any]]) -> Answer:
    process = folder.process() if folder.is_claimed else record
    if process is not None:
        return {"phase": "running", "stage": "Running", "message": "", "started_at": process.get("at")}
    return {"phase": "running", **folder.stage()}


def pushed_state(seen: Optional[Answer]) -> str:
    """A text that changes when there is something to push; empty for a job that is being started."""
    stage, message = (seen or {}).get("stage"), (seen or {}).get("message")
    return "" if (stage, message) == ("Starting", "") else f"{stage}: {message}"


def read(host: "Host", request: Request, body: bytes) -> bytes:
    folder = find(host, request["job"], request["nonce"])
    limit = min(whole_number(request.get("limit", 1 << 20)), MAX_READ)
    return b"" if folder is None else folder.read(request["path"], whole_number(request.get("offset", 0)), limit)


def files(host: "Host", request: Request, body: bytes) -> Answer:
    folder = find(host, request["job"], request["nonce"])
    if folder is None:
        return {"files": []}
    status = folder.status(host.boot_id)
    if status is not None:
        return _listed(status.get("files") or [])
    return _listed([[path, size, None] for path, size in run_files.list_record(folder, folder.run())])


def stop(host: "MachineHost", request: Request, body: bytes) -> Answer:
    folder = find(host, request["job"], request["nonce"])
    grace = number(request.get("grace", 30.0))
    if folder is None:
        return {}
    record = host.machine.supervisor_of(folder)
    if not (folder.exists or host.is_begun(folder)) or folder.status(host.boot_id) is not None:
        return {}
    order = {"grace": grace, "reason": "stopped"}
    try:
        os.makedirs(folder.path, 0o700, exist_ok=True)  # the script may have removed it, and must be stopped as well
        if request.get("fence") is not None:
            folder.check_fence(whole_number(request["fence"]), request["nonce"])
        write_json(folder.at("stop.json"), order, durable=True)
    except OSError:
        host.stop_unwritten(folder, order)
        return {}
    if record is not None or folder.run():
        folder.claim()  # a job that was not claimed yet is now ended instead of started
        if host.ensure_supervised(folder) is None:
            host.wake(folder)
    return {}


def clean(host: "MachineHost", request: Request, body: bytes) -> Answer:
    """Remove a job. It can never be started from now on, also if it was not here: a hanging host may still have its
    start request in the pipe.
    """
    folder = find(host, request["job"], request["nonce"])
    if folder is None:
        return {}
    if not folder.is_claimed:
        host.machine.note_end(folder, request["nonce"])  # before the check: a host that claims it later sees this
    if folder.is_claimed and not folder.has_final_status():
        if folder.is_locked():
            prestage.end(folder, host.supervisor(folder))
        else:
            prestage.end_builders(folder)
    host.machine.note_end(folder, request["nonce"])
    host.discard(folder)
    return {}


def watch(host: "Host", request: Request, body: bytes) -> Answer:
    for job, nonce in request["jobs"]:
        host.watch_job(host.machine.folder(job), check_nonce(nonce))
    return {}


# ---- the relay ----


def listen(host: "Host", request: Request, body: bytes) -> Answer:
    """Serve the relay for scripts of that server."""
    host.relay.listen(host.machine.relay(request["relay"]), str(request["url"]))
    return {}


def relay(host: "Host", request: Request, body: bytes) -> Answer:
    """Handle a relay frame of the server: bytes for a script, more window (`credit`), or the end of a stream."""
    host.relay.receive(
        whole_number(request["stream"]), body, whole_number(request.get("credit", 0)), request.get("end") is True
    )
    return {}


# ---- channels ----


def open_channel(host: "MachineHost", request: Request, body: bytes) -> Answer:
    """Open a shell, a command or a TCP connection: where a job runs, or on the machine itself."""
    number, job = whole_number(request["channel"]), request.get("job")
    asked = _channel_request(request)
    if job is None:
        host.open_channel(number, None, asked)
        return {}
    folder = find(host, job, request["nonce"])
    if folder is None or not folder.exists:
        raise Refused("not_running", "The run is not known there any more.")
    if folder.status(host.boot_id) is not None:
        raise Refused("not_running", "The run has ended.")
    if "exec" not in folder.last_events():
        raise Refused("not_running", "The script of the run was not started yet.")
    host.open_channel(number, folder, asked)
    return {}


def _channel_request(request: Request) -> channel_process.Request:
    command, port, size, term = (request.get(name) for name in ("command", "port", "size", "term"))
    if not isinstance(command or [], list) or not all(is_text(word) for word in command or ()):
        raise Refused("invalid", "`command` is a list of words without NUL bytes.")
    if port is not None and not 0 < whole_number(port) < 1 << 16:
        raise Refused("invalid", "`port` is from 1 to 65535.")
    if term is not None and not (is_text(term) and _TERM.match(term)):
        raise Refused("invalid", "`term` is the name of a terminal's type.")
    terminal = channels.check_size(size)
    return channel_process.Request(
        list(command or ()),
        port or 0,
        (terminal[0], terminal[1]) if terminal else None,
        term or "",
        None if request.get("rank") is None else whole_number(request["rank"]),
    )


def channel(host: "Host", request: Request, body: bytes) -> Answer:
    """Pass a frame of the server to a channel: input, more window (`credit`), the terminal's size, or its end."""
    head: Answer = {"credit": whole_number(request.get("credit", 0))}
    head.update((name, True) for name in ("end_input", "close") if request.get(name) is True)
    size = channels.check_size(request.get("size"))
    host.channels.receive(whole_number(request["channel"]), {**head, **({"size": size} if size else {})}, body)
    return {}


def number(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e18:
        raise Refused("invalid", f"Not a number from 0: {ascii(value)[:40]}")
    return float(value)


def whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused("invalid", f"Not a whole number from 0: {ascii(value)[:40]}")
    return value


# Requests of every host, and of MachineHost only, which owns the supervisors of its jobs.
SHARED_ACTIONS: Dict[str, Callable[..., Any]] = {
    "check": check, "have": have, "put": put, "sdk": sdk, "is_prepared": environment_is_prepared,
    "list_environments": list_environments, "evict_environment": evict_environment,
    "read": read, "files": files, "watch": watch, "listen": listen, "relay": relay,
}  # fmt: skip
ACTIONS: Dict[str, Callable[..., Any]] = {
    **SHARED_ACTIONS, "start": start, "observe": observe, "stop": stop, "clean": clean,
    "open_channel": open_channel, "channel": channel,
}  # fmt: skip
