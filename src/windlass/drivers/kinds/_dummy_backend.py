"""Simulated backend of the dummy driver. The state of a job follows from its record and the time."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from windlass.core.errors import SpecNotSupported, TargetUnreachable
from windlass.core.states import Observation, Phase, Reason, RunState
from windlass.drivers.base import RunFile

LOG = "user_logs/std_log.txt"


class Acts(BaseModel):
    """Behaviour of a job."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    queue: float = 0
    prepare: float = 0
    sleep: float = 0
    exit: int = 0
    signal: int | None = None
    oom: bool = False
    ignore_term: bool = False
    log: str = ""
    vanish: float | None = None
    start: Literal["", "rejected", "full", "halfway", "unanswered"] = ""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Acts:
        """From the variables that begin with DUMMY_."""
        words = {name[6:].lower(): value for name, value in variables.items() if name.startswith("DUMMY_")}
        try:
            return cls(**words)  # type: ignore[arg-type]  # pydantic reads numbers from texts
        except ValidationError as e:
            problem = e.errors()[0]
            name = "DUMMY_" + str(problem["loc"][0]).upper()
            raise SpecNotSupported(f"The dummy target cannot act on {name}: {problem['msg']}.") from e


class Record(BaseModel):
    """An accepted job, as stored in the folder."""

    model_config = ConfigDict(frozen=True)

    acts: Acts
    fence: int
    nonce: str
    is_runnable: bool
    time_limit: float | None
    taken_at: float
    stop_at: float | None = None
    grace: float = 0

    def is_forgotten(self, now: float) -> bool:
        return self.acts.vanish is not None and now >= self.taken_at + self.acts.vanish

    def seen(self, now: float) -> Observation:
        """The observation of the job at a time."""
        acts = self.acts
        started = self.taken_at + acts.queue + acts.prepare
        ended_at, end = min(self._ends(started), key=lambda each: each[0])
        if now >= ended_at:
            return end
        if now < self.taken_at + acts.queue:
            return Observation(Phase.QUEUED, message=f"{acts.queue:g} s in the queue")
        stage = RunState.PREPARING if now < started else RunState.RUNNING
        return Observation(Phase.RUNNING, stage=stage, started_at=started)

    def _ends(self, started: float) -> list[tuple[float, Observation]]:
        """All possible ends of the job with their times; the first one happens."""
        by_itself = started + self.acts.sleep
        ends = [(by_itself, self._own_end(started, by_itself))]
        if self.time_limit is not None:
            at = started + self.time_limit
            ends.append((at, Observation(Phase.ENDED, reason=Reason.TIME_LIMIT, started_at=started, ended_at=at)))
        if self.stop_at is not None:
            at = self.stop_at + (self.grace if self.acts.ignore_term else 0)
            ends.append((at, Observation(Phase.ENDED, reason=Reason.STOPPED, started_at=started, ended_at=at)))
        return ends

    def _own_end(self, started: float, ended: float) -> Observation:
        if not self.is_runnable:
            return Observation(Phase.ENDED, reason=Reason.START_FAILED, message="no such program")
        if self.acts.oom:
            return Observation(Phase.ENDED, None, 9, Reason.OUT_OF_MEMORY, started_at=started, ended_at=ended)
        if self.acts.signal is not None:
            signal = self.acts.signal
            return Observation(Phase.ENDED, None, signal, Reason.SIGNALED, started_at=started, ended_at=ended)
        return Observation(Phase.ENDED, self.acts.exit, reason=Reason.EXITED, started_at=started, ended_at=ended)


class Backend:
    """Connection to the target's folder. Every access is one call, and fails while the target is unreachable."""

    is_open = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = 0

    def close(self) -> None:
        self.is_open = False

    def now(self) -> float:
        try:
            return float((self.folder / "clock").read_text())
        except FileNotFoundError:
            return time.time()

    @contextmanager
    def call(self) -> Iterator[None]:
        """One request to the target, under a lock that all servers share."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.calls += 1
            if (self.folder / "unreachable").exists():
                raise TargetUnreachable("The dummy target cannot be reached: its connection is cut.")
            yield

    def job(self, job_id: str) -> Path:
        return self.folder / "jobs" / job_id

    def record(self, job_id: str, nonce: str) -> Record | None:
        """The record of a job; None if it is unknown, of another server, or was forgotten."""
        record = self.any_record(job_id)
        return record if record is not None and record.nonce == nonce else None

    def any_record(self, job_id: str) -> Record | None:
        try:
            record = Record.model_validate_json((self.job(job_id) / "job.json").read_bytes())
        except FileNotFoundError:
            return None
        return None if record.is_forgotten(self.now()) else record

    def keep(self, job_id: str, record: Record) -> None:
        path = self.job(job_id) / "job.json"
        aside = path.with_suffix(".tmp")
        aside.write_text(record.model_dump_json())
        os.replace(aside, path)

    def write(self, job_id: str, path: str, data: bytes) -> None:
        file = self.job(job_id) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def files(self, job_id: str) -> list[RunFile]:
        """The log, and the files in the snapshot's outputs/."""
        folder = self.job(job_id)
        paths = [folder / LOG, *folder.glob("source/outputs/**/*")]
        return [_seen(path, folder) for path in sorted(paths) if path.is_file()]

    def remove(self, job_id: str, nonce: str) -> None:
        if self.record(job_id, nonce) is not None:
            (self.folder / "ended").mkdir(exist_ok=True)
            (self.folder / "ended" / job_id).write_text(nonce)
        elif self.any_record(job_id) is not None:
            return  # another server's
        shutil.rmtree(self.job(job_id), ignore_errors=True)

    def removed(self, job_id: str) -> str | None:
        """The nonce of a job that was cleaned up."""
        ended = self.folder / "ended" / job_id
        return ended.read_text() if ended.exists() else None


def _seen(path: Path, folder: Path) -> RunFile:
    data = path.read_bytes()
    return RunFile(path.relative_to(folder).as_posix(), len(data), hashlib.sha256(data).hexdigest())
