"""Settings of the server: arguments, else the environment (WINDLASS_…), else <home>/settings.json, else defaults."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from windlass.core.errors import InvalidRequest
from windlass.core.vm_sizes import OWN_FAMILY, VmSize
from windlass.store import Policy, Store

MB = 1 << 20
Days = Annotated[float, Field(gt=0, le=36500)]
DaysOrNone = Annotated[float, Field(ge=0, le=36500)]
_LISTS = ("allowed_hosts", "allowed_addresses")
_MAPS = ("vm_sizes",)


def _network(text: str) -> str:
    return str(ipaddress.ip_network(text, strict=False))


Network = Annotated[str, AfterValidator(_network)]


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    path = parts.path.rstrip("/")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ValueError("it is like https://windlass.example.org or https://example.org/windlass")
    if not _PATH.match(path) or path.split("/")[1:2] in (["api"], ["assets"]):
        raise ValueError("its path has letters, digits, '_', '-', '.' and '~', and does not begin with /api or /assets")
    return f"{parts.scheme}://{parts.netloc}{path}"


_PATH = re.compile(r"(/(?!\.)[A-Za-z0-9_.~-]+)*\Z")


class OwnVmSize(BaseModel):
    """A VM size that Azure does not have, or that replaces one of Azure's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cores: int = Field(ge=1, le=10_000)
    memory_gb: float = Field(gt=0, le=100_000)
    gpus: int = Field(default=0, ge=0, le=1000)
    price: float | None = Field(default=None, ge=0, description="US dollars per hour.")
    family: str = Field(default=OWN_FAMILY, min_length=1, max_length=64)

    def named(self, name: str) -> VmSize:
        return VmSize(name, self.cores, self.memory_gb, self.gpus, self.family, self.price)


