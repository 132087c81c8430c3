"""Request handlers of the engine-owned host, one function per request. docs/dev/runner.md has the table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict

from ..environments.environment import is_built
from ..shared_folder import heartbeat, permission, placement
from ..supervisor import status_file
from ..supervisor.secrets_fd import take_values
from ..workdir import run_files, source_tree
from ..workdir.run_folder import Refused, RunFolder, read_json, taken, write_json
from .requests import (
    CODES,
    MAX_OBSERVE_BYTES,
    SHARED_ACTIONS,
    Answer,
    Request,
    check_nonce,
    check_run,
    ended,
    find,
    full_disk_message,
    is_text,
    missing_for,
    number,
    running,
    unknown,
    whole_number,
)

if TYPE_CHECKING:
    from .engine_owned import EngineOwnedHost as Host


def place(host: "Host", request: Request, body: bytes) -> Answer:
    """Put all that a supervisor needs into the folder of a job. A repeated request places nothing again.

    Answers with the engine's id of the job, if it was submitted already, whether it was started, and the command for
    the engine: the arguments of a Python interpreter.
    """
    run = check_run(host, request["run"])
    if run.get("hold") or run.get("claim") not in (None, "server"):
        raise Refused("invalid", "A job that an engine starts has no `hold`, and its `claim` is null or `server`.")
    values = take_values(run)
    folder = host.machine.folder(run["job"])
    if not host.machine.has_nonce(folder, run["nonce"]):
        raise taken(folder)
    host.machine.refuse_ended(folder, run["nonce"])
    if host.machine.supervisor_of(folder) is None and not folder.run():
        missing = missing_for(host, run)
        if missing is not None:
            return missing
        folder.make(is_built(run) or bool(run.get("container")))
        with placement.placing(folder):
            folder.check_fence(run["fence"], run["nonce"])
            if not folder.run():  # else another host was quicker
                _place(host, folder, run, values)
    elif folder.exists:
        folder.check_fence(run["fence"], run["nonce"])
    try:
        host.machine.refuse_ended(folder, run["nonce"])  # another host may have cleaned it up meanwhile
    except Refused:
        host.discard(folder)
        raise
    host.follow(folder, run, run["nonce"])
    is_started = folder.is_claimed or host.machine.supervisor_of(folder) is not None
    command = [placement.runner_of(folder), "supervise", "--root", host.machine.root, folder.job]
    return {"job": folder.job, "native": _native(folder), "is_started": is_started, "command": command}


def _place(host: "Host", folder: RunFolder, run: Request, values: Dict[str, str]) -> None:
    """Write the files of a job; run.json last, since a folder with it is complete."""
    os.umask(0o022)
    try:
        folders = ["outputs", "logs", *run.get("watch", ())]
        source_tree.place(
            host.machine, source_tree.for_script(run["files"]), folders, host.boot_id, folder.at("source")
        )
    except source_tree.CannotPlace as e:
        code = CODES.get(getattr(e.__cause__, "errno", None) or 0, "failed" if e.__cause__ else "invalid")
        raise Refused(code, str(e)) from e
    finally:
        os.umask(0o077)
    placement.put_runner(folder)
    placement.put_secrets(folder, values)
    write_json(folder.at("run.json"), {**run, "is_placed": True}, durable=True)


def submitted(host: "Host", request: Request, body: bytes) -> Answer:
    """Record the engine's id of a job. The first one stays and is the answer; a caller with another id cancels that."""
    folder = find(host, request["job"], request["nonce"])
    if folder is None or not folder.exists:
        raise Refused("stale", f"The job {ascii(request['job'])[:80]} is not here any more.")
    if not is_text(request["native"]) or len(request["native"]) > _LONGEST_NATIVE:
        raise Refused("invalid", f"`native` is a text of at most {_LONGEST_NATIVE} characters.")
    with placement.placing(folder):
        if _native(folder) is None:
            write_json(folder.at(placement.NATIVE), {"native": request["native"]}, durable=True)
    return {"native": _native(folder)}


def _native(folder: RunFolder) -> Any:
    return (read_json(folder.at(placement.NATIVE)) or {}).get("native")


