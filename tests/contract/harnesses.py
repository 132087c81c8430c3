"""One entry per kind: how a target of it is made, cut off, restarted and looked into, for the laws."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from tests.contract.stand_in_driver import StandInDriver
from tests.contract.stand_in_engine import EngineProcess
from tests.engines.dockerd import Dockerd
from tests.engines.images import PYTHON
from tests.hosts.network import Network
from windlass import failpoints
from windlass.core.entities import Container, EnvironmentSpec
from windlass.core.states import Phase
from windlass.drivers.base import Driver, Handle, Job, ThisComputer
from windlass.drivers.kinds._dummy_backend import Backend
from windlass.drivers.machine.host_client import HostClient
from windlass.testing.harness import PATIENCE, GivenSecrets, Harness, wait_until
from windlass.testing.programs import Program


class MachineHarness(Harness):
    """A machine with a host. Its folder is `root`; its processes are seen from here."""

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
        return self.client().sent

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

    def client(self) -> HostClient:
        client: HostClient = self.driver()._client()  # type: ignore[attr-defined]
        return client

    def kill_host(self) -> None:
        client = self.client()
        assert client.transport.pid is not None
        os.kill(client.transport.pid, signal.SIGKILL)
        wait_until(lambda: not client.is_open, "the connection breaks")


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
        self.client()
        (self.folder / "cut").touch()
        self.kill_host()

    def heal(self) -> None:
        (self.folder / "cut").unlink(missing_ok=True)
        self.restart()  # so that nobody waits for the back-off to pass


class ClusterHarness(LocalHarness):
    """A cluster whose nodes are shares of this machine, by a real host."""

    kind = "cluster"

    def config(self) -> dict[str, Any]:
        return {**super().config(), "vm_size": "Standard_NC6", "max_nodes": 2}

    def driver(self) -> Driver[Any]:
        driver = super().driver()
        driver.context = replace(driver.context, computer=ThisComputer(2.0, 8192, gpus=2))
        return driver


class StandInEngineHarness(LocalHarness):
    """A real host and real supervisors. The engine between them is a stand-in, on a machine of its own."""

    kind = StandInDriver.kind
    driver_class: ClassVar[type[StandInDriver]] = StandInDriver

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.engine = EngineProcess(folder / "engine")
        self._sent = self._queries = 0

    def config(self) -> dict[str, Any]:
        return {**super().config(), "queue": str(self.engine.folder)}

    def driver(self) -> Driver[Any]:
        kind = self.driver_class
        return kind("box", kind.config_model(**self.config()), self.secrets, self.connections)

    def calls(self) -> int:
        """Of the host. The engine is asked as often, which is checked here."""
        asked = self.engine.folder / "asked"
        sent, queries = self.client().sent, asked.stat().st_size
        assert sent - self._sent == queries - self._queries or self._sent == 0, (
            "the engine is asked once, as the host is"
        )
        self._sent, self._queries = sent, queries
        return sent

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.engine.close()


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
        client = self.client()
        self.host.reset_connections()
        self.host.cut()
        wait_until(lambda: not client.is_open, "the connection breaks")

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


HARNESSES: tuple[type[Harness], ...] = (
    LocalHarness,
    DockerHarness,
    SshHarness,
    SshDockerHarness,
    ClusterHarness,
    StandInEngineHarness,
    DummyHarness,
)