class Tunable(BaseModel):
    """Settings that an administrator may change while the server runs; the others are fixed at its start."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_runs_days: Days | None = Field(default=None, description="Runs that ended, with all they have.")
    keep_logs_days: Days | None = Field(default=None, description="Logs of runs that ended.")
    keep_snapshots_days: Days | None = Field(default=7, description="Snapshots that no kept run needs.")
    keep_environments_days: Days | None = Field(default=30, description="Built environments that no run used.")
    keep_run_folders_days: DaysOrNone | None = Field(
        default=0,
        description="Folders on machines of runs whose record is complete; 0 removes them at once. Taken up when the "
        "server starts, by `gc` at once.",
    )
    log_cap_bytes: int = Field(
        default=1 << 30,
        ge=4096,
        le=1 << 50,
        description="How much of one log is kept, its beginning and its end; taken up when the server starts.",
    )
    run_log_cap_bytes: int = Field(
        default=2 << 30,
        ge=4096,
        le=1 << 50,
        description="How much of all logs of one run is kept, and how much of its metrics and calls; taken up when the "
        "server starts.",
    )
    local_slots: int = Field(
        default_factory=lambda: max(4, os.cpu_count() or 1),
        ge=1,
        le=100_000,
        description="How many runs the target `local` of a new workspace runs at a time; for one that is there: "
        "`windlass compute update local --slots N`.",
    )

    computer_cores: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="How many cores of this computer are given to runs; all by default. Read when the server starts.",
    )
    computer_memory_mb: int | None = Field(
        default=None, ge=1, le=1 << 40, description="How much memory of this computer is given to runs; all by default."
    )
    computer_gpus: int | None = Field(
        default=None, ge=0, le=1024, description="How many GPUs of this computer are given to runs; all by default."
    )

    def policy(self) -> Policy:
        return Policy(
            runs=_days(self.keep_runs_days), logs=_days(self.keep_logs_days), snapshots=_days(self.keep_snapshots_days)
        )


class Settings(Tunable):
    home: Path = Field(description="The server's own folder: database, files, token, log.")
    host: str = Field(default="127.0.0.1", description="The address to listen on; other than loopback needs TLS.")
    port: int = Field(default=0, ge=0, le=65535, description="0: the one of last time, else any free one.")
    database: str = Field(description="`sqlite:///…` or `postgresql://…`.")
    files: Path = Field(description="Where bytes are kept, by digest.")
    key_file: Path = Field(
        description="The keys that secrets are sealed with; made at the first use. Servers that share a database share "
        "it. Only their user may read it."
    )
    lease_seconds: float = Field(
        default=30, ge=1, le=3600, description="How long a server's claim on its runs lasts if it dies."
    )
    give_up_hours: float = Field(
        default=24,
        gt=0,
        le=87600,
        description="How long a run without contact to its target is waited for, before it has failed.",
    )
    build_hours: float = Field(
        default=6,
        gt=0,
        le=87600,
        description="How long a run waits for its environment or image to be built, before it has failed.",
    )
    disk_reserve_bytes: int = Field(
        default=256 * MB,
        ge=0,
        le=1 << 50,
        description="What new runs and their files leave free on the disk of `home` and of `files`; an upload that "
        "would use it is refused. Files and metrics of runs that exist leave half of it.",
    )
    max_connections: int = Field(
        default=4096,
        ge=8,
        le=1_000_000,
        description="How many HTTP connections are open at once, at most half of the process's file descriptors. A "
        "quarter of them is for connections without a valid token, an eighth for those of one address.",
    )
    server_log_bytes: int = Field(
        default=16 * MB,
        ge=1 << 16,
        description="When `server.log` in the home is larger than this, it is renamed to `server.log.1`, in place of "
        "the one that was renamed before.",
    )
    json_limit_bytes: int = Field(default=16 * MB, ge=1024, description="The largest JSON body.")
    manifest_limit_bytes: int = Field(default=64 * MB, ge=1024, description="The largest list of a snapshot's files.")
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Names, with their port, by which it may be called, beside its own address."
    )
    allowed_addresses: tuple[Network, ...] = Field(
        default=(),
        description="Addresses and networks, as in `10.0.0.0/8`, where targets may be although the policy refuses "
        "them: link-local ones, and on a shared server its own.",
    )
    vm_sizes: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$")], OwnVmSize] = Field(
        default={},
        description='Sizes of nodes beside Azure\'s, by name: `{"big": {"cores": 32, "memory_gb": 128, "gpus": 1, '
        '"price": 1.5}}`; the last two may be left out. One that is named like one of Azure\'s replaces it.',
    )
    public_url: Annotated[str, AfterValidator(_public_url)] | None = Field(
        default=None,
        description="How others reach it, as in `https://windlass.example.org`, or `https://example.org/windlass` "
        "behind a proxy that passes on what is below a path, with or without that path.",
    )
    tls_certificate: Path | None = Field(default=None, description="Its certificate; goes with `tls_key`.")
    tls_key: Path | None = Field(default=None, description="The certificate's key.")
    behind_proxy: bool = Field(default=False, description="A proxy in front of it does TLS.")

    @classmethod
    def load(cls, environ: Mapping[str, str] = os.environ, **arguments: Any) -> Self:
        home = Path(arguments.get("home") or environ.get("WINDLASS_HOME") or Path.home() / ".windlass")
        from_file = _read(home.expanduser() / "settings.json")
        from_environment = {
            name: _from_variable(name, environ[variable])
            for name in cls.model_fields
            if environ.get(variable := f"WINDLASS_{name.upper()}")
        }
        try:
            return cls(**{**from_file, **from_environment, **arguments, "home": home})
        except ValidationError as e:
            raise InvalidRequest(_sentence(e), "See `windlass server run --help`.") from e

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: dict[str, Any]) -> dict[str, Any]:
        home = Path(values["home"]).expanduser().absolute()
        filled = {
            "files": home / "files",
            "key_file": home / "keys" / "secrets.key",
            "database": f"sqlite:///{home / 'windlass.sqlite'}",
        }
        return {**filled, **values, "home": home}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together")
        if not is_loopback(self.host) and self.tls_certificate is None and not self.behind_proxy:
            raise ValueError(
                f"host {self.host} can be reached by others: give tls_certificate and tls_key, "
                "or behind_proxy if a proxy does TLS"
            )
        return self

    @property
    def path_prefix(self) -> str:
        """The path of the public URL, without a slash at its end; empty for a server with a host of its own."""
        return urlsplit(self.public_url or "").path

    def own_vm_sizes(self) -> dict[str, VmSize]:
        return {name: size.named(name) for name, size in self.vm_sizes.items()}

    def tuned(self, store: Store) -> Self:
        """These settings with what an administrator set in place of them."""
        kept = store.settings.get({name: getattr(self, name) for name in Tunable.model_fields})
        return self.model_copy(update=Tunable.model_validate(kept).model_dump())


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _days(days: float | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


def _from_variable(name: str, text: str) -> Any:
    """The value of an environment variable: a list has commas, and a map is JSON."""
    if name in _LISTS:
        return [part.strip() for part in text.split(",") if part.strip()]
    if name not in _MAPS:
        return text
    try:
        return json.loads(text)
    except ValueError as e:
        raise InvalidRequest(f"WINDLASS_{name.upper()} is not JSON: {e}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as e:
        raise InvalidRequest(f"{path} cannot be read: {e}", "Correct it, or move it away.") from e
    if not isinstance(values, dict):
        raise InvalidRequest(f"{path} must hold a JSON object.", "Correct it, or move it away.")
    return values


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"The setting {name} is not valid: {message}." if name else f"The settings are not valid: {message}."
