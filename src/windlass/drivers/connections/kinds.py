"""Kinds of connections: the settings and secrets that stand for a resource of Azure, by its coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, TypeAdapter

from windlass.core import names
from windlass.core.errors import InvalidRequest
from windlass.drivers.base import Credentials
from windlass.drivers.connections.kubeconfig import check_kubeconfig
from windlass.drivers.kinds.ssh import SshCredentials, check_login

Kind = Literal["aks", "databricks", "batch", "adla", "vm"]
LARGEST_SECRET = 64 << 10
Service = Annotated[str, Field(max_length=300), AfterValidator(names.https_address)]
Host = Annotated[str, AfterValidator(names.host_address)]
Port = Annotated[int, Field(ge=1, le=65535)]
_Value = Annotated[SecretStr, Field(min_length=1, max_length=LARGEST_SECRET)]


def _location(text: str) -> str:
    if "\n" in text or not (text.startswith("/") or "://" in text):
        raise InvalidRequest(f"A lake is an absolute folder or an address like abfss://…: {ascii(text[:60])}")
    return names.printable("A lake's folder", text)


class ConnectionSettings(BaseModel):
    """Base class: settings of a kind, and the names of the secrets that it needs."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)
    secrets: ClassVar[frozenset[str]] = frozenset()

    def check(self, kind: str, given: Mapping[str, SecretStr], is_shared: bool) -> None:
        """Refuse missing or surplus secrets, and settings that are not allowed on a shared server."""
        if set(given) != self.secrets:
            needed = " and ".join(sorted(self.secrets)) or "no credentials"
            raise InvalidRequest(
                f"A connection of kind {kind} needs {needed}, and got {', '.join(sorted(given)) or 'none'}."
            )


class Cluster(ConnectionSettings):
    secrets = frozenset({"kubeconfig"})
    context: Annotated[str, Field(min_length=1, max_length=500)] | None = None

    def check(self, kind: str, given: Mapping[str, SecretStr], is_shared: bool) -> None:
        super().check(kind, given, is_shared)
        check_kubeconfig(given["kubeconfig"].get_secret_value(), self.context, is_shared)


class Databricks(ConnectionSettings):
    secrets = frozenset({"token"})
    host: Service


class Slurm(ConnectionSettings):
    engine: Literal["slurm"]
    address: Host
    port: Port | None = None
    username: Annotated[str, AfterValidator(names.user_name)]
    login: Literal["password", "key", "agent"]

    def check(self, kind: str, given: Mapping[str, SecretStr], is_shared: bool) -> None:
        check_login(self.login, set(given), not is_shared)


class BatchAccount(ConnectionSettings):
    secrets = frozenset({"account-key"})
    engine: Literal["azurebatch"]
    url: Service


class Lake(ConnectionSettings):
    folder: Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_location)]

    def check(self, kind: str, given: Mapping[str, SecretStr], is_shared: bool) -> None:
        super().check(kind, given, is_shared)
        if "://" not in self.folder and is_shared:
            raise InvalidRequest(
                "People share this server: folders of its own machine are not for its users.",
                "Name a lake by its address: abfss://…, s3://…",
            )


class Machine(ConnectionSettings):
    address: Host
    port: Port | None = None


_SETTINGS: dict[str, Any] = {
    "aks": Cluster,
    "databricks": Databricks,
    "batch": Annotated[Slurm | BatchAccount, Field(discriminator="engine")],
    "adla": Lake,
    "vm": Machine,
}


class ConnectionCredentials(SshCredentials):
    """Secrets of a connection: a token, a kubeconfig, an account key, or the login at a machine."""

    token: _Value | None = None
    kubeconfig: _Value | None = None
    account_key: _Value | None = None

    def values(self) -> dict[str, SecretStr]:
        own = {"token": self.token, "kubeconfig": self.kubeconfig, "account-key": self.account_key}
        return super().values() | {what: value for what, value in own.items() if value is not None}


def accept(
    kind: str, config: Mapping[str, Any], credentials: Credentials, is_shared: bool
) -> tuple[dict[str, Any], dict[str, SecretStr]]:
    """Validate settings and secrets. Returns both as they are stored, by name. ValidationError or InvalidRequest."""
    settings: ConnectionSettings = TypeAdapter(_SETTINGS[kind]).validate_python(config)
    given = credentials.values()
    settings.check(kind, given, is_shared)
    return settings.model_dump(exclude_none=True), given
