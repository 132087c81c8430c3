"""The runner's words: what we tell it about a job, and what follows from what it says (docs/dev/runner.md)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

from windlass.core import codec, names
from windlass.core.digests import environment_digest
from windlass.core.entities import Allocation, EnvironmentSpec, SnapshotFile
from windlass.core.errors import (
    Conflict,
    InvalidRequest,
    NoCapacity,
    TargetRejected,
    TargetUnreachable,
    WindlassError,
)
from windlass.core.states import Observation, Phase, Reason, RunState
from windlass.drivers.base import CachedEnvironment, Job
from windlass.drivers.machine import runner_package
from windlass.drivers.machine.framing import Body

log = logging.getLogger(__name__)

T = TypeVar("T")

File = tuple[str, int, str | None]

# What the runner says of a job. A phase that is not here is of a job that is listed, so it is alive;
# an end for a reason that is not here proves nothing.
PHASES = {"queued": Phase.QUEUED, "running": Phase.RUNNING, "ended": Phase.ENDED, "lost": Phase.LOST}
STAGES = {"Starting": RunState.STARTING, "Preparing": RunState.PREPARING, "Running": RunState.RUNNING}
REASONS = {
    "exited": Reason.EXITED,
    "signaled": Reason.SIGNALED,
    "out_of_memory": Reason.OUT_OF_MEMORY,
    "time_limit": Reason.TIME_LIMIT,
    "stopped": Reason.STOPPED,
    "start_failed": Reason.START_FAILED,
    "environment_failed": Reason.ENVIRONMENT_FAILED,
    "exit_unknown": Reason.EXIT_UNKNOWN,
    "supervisor_lost": Reason.SUPERVISOR_LOST,
    "node_lost": Reason.NODE_LOST,
}
# What the host says when it cannot. Only the refusal of a start is final: of any other trouble nothing follows for the
# job, which may well be running, so it is asked again.
_REFUSALS: Mapping[str, type[WindlassError]] = {
    "invalid": TargetRejected,
    "denied": TargetRejected,
    "taken": TargetRejected,
}
_HINTS = {
    "taken": "Submit it with another run id; or give each server a folder of its own there: "
    "windlass compute attach … {target} --update --root FOLDER",
}
_ERRORS: Mapping[str, type[WindlassError]] = {"full": NoCapacity, "stale": Conflict}
# What is kept of its words, for every run: a machine may say anything.
_LONGEST_MESSAGE = 4000
_LONGEST_ERROR = 1000
_LONGEST_ID = 64
_LARGEST_FILE = 1 << 60
_MOST_COUNTS, _LONGEST_NAME = 100, 100
_MOST_KEPT = 10_000
MOST_FILES = 50_000  # of one run's record


def run_document(
    job: Job,
    tools: Mapping[str, Any],
    is_held: bool = False,
    relay: str | None = None,
    container: Body | None = None,
    is_claimed_by_server: bool = False,
    is_hard: bool = False,
    hides_gpus: bool = True,
) -> Body:
    """run.json. The one place where secrets are opened: it goes to the host, into a file of mode 0600."""
    secrets = {name: secret.get_secret_value() for name, secret in job.secrets.items()}
    return {
        "version": 1,
        "job": job.id,
        "run": job.run,
        "attempt": job.attempt,
        "nonce": job.nonce,
        "fence": job.fence,
        "command": list(job.command),
        "env": {**job.env, **secrets},
        **surroundings(job.environment, container, job.bundle.files() if job.bundle else ()),
        "tools": dict(tools),
        "sdk": runner_package.sdk().digest,
        "time_limit": job.time_limit.total_seconds() if job.time_limit else None,
        "grace": job.grace.total_seconds(),
        "watch": list(job.watch),
        "log_cap": job.log_cap,
        "build_limit": job.build_limit.total_seconds(),
        **({} if job.distribution is None else {"distribution": codec.to_wire(job.distribution)}),
        **({"hold": True} if is_held else _allocated(job.allocation, is_hard, hides_gpus)),
        **_granted(job, is_held),
        **({"relay": relay} if relay else {}),
        **({"claim": "server"} if is_claimed_by_server else {}),
    }


def _allocated(allocation: Allocation | None, is_hard: bool, hides_gpus: bool) -> Body:
    """What a job has of its target; a job that is only held ready has nothing yet."""
    if allocation is None or not allocation.shares:
        return {}
    return {"allocation": {**codec.to_wire(allocation), "is_hard": is_hard, "hides_gpus": hides_gpus}}


def surroundings(environment: EnvironmentSpec, container: Body | None, files: Iterable[SnapshotFile]) -> Body:
    """What a script is to have around it."""
    return {
        "environment": {**codec.to_wire(environment), "digest": environment_digest(environment)},
        "files": [[file.path, file.digest, file.size, file.executable] for file in files],
        **({} if container is None else {"container": container}),
    }


def kept(body: Body) -> list[CachedEnvironment]:
    """What a machine says of the environments that it keeps, as far as it can be believed."""
    found = []
    for entry in (_of_kind(list, body.get("kept")) or [])[:_MOST_KEPT]:
        match entry:
            case [str(digest), int(size), int() | float() as idle] if size >= 0 and 0 <= idle < 1e10:
                found.append(CachedEnvironment(names.digest(digest), size, timedelta(seconds=idle)))
    return found


def _granted(job: Job, is_held: bool) -> Body:
    """The runner keeps the values in memory, and writes down the names; a job that is only held ready needs no more."""
    if not job.granted:
        return {}
    values = {name: value.get_secret_value() for name, value in job.granted.items() if value is not None}
    return {"secrets": sorted(job.granted), **({} if is_held else {"granted": values})}


def observation(body: Any, skew: float = 0.0) -> Observation:
    """What the runner says of one job, as far as it can be believed; its times by our clock, which is `skew` ahead."""
    if not isinstance(body, dict):
        raise TargetUnreachable(f"The runner's word on a job is not understood: {ascii(body)[:100]}")
    phase = PHASES.get(str(body.get("phase")), Phase.RUNNING)
    exit_code = _code(body.get("exit_code"))
    files, left_out, unlisted = _told_files(body)
    return Observation(
        phase,
        exit_code=exit_code,
        signal=_code(body.get("signal")),
        reason=_reason(body, exit_code) if phase is Phase.ENDED else None,
        message=text(body.get("message"), _LONGEST_MESSAGE),
        stage=STAGES.get(str(body.get("stage"))),
        files=files,
        left_out=left_out,
        unlisted=unlisted,
        usage=_usage(body.get("usage")),
        started_at=_time(body.get("started_at"), skew),
        ended_at=_time(body.get("ended_at"), skew),
        is_startable=phase is Phase.LOST and body.get("startable") is True,
    )


def files_seen(body: Body) -> tuple[File, ...]:
    """Path, size and digest of files."""
    return _told_files(body)[0]


def grown_path(path: str) -> str | None:
    """The path of a file that grew, if it may name a file of a run."""
    try:
        return names.relative_path(path)
    except InvalidRequest:
        return None


def _told_files(body: Body) -> tuple[tuple[File, ...], tuple[str, ...], int]:
    """The files that a machine lists, after a check of each name; the names that were refused; how many more it has."""
    seen: list[File] = []
    left_out: list[str] = []
    listed = _of_kind(list, body.get("files")) or []
    for entry in listed[:MOST_FILES]:
        try:
            seen.append(_file(entry))
        except InvalidRequest:
            name = entry[0] if isinstance(entry, list) and entry else entry
            left_out.append(name[:_LONGEST_NAME] if isinstance(name, str) else text(name, _LONGEST_NAME))
    more = body.get("unlisted")
    unlisted = more if type(more) is int and 0 < more < _LARGEST_FILE else 0
    return tuple(seen), tuple(left_out), unlisted + max(0, len(listed) - MOST_FILES)


def _file(entry: Any) -> File:
    match entry:
        case [str(path), int(size), None] if 0 <= size <= _LARGEST_FILE:
            return names.relative_path(path), size, None
        case [str(path), int(size), str(digest)] if 0 <= size <= _LARGEST_FILE:
            return names.relative_path(path), size, names.digest(digest)
    raise InvalidRequest(f"Not a path, a size and a digest: {ascii(entry)[:200]}")


def error(body: Body, target: str, is_start: bool = False) -> WindlassError | None:
    """The error that an answer reports, if it does."""
    if "error" not in body:
        return None
    told = _of_kind(dict, body["error"]) or {}
    kinds = {**_ERRORS, **(_REFUSALS if is_start else {})}
    code = str(told.get("code"))
    kind = kinds.get(code, TargetUnreachable)
    hint = _HINTS.get(code, "").format(target=target)
    said = text(told.get("message"), _LONGEST_ERROR) or text(told.get("code"), _LONGEST_NAME)
    return kind(f"{target}: {said or 'an error without a message'}", hint)


def missing(body: Body) -> list[str]:
    """The files that a machine asks for, each once."""
    return list(dict.fromkeys(digest for digest in _of_kind(list, body.get("missing")) or [] if type(digest) is str))


def hello(body: Body) -> Body:
    """What is kept of a machine's greeting."""
    return {"boot_id": text(body.get("boot_id"), _LONGEST_ID) or None, "now": _time(body.get("now"), 0.0)}


