"""Machines that answer as those at the far end of the ssh driver do, without SSH: for the routes that attach them."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import SecretStr

from windlass.core.entities import Target
from windlass.core.errors import LoginRefused, TargetQuarantined, TargetUnreachable
from windlass.drivers.base import Attachable, Driver, Health, Identity
from windlass.drivers.openssh import keys
from windlass.server.execution.target_probe import GivenSecrets
from windlass.server.keystore import KeyStore


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
    inventory: dict[str, Any] = field(default_factory=lambda: {"cores": 8, "python": "3.11.2", "missing": []})
    trouble: str = ""  # why nothing could run there
    heard: list[str] = field(default_factory=list)


class MachineAnswers(Attachable):
    """What the driver of one target says."""

    def __init__(self, machine: Machine | None, target: Target, given: GivenSecrets) -> None:
        self._machine = machine
        self._target = target
        self._secrets = given

    def identify(self) -> Identity:
        machine = self._there()
        return Identity(machine.host_key, keys.fingerprint(machine.host_key), ("publickey", "password"))

    def install_key(self, public_key: str) -> None:
        self._log_in().authorized.add(" ".join(public_key.split()[:2]))

    def check(self) -> Health:
        machine = self._log_in()
        return Health(not machine.trouble, machine.trouble or "fine", dict(machine.inventory))

    def _there(self) -> Machine:
        if self._machine is None:
            raise TargetUnreachable(f"{self._target.name} cannot be reached: Connection refused")
        return self._machine

    def _log_in(self) -> Machine:
        machine, name, config = self._there(), self._target.name, self._target.config
        if config["host_key"] != machine.host_key:
            raise TargetQuarantined(f"The host key of {name} is not the one that was pinned.")
        machine.heard.append(config["login"])
        if not self._is_let_in(machine, config["login"]):
            raise LoginRefused(f"{name} does not let us in: Permission denied", "Check user name and credentials.")
        return machine

    def _is_let_in(self, machine: Machine, login: str) -> bool:
        if login == "password":
            return self._get("password") == machine.password
        if login == "agent":
            return True
        key = self._secrets.get("workspace/ssh-key").get_secret_value() if login == "workspace-key" else ""
        return keys.public_of(key or self._get("private-key")) in machine.authorized

    def _get(self, what: str) -> str:
        return self._secrets.get(f"target/{self._target.name}/{what}").get_secret_value()


@dataclass
class Machines:
    """All that can be reached, by address."""

    keystore: KeyStore
    there: dict[str, Machine] = field(default_factory=dict)

    def add(self, address: str = "10.0.0.7", **more: Any) -> Machine:
        self.there[address] = Machine(address, **more)
        return self.there[address]

    @contextmanager
    def trial(self, workspace: str, target: Target, given: Mapping[str, SecretStr]) -> Iterator[Driver[Any]]:
        kept = self.keystore.of_target(workspace, target.name)
        machine = self.there.get(str(target.config["address"]))
        yield cast(Driver[Any], MachineAnswers(machine, target, GivenSecrets(target.name, given, kept)))
