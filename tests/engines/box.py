"""Runs in containers, started over the pipe as the server does it."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.engines.dockerd import Dockerd
from tests.engines.images import BUSYBOX, PYTHON
from tests.runner.pipe import Host, wait_for

LOG = "user_logs/std_log.txt"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
PATIENCE = 120.0  # engines are slow where many things go on at once


class Box:
    def __init__(self, host: Host, engine: Dockerd) -> None:
        self.host = host
        self.engine = engine

    @property
    def nonce(self) -> str:
        """The same whenever it is asked for, and no other test's."""
        return f"nonce of {self.host.root}"

    def container(self, image: str | None = BUSYBOX, **more: Any) -> dict[str, Any]:
        """`container` of run.json, as a driver writes it."""
        return {"engine": self.engine.address, "image": image, **more}

    def sh(self, job: str, script: str, more: dict[str, Any] | None = None, **run: Any) -> None:
        """Start a shell script in the small image; `more` is for the container."""
        container = self.container(**(more or {}))
        self.host.start(job, ["sh", "-c", script], container=container, environment={"interpreter": "python3"}, **run)

    def python(self, job: str, script: str, more: dict[str, Any] | None = None, **run: Any) -> None:
        run.setdefault("environment", {"interpreter": "python3"})
        container = self.container(**{"image": PYTHON, **(more or {})})
        self.host.python(job, script, container=container, **run)

    def wait(self, job: str) -> dict[str, Any]:
        return self.host.wait(job, PATIENCE)

    def wait_for_line(self, job: str, line: bytes = b"up\n") -> None:
        wait_for(lambda: line in self.host.read(job), PATIENCE)

    def result(self, job: str) -> tuple[Any, Any, Any]:
        """Reason, exit code and signal."""
        ended = self.wait(job)
        return ended["reason"], ended["exit_code"], ended["signal"]

    def said(self, job: str) -> Any:
        """What a script printed as JSON."""
        assert self.result(job) == ("exited", 0, None), self.host.read(job)
        return json.loads(self.host.read(job))

    def build_log(self, job: str) -> str:
        return self.host.read(job, BUILD_LOG).decode()

    def name(self, job: str) -> str:
        """Of the container of a job, once there is one."""
        found: list[str] = wait_for(lambda: self.containers(job), PATIENCE)
        return found[0]

    def containers(self, job: str) -> list[str]:
        return self.engine.containers(f"label=windlass.job={job}", f"label=windlass.root={self.host.root}")

    def builders(self, *filters: str) -> list[str]:
        """The containers in which packages are installed."""
        logs = [f"volume={path}" for path in (self.host.root / "images").glob("*.log")]  # which only they write
        return self.engine.containers(*logs, *filters) if logs else []

    def inspect(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.engine.docker("inspect", name).stdout)[0]
        return found

    def wait_until_gone(self, job: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.containers(job):
            assert time.monotonic() < deadline, f"the container of {job} is still there"
            time.sleep(0.05)
