"""One entry per kind: how a target of it is made, cut off, restarted and looked into, for the laws."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import SecretStr

from tests.contract.programs import SCRIPT, MemoryBundle, Program
from tests.engines.dockerd import Dockerd
from tests.engines.images import PYTHON
from tests.hosts.network import Network
from windlass import drivers, failpoints
from windlass.core.entities import Container, EnvironmentSpec
from windlass.core.errors import NotFound, WindlassError
from windlass.core.states import Observation, Phase
from windlass.drivers.base import Driver, Handle, Job
from windlass.drivers.kinds._dummy_backend import Backend
from windlass.drivers.machine.pipe import Pipe

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
    """A target of one kind, to be tried. `is_real`: against the real backend, or a fake; the report says which."""

    kind: ClassVar[str]
    is_real: ClassVar[bool]
    python: ClassVar[str] = sys.executable
    label: ClassVar[str] = ""  # where a kind has several: what this one is about
    pin: str | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secrets = GivenSecrets()
        self.connections = drivers.open_pool()
        self.jobs: list[Job] = []

    @classmethod
    def make(cls, folder: Path, ask: Callable[[str], Any]) -> Self:
        """`ask` gives a fixture by its name, to those that need one."""
        return cls(folder)

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """A configuration that works, as a user would write it."""

    @abstractmethod
    def cut(self) -> None:
        """Make the backend unreachable; its jobs go on."""

    @abstractmethod
    def heal(self) -> None: ...

    @abstractmethod
    def vanish(self, handle: Handle) -> None:
        """Make the backend forget a job that ended."""

    @abstractmethod
    def calls(self) -> int:
        """How often the backend was asked so far."""

    @abstractmethod
    def living(self) -> list[str]:
        """The processes (pods, ...) of all jobs of this harness that live, by any name."""

    @abstractmethod
    def leftovers(self) -> list[str]:
        """What jobs have left behind: folders, processes, entries."""

    @abstractmethod
    def lose_receipt(self) -> Any:
        """A context in which the backend takes what start() sends, and start() does not hear of it."""

    def driver(self) -> Driver[Any]:
        """Built anew for each use, as the server does."""
        kind = drivers.load(self.kind)
        driver = kind("box", kind.config_model(**self.config()), self.secrets, self.connections)
        driver.pin = self.pin
        return driver

    def restart(self) -> None:
        """The server ends and comes back: no connection survives."""
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
        """How it ended."""
        wait_until(lambda: self.observe(handle).phase is Phase.ENDED, f"the end of {handle.native_id}")
        return self.observe(handle)

    def log(self, handle: Handle) -> bytes:
        return self.driver().read(handle, "user_logs/std_log.txt")

    def wait_for_line(self, handle: Handle, count: int = 1) -> None:
        """Until the program says that it is up."""
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


class MachineHarness(Harness):
    """A machine at the far end of a pipe. Its folder is `root`; its processes are seen from here."""

    is_real = True
    root: Path

    def vanish(self, handle: Handle) -> None:
        # Not before its supervisor has noted the end elsewhere too: until then the run is there without its folder.
        noted = self.root / "started" / handle.native_id
        wait_until(lambda: b"ended" in noted.read_bytes(), f"the note of the end of {handle.native_id}")
        # At once: the supervisor may still be putting its things in order there.
        gone = self.root / "runs" / handle.native_id
        shutil.rmtree(gone.rename(gone.parent.parent / "vanished"), ignore_errors=True)

    def calls(self) -> int:
        return self.pipe().sent

    def living(self) -> list[str]:
        cookies = {f"WINDLASS_COOKIE={job.nonce}".encode() for job in self.jobs}
        return [pid for pid in os.listdir("/proc") if pid.isdigit() and cookies & environment_of(pid)]

    def leftovers(self) -> list[str]:
        runs = self.root / "runs"
        return [*(os.listdir(runs) if runs.exists() else []), *self.living()]

    @contextmanager
    def lose_receipt(self) -> Iterator[None]:
        points = self.folder / "failpoints"
        points.mkdir(exist_ok=True)
        (points / "F09.go").write_text("the answer was lost")
        (points / "F09").touch()
        before, failpoints.FOLDER = failpoints.FOLDER, str(points)
        try:
            yield
        finally:
            failpoints.FOLDER = before

    def pipe(self) -> Pipe:
        pipe: Pipe = self.driver()._pipe()  # type: ignore[attr-defined]
        return pipe


class LocalHarness(MachineHarness):
    """A real host on this machine. Its Python is a script that fails while the file `cut` is there."""

    kind = "local"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = folder / "machine"
        self._python = folder / "python"
        self._python.write_text(f'#!/bin/sh\n[ ! -e "{folder}/cut" ] || exit 1\nexec "{sys.executable}" "$@"\n')
        self._python.chmod(0o755)

    def config(self) -> dict[str, Any]:
        return {"root": str(self.root), "python": str(self._python)}

    def cut(self) -> None:
        pipe = self.pipe()
        (self.folder / "cut").touch()
        os.kill(pipe.pid, signal.SIGKILL)
        wait_until(lambda: not pipe.is_open, "the pipe breaks")

    def heal(self) -> None:
        (self.folder / "cut").unlink(missing_ok=True)
        self.restart()  # so that nobody waits for the back-off to pass


class SshHarness(MachineHarness):
    """A real sshd on a host of its own, which has nothing but an account and a Python."""

    kind = "ssh"
    python = "python3"

    def __init__(self, folder: Path, network: Network) -> None:
        super().__init__(folder)
        self.host = network.host()
        self.root = self.host.home / ".windlass/ssh"
        self.secrets = GivenSecrets(**{"target/box/private-key": network.key.private})
        account = {"address": self.host.address, "username": self.host.user}
        self._config, self.pin = {**account, "login": "key"}, self.host.host_key

    @classmethod
    def make(cls, folder: Path, ask: Callable[[str], Any]) -> Self:
        return cls(folder, ask("network"))

    def config(self) -> dict[str, Any]:
        return self._config

    def cut(self) -> None:
        pipe = self.pipe()
        self.host.reset_connections()
        self.host.cut()
        wait_until(lambda: not pipe.is_open, "the pipe breaks")

    def heal(self) -> None:
        self.host.heal()
        self.restart()  # so that nobody waits for the back-off to pass


class Contained(MachineHarness):
    """A machine whose jobs live in containers of a real engine."""

    python = "python3"
    engine: Dockerd

    def job(self, program: Program, *arguments: str, **more: Any) -> Job:
        more.setdefault("container", Container())
        more.setdefault("environment", EnvironmentSpec(interpreter=self.python, image=PYTHON))
        return super().job(program, *arguments, **more)

    def living(self) -> list[str]:
        """But for the process that Docker puts before the script, to bury the dead."""
        return [pid for pid in super().living() if name_of(pid) != "docker-init"]

    def leftovers(self) -> list[str]:
        """A container is removed by nobody who waits for it."""
        deadline = time.monotonic() + PATIENCE
        while (left := self.engine.containers(f"label=windlass.root={self.root}")) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [*super().leftovers(), *left]


class DockerHarness(Contained, LocalHarness):
    """Containers of a real engine on this machine."""

    kind = "docker"

    @classmethod
    def make(cls, folder: Path, ask: Callable[[str], Any]) -> Self:
        made = cls(folder)
        made.engine = ask("dockerd")
        return made

    def config(self) -> dict[str, Any]:
        return {**super().config(), "engine": self.engine.address}


class SshDockerHarness(Contained, SshHarness):
    """Containers of a real engine on a machine that is reached by SSH, with an account that may use it."""

    label = "containers"

    @classmethod
    def make(cls, folder: Path, ask: Callable[[str], Any]) -> Self:
        made = super().make(folder, ask)
        made.engine = ask("dockerd")
        made.engine.let_in_everybody()
        return made

    def config(self) -> dict[str, Any]:
        return {**super().config(), "engine": self.engine.address}


def name_of(pid: str) -> str:
    try:
        return Path("/proc", pid, "comm").read_text().strip()
    except OSError:
        return ""


def environment_of(pid: str) -> set[bytes]:
    try:
        return set(Path("/proc", pid, "environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


class DummyHarness(Harness):
    """No backend at all: what the laws say of it, they say of the driver that scenarios rely on."""

    kind = "dummy"
    is_real = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.target = folder / "target"
        self._defaults: dict[str, str] = {}

    def config(self) -> dict[str, Any]:
        return {"folder": str(self.target), "defaults": self._defaults}

    def cut(self) -> None:
        self.target.mkdir(exist_ok=True)
        (self.target / "unreachable").touch()

    def heal(self) -> None:
        (self.target / "unreachable").unlink(missing_ok=True)

    def vanish(self, handle: Handle) -> None:
        shutil.rmtree(self.target / "jobs" / handle.native_id)

    def calls(self) -> int:
        backend: Backend = self.driver()._backend()  # type: ignore[attr-defined]
        return backend.calls

    def living(self) -> list[str]:
        driver = self.driver()
        handles = [handle for job in self.jobs if (handle := driver.find(job.id, job.nonce)) is not None]
        seen = zip(handles, driver.observe(handles), strict=True)
        return [handle.native_id for handle, each in seen if each.phase is not Phase.ENDED]

    def leftovers(self) -> list[str]:
        jobs = self.target / "jobs"
        return os.listdir(jobs) if jobs.exists() else []

    @contextmanager
    def lose_receipt(self) -> Iterator[None]:
        self._defaults = {"DUMMY_START": "unanswered"}
        try:
            yield
        finally:
            self._defaults = {}


HARNESSES: tuple[type[Harness], ...] = (LocalHarness, DockerHarness, SshHarness, SshDockerHarness, DummyHarness)
