"""Harness: base class by which a package tells the laws how to create, cut off and inspect a target of its kind."""

from __future__ import annotations

import secrets
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import SecretStr

from windlass import drivers
from windlass.core.entities import EnvironmentSpec
from windlass.core.errors import NotFound, WindlassError
from windlass.core.states import Observation, Phase
from windlass.drivers.base import Driver, Handle, Job
from windlass.testing.programs import SCRIPT, MemoryBundle, Program

PATIENCE = 60.0


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE:g} s in vain: {what}")
        time.sleep(0.005)


class GivenSecrets:
    def __init__(self, **values: str) -> None:
        self._values = values

    def get(self, name: str) -> SecretStr:
        if name not in self._values:
            raise NotFound(f"There is no secret {name}.")
        return SecretStr(self._values[name])


class Harness(ABC):
    """Target of one kind under test. `is_real`: whether the backend is the real one or a fake; the report shows it."""

    kind: ClassVar[str]
    is_real: ClassVar[bool]
    python: ClassVar[str] = sys.executable
    label: ClassVar[str] = ""  # tells harnesses of the same kind apart
    pin: str | None = None  # the pinned identity, for kinds that pin one

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secrets = GivenSecrets()
        self.connections = drivers.open_pool()
        self.jobs: list[Job] = []

    @classmethod
    def make(cls, folder: Path, ask: Callable[[str], Any]) -> Self:
        """Create a harness. `ask` returns a pytest fixture by its name."""
        return cls(folder)

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """A configuration that works, as a user would write it."""

    @abstractmethod
    def cut(self) -> None:
        """Make the backend unreachable. Its jobs go on."""

    @abstractmethod
    def heal(self) -> None:
        """Make the backend reachable again."""

    @abstractmethod
    def vanish(self, handle: Handle) -> None:
        """Make the backend forget a job that ended."""

    @abstractmethod
    def calls(self) -> int:
        """Number of requests to the backend so far."""

    @abstractmethod
    def living(self) -> list[str]:
        """Names of the running processes (pods, ...) of all jobs of this harness."""

    @abstractmethod
    def leftovers(self) -> list[str]:
        """Everything that jobs have left behind: folders, processes, entries."""

    @abstractmethod
    def lose_receipt(self) -> Any:
        """A context in which the backend accepts the job of start(), and start() gets no answer."""

    def driver(self) -> Driver[Any]:
        """A new driver, built for each use as in the server."""
        kind = drivers.load(self.kind)
        driver = kind("box", kind.config_model(**self.config()), self.secrets, self.connections)
        driver.pin = self.pin
        return driver

    def restart(self) -> None:
        """Simulate a restart of the server: all connections are closed."""
        self.connections.close()
        self.connections = drivers.open_pool()

    def job(self, program: Program, *arguments: str, **more: Any) -> Job:
        number = len(self.jobs) + 1
        more.setdefault("command", ("{python}", SCRIPT, *arguments))
        more.setdefault("bundle", MemoryBundle({SCRIPT: program.code.encode(), "data/numbers.csv": b"1,2\n"}))
        more.setdefault("environment", EnvironmentSpec(interpreter=self.python))
        env = {**program.acts, **more.pop("env", {})}
        run = f"law_{number}"
        job = Job(f"{run}.1", run, 1, secrets.token_hex(8), 1, env=env, **more)
        self.jobs.append(job)
        return job

    def start(self, program: Program, *arguments: str, **more: Any) -> Handle:
        driver = self.driver()
        return driver.start(driver.plan(self.job(program, *arguments, **more)))

    def observe(self, handle: Handle) -> Observation:
        [seen] = self.driver().observe([handle])
        return seen

    def wait(self, handle: Handle) -> Observation:
        """Wait for the end of a job; returns its observation."""
        wait_until(lambda: self.observe(handle).phase is Phase.ENDED, f"the end of {handle.native_id}")
        return self.observe(handle)

    def log(self, handle: Handle) -> bytes:
        return self.driver().read(handle, "user_logs/std_log.txt")

    def wait_for_line(self, handle: Handle, count: int = 1) -> None:
        """Wait until the program has printed "up" `count` times."""
        wait_until(lambda: self.log(handle).count(b"up\n") == count, f"{handle.native_id} is up")

    def close(self) -> None:
        self.heal()
        for job in self.jobs:
            try:
                handle = self.driver().find(job.id, job.nonce)
                if handle is not None:
                    self.driver().stop(handle, timedelta(0))
            except WindlassError:
                continue
        try:
            wait_until(lambda: not self.living(), "the end of all jobs")
        finally:
            self.connections.close()