def observe(host: "Host", request: Request, body: bytes) -> Answer:
    """Observe jobs by their folders. Ended jobs list their files, as far as they fit into one answer."""
    found = []
    listed = 0
    for job, nonce in request["jobs"]:
        folder = find(host, job, nonce)
        size = run_files.file_size(folder.at("status.json")) or 0 if folder is not None else 0
        is_too_much = listed > 0 and size > 0 and listed + size > MAX_OBSERVE_BYTES
        found.append(unknown(job) if folder is None else _observe(host, folder, is_too_much))
        listed += size
    return {"jobs": found}


def _observe(host: "Host", folder: RunFolder, is_brief: bool) -> Answer:
    if not folder.exists:
        return unknown(folder.job)
    native = {"native": _native(folder), "is_stopping": folder.stop() is not None}
    status = folder.status(host.boot_id)
    if status is not None and not is_brief:
        return {**ended(status), **native}
    if not folder.is_claimed:
        instances = permission.waiting(folder, host.heartbeats)
        message = f"waiting to be allowed: {', '.join(instances)}" if instances else ""
        return {"phase": "queued", "message": message, **native}
    silence = {"silent_seconds": host.silence(folder)}
    return {
        **running(folder, host.machine.supervisor_of(folder)),
        **full_disk_message(host, folder),
        **silence,
        **native,
    }


def stop(host: "Host", request: Request, body: bytes) -> Answer:
    """Write stop.json, which the supervisor polls. A job without a supervisor is claimed and ended here. `cancel` in
    the answer: the driver must cancel the job in the engine, since no supervisor will stop it."""
    folder = find(host, request["job"], request["nonce"])
    grace = number(request.get("grace", 30.0))
    if folder is None or not folder.exists or folder.status(host.boot_id) is not None:
        return {"cancel": False}
    if request.get("fence") is not None:
        folder.check_fence(whole_number(request["fence"]), request["nonce"])
    write_json(folder.at("stop.json"), {"grace": grace, "reason": "stopped"}, durable=True)
    if folder.run() and folder.claim():
        placement.drop_secrets(folder)
        lock = folder.lock()
        if lock is not None:
            try:
                status_file.put_unstarted(folder, folder.run(), lock, "stopped", "")
            finally:
                os.close(lock)
            host.watch.changed_jobs.add(folder.job)
        return {"cancel": True}
    return {"cancel": host.silence(folder) >= heartbeat.SILENT_SECONDS}


def clean(host: "Host", request: Request, body: bytes) -> Answer:
    """Remove a job, which can never be started from now on. Refused for a running job, unless the engine says that it
    is `gone`."""
    folder = find(host, request["job"], request["nonce"])
    if folder is None:
        return {}
    if not folder.is_claimed:
        host.machine.note_end(folder, request["nonce"])  # before the check: a supervisor that claims it later sees this
    if folder.is_claimed and folder.status(host.boot_id) is None and request.get("gone") is not True:
        raise Refused("failed", f"The job {folder.job} is still running; stop it first.")
    host.machine.note_end(folder, request["nonce"])
    host.discard(folder)
    return {}


# ---- instances ----


def waiting(host: "Host", request: Request, body: bytes) -> Answer:
    """The instances of each job that wait for permission."""
    folders = [find(host, job, nonce) for job, nonce in request["jobs"]]
    return {"jobs": [[] if each is None else permission.waiting(each, host.heartbeats) for each in folders]}


def allow(host: "Host", request: Request, body: bytes) -> Answer:
    folder = find(host, request["job"], check_nonce(request["nonce"]))
    if folder is not None:
        permission.allow(folder, request["instance"])
    return {}


def refuse(host: "Host", request: Request, body: bytes) -> Answer:
    folder = find(host, request["job"], check_nonce(request["nonce"]))
    if folder is not None:
        permission.refuse(folder, request["instance"], request["owner"])
    return {}


_LONGEST_NATIVE = 1000

ACTIONS: Dict[str, Callable[..., Any]] = {
    **SHARED_ACTIONS, "place": place, "submitted": submitted, "observe": observe, "stop": stop, "clean": clean,
    "waiting": waiting, "allow": allow, "refuse": refuse,
}  # fmt: skip
