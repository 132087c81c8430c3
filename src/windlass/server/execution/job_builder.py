"""Builds the job that a driver gets from a run, and the driver from a target's row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from pydantic import SecretStr, ValidationError

from windlass import drivers
from windlass.core.digests import snapshot_digest
from windlass.core.entities import Allocation, Artifact, RunSpec, Snapshot, SnapshotFile, Target, Workspace
from windlass.core.errors import InvalidRequest, NotFound, TargetUnreachable
from windlass.drivers.base import ConnectionPool, Driver, DriverContext, Job, Secrets
from windlass.server.clusters.computer import machine_id
from windlass.server.security.run_secrets import RunSecrets
from windlass.server.security.run_tokens import run_token
from windlass.server.settings import Settings
from windlass.store import Leased, Store
from windlass.store.files.attempt_files import OUTPUTS

Granted = Mapping[str, SecretStr | None]

# Long enough for any run: the token dies with the run, not with the clock.
_TOKEN_EXPIRY = "4102444800"


@dataclass(frozen=True, slots=True)
class StoredBundle:
    """A snapshot whose bytes are in our store."""

    store: Store
    snapshot: Snapshot

    @property
    def digest(self) -> str:
        return self.snapshot.digest

    def files(self) -> Sequence[SnapshotFile]:
        return self.snapshot.files

    def open(self, digest: str) -> BinaryIO:
        return self.store.blobs.open(digest)


@dataclass(frozen=True, slots=True)
class JobBuilder:
    """Builds jobs and drivers with the server's address, token key and connections."""

    store: Store
    connections: ConnectionPool
    settings: Settings
    url: str
    token_key: bytes
    run_secrets: RunSecrets
    context_of: Callable[[str], DriverContext] = lambda workspace: DriverContext()

    def driver(
        self, workspace: str, target: Target, secrets: Secrets | None = None, connections: ConnectionPool | None = None
    ) -> Driver[Any]:
        """The driver of a target. For a probe before it is attached, with other secrets and connections."""
        kind = drivers.load(target.kind)
        if is_elsewhere(target):
            raise TargetUnreachable(
                f"The target {target.name} is another machine's own: the one of the server that made it.",
                "Submit through that server, or attach the machine under a name of its own.",
            )
        try:
            secrets = secrets or self.run_secrets.secret_store.of_target(workspace, target.name)
            driver = kind(target.name, kind.config_model(**target.config), secrets, connections or self.connections)
        except ValidationError as e:
            raise InvalidRequest(
                f"The configuration of target {target.name} is not valid: {e.errors()[0]['msg']}"
            ) from e
        driver.context = self.context_of(workspace)
        driver.pin = target.pin
        return driver

    def with_secret_values(self, leased: Leased) -> Job:
        """The job with secret values, for an immediate start; their use is in the audit log by then."""
        return replace(self._for_lease(leased, self.run_secrets.open(leased)), allocation=allocation_of(leased))

    def without_secret_values(self, leased: Leased) -> Job:
        """The job with the names of its secrets only, for plan and prefetch."""
        return self._for_lease(leased, None)

    def _for_lease(self, leased: Leased, granted: Granted | None) -> Job:
        run, spec, nonce, fence = leased.run, leased.spec, leased.nonce, leased.fence
        return self.for_spec(
            spec, run.workspace, run.experiment, run.id, run.attempt, nonce, fence, granted, run.created_at
        )

    def for_spec(
        self,
        spec: RunSpec,
        workspace: str,
        experiment: str,
        run: str,
        attempt: int = 1,
        nonce: str = "",
        fence: int = 0,
        granted: Granted | None = None,
        created_at: datetime | None = None,
    ) -> Job:
        """The job of a run that need not exist yet, as in a dry run. Without `granted`, secrets by name only."""
        limit = spec.max_run_duration_seconds
        identity = self._identity(self.store.workspaces.get(workspace), experiment, run, attempt)
        token = SecretStr(run_token(self.token_key, run, attempt, created_at or datetime.now(UTC)))
        return Job(
            id=f"{run}.{attempt}",
            run=run,
            attempt=attempt,
            nonce=nonce,
            fence=fence,
            command=command_of(spec),
            env={**spec.environment.variables, **spec.environment_variables, **identity},
            secrets={"WINDLASS_RUN_TOKEN": token, "AZUREML_RUN_TOKEN": token},
            granted=dict.fromkeys(self.run_secrets.names(workspace, spec)) if granted is None else granted,
            environment=spec.environment,
            bundle=self._bundle(spec, run, attempt),
            container=spec.container,
            resources=spec.resources,
            distribution=spec.distribution,
            time_limit=timedelta(seconds=limit) if limit else None,
            grace=timedelta(seconds=spec.grace_seconds),
            watch=spec.directories_to_watch,
            log_cap=self.settings.log_cap_bytes,
            build_limit=timedelta(hours=self.settings.build_hours),
        )

    def _bundle(self, spec: RunSpec, run: str, attempt: int) -> StoredBundle | None:
        """The snapshot; for a later attempt with the outputs of the last attempt instead of its own."""
        snapshot = self._snapshot(spec)
        outputs = self.store.artifacts.outputs_to_resume(run) if attempt > 1 else ()
        if outputs:
            snapshot = _with_outputs(() if snapshot is None else snapshot.files, outputs)
        return None if snapshot is None else StoredBundle(self.store, snapshot)

    def _snapshot(self, spec: RunSpec) -> Snapshot | None:
        try:
            return self.store.snapshots.get(spec.snapshot) if spec.snapshot else None
        except NotFound:
            return None

    def _identity(self, workspace: Workspace, experiment: str, run: str, attempt: int) -> dict[str, str]:
        return {
            "WINDLASS_RUN_ID": run,
            "WINDLASS_ATTEMPT": str(attempt),
            "WINDLASS_WORKSPACE": workspace.name,
            "WINDLASS_EXPERIMENT": experiment,
            "WINDLASS_URL": self.url,
            "WINDLASS_HOME": str(self.settings.home),
            "AZUREML_RUN_ID": run,
            "AZUREML_ARM_SUBSCRIPTION": workspace.subscription_id,
            "AZUREML_ARM_RESOURCEGROUP": workspace.resource_group,
            "AZUREML_ARM_WORKSPACE_NAME": workspace.name,
            "AZUREML_ARM_PROJECT_NAME": experiment,
            "AZUREML_EXPERIMENT_ID": experiment,
            "AZUREML_RUN_TOKEN_EXPIRY": _TOKEN_EXPIRY,
            "AZUREML_SERVICE_ENDPOINT": self.url,
        }