def text(said: Any, longest: int) -> str:
    """A text of a machine as it is stored and shown: cut, on lines, without other control characters."""
    if said is None:
        return ""
    cut = said[:longest] if isinstance(said, str) else ascii(said)[:longest]
    return "".join(c if c.isprintable() or c == "\n" else " " for c in cut)


def is_denied(body: Body) -> bool:
    return (_of_kind(dict, body.get("error")) or {}).get("code") == "denied"


def _reason(body: Body, exit_code: int | None) -> Reason:
    reason = REASONS.get(str(body.get("reason")), Reason.EXIT_UNKNOWN)
    return Reason.EXIT_UNKNOWN if reason is Reason.EXITED and exit_code is None else reason


def _usage(told: Any) -> dict[str, float] | None:
    """Numbers by name."""
    if not isinstance(told, dict):
        return None
    counts = islice(told.items(), _MOST_COUNTS)
    return {name[:_LONGEST_NAME]: n for name, n in counts if type(n) in (int, float) and abs(n) < 1e18}


def _of_kind(kind: type[T], value: Any) -> T | None:
    return value if isinstance(value, kind) else None


def _code(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 31 else None


def _time(value: Any, skew: float) -> float | None:
    return float(value) + skew if isinstance(value, (int, float)) and 0 < value < 1e11 else None
