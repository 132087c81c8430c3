"""Machines that answer as those at the far end of the ssh driver do, without SSH: for the routes that attach them."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from windlass import drivers
from windlass.core.entities import Target
from windlass.core.errors import LoginRefused, TargetQuarantined, TargetUnreachable
from windlass.drivers.base import Driver, DriverContext, Health, Identity
from windlass.drivers.kinds.ssh import SshConfig, SshDriver
from windlass.drivers.openssh import keys
from windlass.server.execution.target_probe import GivenSecrets
from windlass.server.security.secret_store import SecretStore


def make_host_key() -> str:
    body = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20" + secrets.token_bytes(32)
    return f"ssh-ed25519 {base64.b64encode(body).decode()}"


@dataclass
class Machine:
    """`authorized` are public keys that let in. What is sent to it is in `heard`."""

    address: str
    password: str = "hunter2 canary"
    host_key: str = field(default_factory=make_host_key)
    authorized: set[str] = field(default_factory=set)
    inventory: dict[str, Any] = field(default_factory=lambda: {"cores": 8, "python": "3.11.2", "problems": []})
    trouble: str = ""  # why nothing could run there
    heard: list[str] = field(default_factory=list)


class FakeMachineDriver(SshDriver):
    """The real driver, but for what it does by ssh."""

    machine: Machine | None = None

    def probe(self) -> Identity:
        key = self._there().host_key
        return Identity(key, keys.fingerprint(key), "host key", "look", {"accepts": ["publickey", "password"]})

    def enroll(self, public: str) -> None:
        self._log_in("password").authorized.add(" ".join(public.split()[:2]))

    def check(self) -> Health:
        machine = self._log_in(self.config.login or "agent")
        return Health(not machine.trouble, machine.trouble or "fine", dict(machine.inventory))

    def _there(self) -> Machine:
        if self.machine is None:
            raise TargetUnreachable(f"{self.name} cannot be reached: Connection refused")
        return self.machine

    def _log_in(self, login: str) -> Machine:
        machine = self._there()
        if self.pin != machine.host_key:
            raise TargetQuarantined(f"The host key of {self.name} is not the one that was pinned.")
        machine.heard.append(login)
        if not self._is_let_in(machine, login):
            raise LoginRefused(f"{self.name} does not let us in: Permission denied", "Check user name and credentials.")
        return machine

    def _is_let_in(self, machine: Machine, login: str) -> bool:
        if login == "password":
            return self._get(f"target/{self.name}/password") == machine.password
        if login == "agent":
            return True
        name = "workspace/ssh-key" if login == "workspace-key" else f"target/{self.name}/private-key"
        return keys.public_of(self._get(name)) in machine.authorized

    def _get(self, name: str) -> str:
        return self.secrets.get(name).get_secret_value()


@dataclass
class Machines:
    """All that can be reached, by address."""

    secret_store: SecretStore
    is_shared: bool = False
    there: dict[str, Machine] = field(default_factory=dict)

    def add(self, address: str = "10.0.0.7", **more: Any) -> Machine:
        self.there[address] = Machine(address, **more)
        return self.there[address]

    @contextmanager
    def trial(self, workspace: str, target: Target, given: Mapping[str, SecretStr]) -> Iterator[Driver[Any]]:
        found = GivenSecrets(target.name, given, self.secret_store.of_target(workspace, target.name))
        connections = drivers.open_pool()
        driver = FakeMachineDriver(target.name, SshConfig(**target.config), found, connections)
        driver.machine, driver.pin = self.there.get(driver.config.address), target.pin
        driver.context = DriverContext(reads_user_files=not self.is_shared, workspace=workspace)
        yield driver
        connections.close()
