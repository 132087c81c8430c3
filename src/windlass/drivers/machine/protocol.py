"""Runner protocol: run.json, the description of a job, and parsing of the host's answers (docs/dev/runner.md).

A host may send anything, so every field is checked for type, range and length.
"""

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

# An unknown phase is read as RUNNING, since the host knows the job. An unknown reason is read as EXIT_UNKNOWN.
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
# Error codes of a refused start, which is final. In answers to other requests they prove nothing about the job, which
# may be running, so they become TargetUnreachable and the request is retried.
_REFUSALS: Mapping[str, type[WindlassError]] = {
    "invalid": TargetRejected,
    "denied": TargetRejected,
    "taken": TargetRejected,
}
_HINTS = {
    "taken": "Submit it with another run id; or give each server a folder of its own there: "
    "windlass compute attach … {target} --update --root FOLDER",
}
_ERRORS: Mapping[str, type[WindlassError]] = {
    "full": NoCapacity,
    **dict.fromkeys(("stale", "not_running", "too_many"), Conflict),
}
# Limits of what is stored for each run.
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
    is_prestaged: bool = False,
    relay: str | None = None,
    container: Body | None = None,
    is_claimed_by_server: bool = False,
    is_hard: bool = False,
    hides_gpus: bool = True,
) -> Body:
    """run.json, which the host stores with mode 0600. The only place where the secrets of a job are opened."""
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
        **environment_fields(job.environment, container, job.bundle.files() if job.bundle else ()),
        "tools": dict(tools),
        "sdk": runner_package.sdk().digest,
        "time_limit": job.time_limit.total_seconds() if job.time_limit else None,
        "grace": job.grace.total_seconds(),
        "watch": list(job.watch),
        "log_cap": job.log_cap,
        "build_limit": job.build_limit.total_seconds(),
        **({} if job.distribution is None else {"distribution": codec.to_wire(job.distribution)}),
        **({"hold": True} if is_prestaged else _allocation_field(job.allocation, is_hard, hides_gpus)),
        **_secret_fields(job, is_prestaged),
        **({"relay": relay} if relay else {}),
        **({"claim": "server"} if is_claimed_by_server else {}),
    }


def _allocation_field(allocation: Allocation | None, is_hard: bool, hides_gpus: bool) -> Body:
    """The job's share of its target; a pre-staged job has none yet."""
    if allocation is None or not allocation.shares:
        return {}
    return {"allocation": {**codec.to_wire(allocation), "is_hard": is_hard, "hides_gpus": hides_gpus}}


def environment_fields(environment: EnvironmentSpec, container: Body | None, files: Iterable[SnapshotFile]) -> Body:
    """The part of run.json that determines the environment: packages, container, files that an image may copy."""
    return {
        "environment": {**codec.to_wire(environment), "digest": environment_digest(environment)},
        "files": [[file.path, file.digest, file.size, file.executable] for file in files],
        **({} if container is None else {"container": container}),
    }


def cached_environments(body: Body) -> list[CachedEnvironment]:
    """The environments in the cache of a machine, without entries that are not valid."""
    found = []
    for entry in (_as_type(list, body.get("environments")) or [])[:_MOST_KEPT]:
        match entry:
            case [str(digest), int(size), int() | float() as idle] if size >= 0 and 0 <= idle < 1e10:
                found.append(CachedEnvironment(names.digest(digest), size, timedelta(seconds=idle)))
    return found


def _secret_fields(job: Job, is_prestaged: bool) -> Body:
    """Names and values of the granted secrets. The runner keeps values in memory only; a pre-staged job gets none."""
    if not job.granted:
        return {}
    values = {name: value.get_secret_value() for name, value in job.granted.items() if value is not None}
    return {"secrets": sorted(job.granted), **({} if is_prestaged else {"granted": values})}


