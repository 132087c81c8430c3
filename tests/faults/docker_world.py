"""A world whose runs live in containers of an engine that may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests import server_process
from tests.engines.dockerd import Dockerd
from tests.engines.images import PYTHON
from tests.faults.world import World
from windlass.core.entities import Container


@dataclass
class DockerWorld(World):
    """The ledger is mounted into the containers, to which the target's owner has agreed."""

    engine: Dockerd = field(kw_only=True)
    target = "docker"
    python = "python3"

    @classmethod
    @contextmanager
    def made(cls, folder: Path, engine: Dockerd) -> Iterator[DockerWorld]:
        ledger = folder / "ledger"
        ledger.mkdir()
        world = cls(folder / "home", ledger, engine=engine)
        world.container = Container(arguments=("--volume", f"{ledger}:{ledger}"))
        world.environment = {"DOCKER_HOST": engine.address}
        try:
            yield world
        finally:
            world.close()
            for name in world.containers():
                engine.docker("rm", "--force", name, check=False)

    def start_server(self, home: Path | None = None) -> server_process.Process:
        server = super().start_server(home)
        if len(self.servers) == 1:
            config = {"allow_privileged": True, "base_image": PYTHON}
            self.ask("PATCH", "/workspaces/default/targets/docker", {"config": config})
        return server

    def containers(self) -> list[str]:
        return self.engine.containers(f"label=windlass.root={self.machine}")

    def remove_container(self, run_id: str) -> None:
        for name in self.containers():
            self.engine.docker("rm", "--force", name)