def allocation_of(leased: Leased) -> Allocation:
    """What a run may use. Where there are no nodes, that is what it declared; 0 is no limit."""
    asked = leased.spec.resources
    cores, memory_mb = float(asked.cpus or 0), asked.memory_mb or 0
    shares = leased.allocation.shares
    return Allocation(
        tuple(share if share.node else replace(share, cores=cores, memory_mb=memory_mb) for share in shares)
    )


def _with_outputs(files: Sequence[SnapshotFile], outputs: Sequence[Artifact]) -> Snapshot:
    resumed = [SnapshotFile(output.path, output.digest, output.size) for output in outputs]
    whole = sorted([*(file for file in files if not file.path.startswith(OUTPUTS)), *resumed], key=lambda f: f.path)
    return Snapshot(snapshot_digest(whole), tuple(whole))


def is_elsewhere(target: Target) -> bool:
    """Whether a target can be reached only from another server's machine."""
    return target.config.get("machine") not in (None, machine_id())


def command_of(spec: RunSpec) -> tuple[str, ...]:
    if spec.command:
        return spec.command
    if spec.script is None:
        raise InvalidRequest("A run needs a script or a command.")
    # A script named "-c" must stay a file to the interpreter.
    script = f"./{spec.script}" if spec.script.startswith("-") else spec.script
    return ("{python}", script, *spec.arguments)
