"""Driver without machines, for tests: its jobs are files, and environment variables of a job control how it behaves.

| variable | means |
|---|---|
| `DUMMY_QUEUE`, `DUMMY_PREPARE`, `DUMMY_SLEEP` | seconds it waits in the queue, prepares, runs; 0 each if not given |
| `DUMMY_EXIT`, `DUMMY_SIGNAL`, `DUMMY_OOM` | how it ends: exit code, signal, or out of memory |
| `DUMMY_IGNORE_TERM` | it ignores SIGTERM, and is killed after the grace |
| `DUMMY_LOG` | what it prints, after a line with its arguments in JSON |
| `DUMMY_VANISH` | seconds after which the backend forgets it |
| `DUMMY_START` | `rejected`, `full`; the first time only: `halfway`, `unanswered` (taken, but the receipt is lost) |

In the target's folder, a file `unreachable` cuts the connection, and a file `clock` with a number sets the time. Jobs
survive a restart of the server. Calls that break the driver contract raise InternalError.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from pydantic import Field

from windlass.core import names
from windlass.core.errors import Conflict, InternalError, NoCapacity, TargetRejected, TargetUnreachable
from windlass.core.states import Observation, Phase
from windlass.drivers import plan as drivers_plan
from windlass.drivers.base import Driver, Features, Handle, Health, Job, Plan, RunFile, TargetConfig
from windlass.drivers.kinds._dummy_backend import LOG, Acts, Backend, Record


class DummyConfig(TargetConfig):
    folder: Path = Field(description="Where the jobs are kept.")
    defaults: dict[str, str] = Field(default={}, description="Variables for jobs that do not set them.")


class DummyDriver(Driver[DummyConfig]):
    kind = "dummy"
    config_model = DummyConfig
    features = Features(built_environments=True)
    is_internal = True

    def check(self) -> Health:
        with self._call():
            return Health(True, "the dummy target is there", {"cores": 1})

    def plan(self, job: Job) -> Plan:
        drivers_plan.refuse_undeclared(self.kind, self.features, job)
        self._acts(job)
        place = self.config.folder / "jobs" / job.id
        return Plan(job, partial(drivers_plan.render, self.name, self.kind, place, job))

    def start(self, plan: Plan) -> Handle:
        job = plan.job
        _insist(plan.text == self.plan(job).text, "start() gets what plan() made")
        _insist(not any(s.get_secret_value() in plan.text for s in job.secrets.values()), "a plan hides secrets")
        with self._call() as backend:
            known = backend.record(job.id, job.nonce)
            removed = backend.removed(job.id)
            is_taken = known is None and backend.any_record(job.id) is not None
            if is_taken or removed not in (None, job.nonce):
                raise TargetRejected(f"Another server has a job {job.id} on this target.", "Choose another run id.")
            if removed is not None:
                raise Conflict(f"The job {job.id} has ended and was cleaned up.")
            if known is None:
                self._take(backend, job)
            elif job.fence < known.fence:
                raise Conflict(f"Fence {job.fence} of {job.id} is older than {known.fence}.")
            else:
                backend.keep(job.id, known.model_copy(update={"fence": job.fence}))
        return Handle(self.kind, job.id, job.nonce, data={"fence": job.fence})

    def find(self, job_id: str, nonce: str) -> Handle | None:
        with self._call() as backend:
            record = backend.record(names.run_id(job_id), nonce)
        return Handle(self.kind, job_id, nonce, data={"fence": record.fence}) if record else None

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        if not handles:
            return []
        with self._call() as backend:
            return [_observe(backend, self._id(handle), handle.nonce) for handle in handles]

    def stop(self, handle: Handle, grace: timedelta) -> None:
        _insist(grace >= timedelta(0), "a grace is not negative")
        job = self._id(handle)
        with self._call() as backend:
            record = backend.record(job, handle.nonce)
            if record is not None and record.stop_at is None:
                stop = {"stop_at": backend.now(), "grace": grace.total_seconds()}
                backend.keep(job, record.model_copy(update=stop))

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        _insist(offset >= 0 and limit > 0, "one reads forward, and something")
        names.relative_path(path)
        job = self._id(handle)
        with self._call() as backend:
            file = backend.job(job) / path
            is_there = _has_begun(backend, job, handle.nonce) and file.is_file()
            return file.read_bytes()[offset : offset + limit] if is_there else b""

    def files(self, handle: Handle) -> Iterable[RunFile]:
        job = self._id(handle)
        with self._call() as backend:
            return backend.files(job) if _has_begun(backend, job, handle.nonce) else []

    def clean(self, handle: Handle) -> None:
        job = self._id(handle)
        with self._call() as backend:
            record = backend.record(job, handle.nonce)
            is_over = record is None or record.seen(backend.now()).phase is Phase.ENDED
            _insist(is_over, "only what ended is cleaned up")
            backend.remove(job, handle.nonce)

    def _take(self, backend: Backend, job: Job) -> None:
        acts, is_first = self._acts(job), not backend.job(job.id).exists()
        if acts.start == "rejected":
            raise TargetRejected(f"The dummy target refuses job {job.id}: DUMMY_START=rejected.")
        if acts.start == "full":
            raise NoCapacity("The dummy target has no room: DUMMY_START=full.")
        for path, data in _contents(job, acts):
            backend.write(job.id, path, data)
        if acts.start == "halfway" and is_first:
            raise TargetUnreachable("The connection to the dummy target broke halfway.")
        backend.keep(job.id, _record(job, acts, backend.now()))
        if acts.start == "unanswered" and is_first:
            raise TargetUnreachable("The dummy target took the job, and its receipt was lost.")

    def _acts(self, job: Job) -> Acts:
        return Acts.of({**self.config.defaults, **job.env})

    @contextmanager
    def _call(self) -> Iterator[Backend]:
        backend = self._backend()
        with backend.call():
            yield backend

    def _backend(self) -> Backend:
        folder = self.config.folder
        backend: Backend = self.connections.get(f"dummy {folder}", lambda: Backend(folder))
        return backend

    def _id(self, handle: Handle) -> str:
        _insist(handle.kind == self.kind and handle.version == 1, "a handle comes back to the kind that gave it")
        return names.run_id(handle.native_id)


def _observe(backend: Backend, job: str, nonce: str) -> Observation:
    record = backend.record(job, nonce)
    if record is None:
        return Observation(Phase.LOST, message="there is no such job")
    seen = record.seen(backend.now())
    if seen.phase is not Phase.ENDED:
        return seen
    return replace(seen, files=tuple((file.path, file.size, file.digest) for file in backend.files(job)))


def _has_begun(backend: Backend, job: str, nonce: str) -> bool:
    return _observe(backend, job, nonce).phase in (Phase.RUNNING, Phase.ENDED)


def _record(job: Job, acts: Acts, now: float) -> Record:
    limit = job.time_limit.total_seconds() if job.time_limit else None
    # The one program it has is Python.
    is_runnable = job.command[0] == "{python}"
    return Record(acts=acts, fence=job.fence, nonce=job.nonce, is_runnable=is_runnable, time_limit=limit, taken_at=now)


def _contents(job: Job, acts: Acts) -> Iterator[tuple[str, bytes]]:
    """The files of a job that runs: its log and its source."""
    yield LOG, f"{json.dumps(job.command[2:])}\n{acts.log}".encode()
    if job.bundle is None:
        return
    for file in job.bundle.files():
        with job.bundle.open(file.digest) as content:
            data = content.read()
        _insist(hashlib.sha256(data).hexdigest() == file.digest, f"{file.path} is what its digest says")
        yield f"source/{file.path}", data


def _insist(holds: bool, rule: str) -> None:
    if not holds:
        raise InternalError(f"The dummy driver was used wrongly. The rule: {rule}.")


DRIVER = DummyDriver
