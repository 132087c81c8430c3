"""Address and credential of each machine that an SSH login passes: the jump host and the machine."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a machine. `checked` is the IP address to connect to, on servers that check where names point to."""

    host: str
    port: int | None  # None: what ~/.ssh/config says, else 22
    user: str
    host_key: str | None = None
    checked: str | None = None
    reads_user_files: bool = True  # ~/.ssh/config: aliases, jump hosts, certificates


@dataclass(frozen=True, slots=True)
class Credential:
    """Password or private key. With neither, ssh uses the agent, the default keys and ~/.ssh/config of the account."""

    password: SecretStr | None = None
    private_key: SecretStr | None = None


def _alias() -> str:
    return f"windlass-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class LoginHop:
    """Machine that a login passes, with the name of its target."""

    name: str
    address: Address
    credential: Callable[[], Credential] = Credential  # called as late as possible: each use is audited
    alias: str = field(default_factory=_alias)  # the name that ssh uses for it in prompts and errors
