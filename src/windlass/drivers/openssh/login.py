"""The machines that a login passes: where each is, and what lets us in."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class Address:
    """Where a machine is. `checked` is the address that may be connected to, where names are not to be trusted."""

    host: str
    port: int | None  # None: what ~/.ssh/config says, else 22
    user: str
    host_key: str | None = None
    checked: str | None = None
    reads_user_files: bool = True  # ~/.ssh/config: aliases, jump hosts, certificates


@dataclass(frozen=True, slots=True)
class Credential:
    """What lets us in; neither: the user's agent, default keys and ~/.ssh/config."""

    password: SecretStr | None = None
    private_key: SecretStr | None = None


def _alias() -> str:
    return f"windlass-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class Hop:
    """A machine in one login, by the name that it was attached under."""

    name: str
    address: Address
    credential: Callable[[], Credential] = Credential  # asked for last: the key store tells the audit of each use
    alias: str = field(default_factory=_alias)  # by which ssh calls it when it asks for a password or complains
