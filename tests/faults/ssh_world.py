"""A world whose runs go to a host by SSH, and what can happen there."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import server_process
from tests.faults.world import World, children, tolerant, wait_for
from tests.hosts.host import Host
from tests.hosts.network import Network

TARGET = "box"


@dataclass
class SshWorld(World):
    """The ledger is a folder that the host's account may write, and that no fault on the host touches."""

    network: Network = field(kw_only=True)
    host: Host = field(kw_only=True)
    door: tuple[str, int] = field(kw_only=True)  # the address and port by which the host is attached
    target = TARGET
    python = "python3"

    @classmethod
    @contextmanager
    def made(cls, folder: Path, network: Network, **traits: Any) -> Iterator[SshWorld]:
        ledger = Path(tempfile.mkdtemp(prefix="ledger-", dir=network.folder))
        ledger.chmod(0o777)
        host = network.host(TARGET, environment={"WINDLASS_FAILPOINTS": str(ledger)}, **traits)
        world = cls(folder / "home", ledger, network=network, host=host, door=(host.address, host.port))
        try:
            yield world
        finally:
            world.close()

    @property
    def machine(self) -> Path:
        return self.host.home / ".windlass/ssh"

    @property
    def machine_there(self) -> Path:
        return self.host.inner_home / ".windlass/ssh"

    def start_server(self, home: Path | None = None) -> server_process.Process:
        is_first = not self.servers
        server = super().start_server(home)
        if is_first:
            self._attach()
        return server

    def _attach(self) -> None:
        """The connection by which it is tried is closed then: the first run opens the one that stays."""
        attach(self, TARGET, self.host, self.network, self.door, self.python)

    # failpoints

    def arm(self, point: str) -> None:
        super().arm(point)
        (self.points / point).chmod(0o666)  # the host's account writes into it

    # victims

    def pid_of(self, run_id: str, who: str) -> int:
        return self.host.outer_pid(super().pid_of(run_id, who))

    def host_pid(self) -> int:
        def find() -> int | None:
            return next((each.pid for each in self.host.processes() if "host" in each.argv[:6]), None)

        pid: int = wait_for("the host", find)
        return pid

    def kill_ssh(self) -> None:
        """The process by which the server reaches the host."""
        for pid in children(self.server.pid):
            with tolerant():
                if Path(f"/proc/{pid}/comm").read_text() == "ssh\n":
                    os.kill(pid, signal.SIGKILL)

    def fill_disk(self) -> None:
        """Leave no room in the host's home."""
        with open(self.host.home / "filler", "wb", buffering=0) as filler:
            for size in (1 << 20, 1 << 12):
                try:
                    while filler.write(b"x" * size):
                        pass
                except OSError:
                    continue  # so much does not fit
        os.chown(self.host.home / "filler", self.host.uid, self.host.uid)

    def make_room(self) -> None:
        (self.host.home / "filler").unlink()


def attach(
    world: World,
    name: str,
    host: Host,
    network: Network,
    door: tuple[str, int] | None = None,
    python: str = "python3",
    **more: Any,
) -> None:
    """Attach a host by its own address, or by another that leads to it."""
    address, port = door or (host.address, host.port)
    config = {"address": address, "port": port, "username": host.user, "login": "key", "python": python}
    credentials = {"private_key": network.key.private}
    body = {"name": name, "kind": "ssh", "config": config, "credentials": credentials, **more}
    world.ask("POST", "/workspaces/default/targets", body)