def observation(body: Any, skew: float = 0.0) -> Observation:
    """Parse the state of one job. Times are converted to the server's clock, which is `skew` seconds ahead."""
    if not isinstance(body, dict):
        raise TargetUnreachable(f"The runner's answer about a job is not an object: {ascii(body)[:100]}")
    phase = PHASES.get(str(body.get("phase")), Phase.RUNNING)
    exit_code = _code(body.get("exit_code"))
    files, left_out, unlisted = _parse_files(body)
    return Observation(
        phase,
        exit_code=exit_code,
        signal=_code(body.get("signal")),
        reason=_reason(body, exit_code) if phase is Phase.ENDED else None,
        message=printable_text(body.get("message"), _LONGEST_MESSAGE),
        stage=STAGES.get(str(body.get("stage"))),
        files=files,
        left_out=left_out,
        unlisted=unlisted,
        usage=_usage(body.get("usage")),
        started_at=_time(body.get("started_at"), skew),
        ended_at=_time(body.get("ended_at"), skew),
        is_startable=phase is Phase.LOST and body.get("startable") is True,
    )


def listed_files(body: Body) -> tuple[File, ...]:
    """Path, size and digest of the files in an answer."""
    return _parse_files(body)[0]


def grown_path(path: str) -> str | None:
    """The path of a file that grew; None if it is not a valid relative path."""
    try:
        return names.relative_path(path)
    except InvalidRequest:
        return None


def _parse_files(body: Body) -> tuple[tuple[File, ...], tuple[str, ...], int]:
    """The files in an answer with valid names, the names that were refused, and how many files were not listed."""
    seen: list[File] = []
    left_out: list[str] = []
    listed = _as_type(list, body.get("files")) or []
    for entry in listed[:MOST_FILES]:
        try:
            seen.append(_file(entry))
        except InvalidRequest:
            name = entry[0] if isinstance(entry, list) and entry else entry
            left_out.append(name[:_LONGEST_NAME] if isinstance(name, str) else printable_text(name, _LONGEST_NAME))
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
    """The error in an answer; None if there is none. `is_start`: the answer is to a start, whose refusal is final."""
    if "error" not in body:
        return None
    reported = _as_type(dict, body["error"]) or {}
    kinds = {**_ERRORS, **(_REFUSALS if is_start else {})}
    code = str(reported.get("code"))
    kind = kinds.get(code, TargetUnreachable)
    hint = _HINTS.get(code, "").format(target=target)
    said = printable_text(reported.get("message"), _LONGEST_ERROR) or printable_text(
        reported.get("code"), _LONGEST_NAME
    )
    return kind(f"{target}: {said or 'an error without a message'}", hint)


def missing_files(body: Body) -> list[str]:
    """Digests of the files that the machine lacks, without duplicates."""
    return list(dict.fromkeys(digest for digest in _as_type(list, body.get("missing")) or [] if type(digest) is str))


def hello(body: Body) -> Body:
    """The fields of the host's hello that are used: boot id and clock."""
    return {"boot_id": printable_text(body.get("boot_id"), _LONGEST_ID) or None, "now": _time(body.get("now"), 0.0)}


def printable_text(said: Any, longest: int) -> str:
    """A text of a machine, cut to a length, with control characters other than newlines replaced by spaces."""
    if said is None:
        return ""
    cut = said[:longest] if isinstance(said, str) else ascii(said)[:longest]
    return "".join(c if c.isprintable() or c == "\n" else " " for c in cut)


def is_denied(body: Body) -> bool:
    return (_as_type(dict, body.get("error")) or {}).get("code") == "denied"


def _reason(body: Body, exit_code: int | None) -> Reason:
    reason = REASONS.get(str(body.get("reason")), Reason.EXIT_UNKNOWN)
    return Reason.EXIT_UNKNOWN if reason is Reason.EXITED and exit_code is None else reason


def _usage(body: Any) -> dict[str, float] | None:
    """Resource usage: numbers by name, within limits."""
    if not isinstance(body, dict):
        return None
    counts = islice(body.items(), _MOST_COUNTS)
    return {name[:_LONGEST_NAME]: n for name, n in counts if type(n) in (int, float) and abs(n) < 1e18}


def _as_type(kind: type[T], value: Any) -> T | None:
    return value if isinstance(value, kind) else None


def _code(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 31 else None


def _time(value: Any, skew: float) -> float | None:
    return float(value) + skew if isinstance(value, (int, float)) and 0 < value < 1e11 else None
