"""Kinds with backends of their own, in memory: one that is attached and pinned, one without identity and credentials,
and one that is created and has nodes. They need nothing but the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from pydantic import Field, SecretStr

from windlass import drivers
from windlass.core.errors import (
    CredentialsNeeded,
    LoginRefused,
    NoCapacity,
    TargetQuarantined,
    TargetRejected,
    TargetUnreachable,
)
from windlass.drivers.base import (
    Attachable,
    Credentials,
    Driver,
    Features,
    Handle,
    HasNodes,
    Health,
    Identity,
    Job,
    Managed,
    Node,
    NodeState,
    Observation,
    Phase,
    Plan,
    Provisioning,
    ProvisioningState,
    Reason,
    RunFile,
    TargetConfig,
    shown_as_option,
)


@dataclass
class FakeBackend:
    """What is at one place: its certificate, its token, and the jobs that it took. A job ends as soon as it starts."""

    certificate: str = "certificate-1"
    token: str = "s3cret canary"
    jobs: dict[str, Job] = field(default_factory=dict)
    is_away: bool = False


POTS: dict[str, FakeBackend] = {}  # by host


class FakeDriver(Driver[Any]):
    """The half of a driver that runs jobs."""

    features = Features(calls_home=True)

    def backend(self) -> FakeBackend:
        raise NotImplementedError

    def check(self) -> Health:
        self.backend()
        return Health(True, "it boils", {"cores": 2, "taste": getattr(self.config, "tea", "")})

    def plan(self, job: Job) -> Plan:
        return Plan(job, lambda: f"{job.id} on {self.name}")

    def start(self, plan: Plan) -> Handle:
        self.backend().jobs[plan.job.id] = plan.job
        return Handle(self.kind, plan.job.id, plan.job.nonce)

    def find(self, job_id: str, nonce: str) -> Handle | None:
        return Handle(self.kind, job_id, nonce) if job_id in self.backend().jobs else None

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        jobs = self.backend().jobs
        return [
            Observation(Phase.ENDED, exit_code=0, reason=Reason.EXITED)
            if handle.native_id in jobs
            else Observation(Phase.LOST)
            for handle in handles
        ]

    def stop(self, handle: Handle, grace: timedelta) -> None:
        pass

    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        return b""

    def files(self, handle: Handle) -> Iterable[RunFile]:
        return []

    def clean(self, handle: Handle) -> None:
        self.backend().jobs.pop(handle.native_id, None)


class PotConfig(TargetConfig):
    host: str = Field(description="Where it is.", json_schema_extra=shown_as_option("-H", "--host", metavar="HOST"))
    tea: str = Field(default="green", description="What is in it.")
    kitchen: str = Field(default="first", description="What its runs are found by.")
    through: str | None = Field(default=None, description="Another pot.")


class PotCredentials(Credentials):
    token: SecretStr | None = Field(default=None, description="What opens it.")


class PotDriver(FakeDriver, Attachable):
    """A pot that is attached by its host and a token.

    It keeps no tea over night.
    """

    kind = "teapot"
    config_model = PotConfig
    mutable_settings = frozenset({"tea"})
    checked_inventory = frozenset({"taste"})
    credentials_model = PotCredentials
    identity_settings = frozenset({"kitchen"})

    def backend(self) -> FakeBackend:
        pot = self._there()
        if pot.certificate != self.pin:
            raise TargetQuarantined(f"{self.name} shows another certificate.", "", {"pin": self.pin})
        if self.secrets.get(f"target/{self.name}/token").get_secret_value() != pot.token:
            raise LoginRefused(f"{self.name} does not accept the token.")
        return pot

    def probe(self) -> Identity:
        pot = self._there()
        return Identity(pot.certificate, self.show_pin(pot.certificate), "certificate", "look at its bottom")

    def location(self) -> str:
        return f"teapot://{self.config.host}"

    def endpoint(self) -> str:
        return str(self.config.host)

    def depends_on(self) -> tuple[str, ...]:
        return (self.config.through,) if self.config.through else ()

    def accept(self, given: Credentials) -> tuple[TargetConfig, Mapping[str, SecretStr]]:
        if not given.values():
            raise CredentialsNeeded(f"{self.location()} needs a token.", details={"fields": ["token"]})
        return super().accept(given)

    @classmethod
    def show_pin(cls, pin: str) -> str:
        return f"<{pin}>"

    def _there(self) -> FakeBackend:
        pot = POTS.get(self.config.host)
        if pot is None or pot.is_away:
            raise TargetUnreachable(f"{self.name} does not answer.")
        return pot


class CupConfig(TargetConfig):
    pass


class CupDriver(FakeDriver, Attachable):
    """A cup, of which nothing is pinned and which has no credentials."""

    kind = "cup"
    config_model = CupConfig
    mine: ClassVar[FakeBackend] = FakeBackend()

    def backend(self) -> FakeBackend:
        return self.mine

    def probe(self) -> None:
        return None

    def location(self) -> str:
        return "on the table"


@dataclass
class FakeFarm(FakeBackend):
    """What create() makes. Each operation needs `steps` calls; `calls` has them all."""

    steps: int = 2
    done: int = 0
    calls: list[str] = field(default_factory=list)
    nodes: int = 0
    error: Exception | None = None


FARMS: dict[str, FakeFarm] = {}  # by the target's name; made by the test, since a backend outlives the server


class FarmConfig(TargetConfig):
    nodes: int = Field(default=1, ge=0, description="How many nodes.")
    soil: str = Field(default="red", description="What cannot be changed.")


class FarmCredentials(Credentials):
    water: SecretStr | None = None


class FarmDriver(FakeDriver, Managed, HasNodes):
    """A farm that is created with its nodes."""

    kind = "farm"
    config_model = FarmConfig
    mutable_settings = frozenset({"nodes"})
    credentials_model = FarmCredentials

    def backend(self) -> FakeFarm:
        farm = FARMS[self.name]
        if not farm.nodes:
            raise NoCapacity(f"{self.name} has no nodes.")
        return farm

    def create(self) -> Provisioning:
        return self._work("create", ProvisioningState.CREATING, self.config.nodes)

    def update(self, before: Mapping[str, Any]) -> Provisioning:
        if before["nodes"] == self.config.nodes:
            raise TargetRejected("The farm was told to update nothing.")
        return self._work(f"update from {before['nodes']}", ProvisioningState.UPDATING, self.config.nodes)

    def delete(self) -> Provisioning:
        return self._work("delete", ProvisioningState.DELETING, 0)

    def location(self) -> str:
        return "behind the house"

    def nodes(self) -> list[Node]:
        farm = FARMS[self.name]
        return [Node(f"n{n}", NodeState.IDLE, {"cores": 2}, tuple(farm.jobs)) for n in range(farm.nodes)]

    def _work(self, what: str, state: ProvisioningState, nodes: int) -> Provisioning:
        farm = FARMS[self.name]
        farm.calls.append(what)
        if farm.error is not None:
            raise farm.error
        farm.done += 1
        if farm.done < farm.steps:
            return Provisioning(state, f"step {farm.done} of {farm.steps}")
        farm.done, farm.nodes = 0, nodes
        return Provisioning(ProvisioningState.SUCCEEDED)


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kinds, as if a package brought them by the entry point group. The backends are empty."""
    found = {kind.kind: SimpleNamespace(load=lambda kind=kind: kind) for kind in (PotDriver, CupDriver, FarmDriver)}
    monkeypatch.setattr(drivers, "_registered", lambda: found)
    POTS.clear()
    FARMS.clear()
    return found
