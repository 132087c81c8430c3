"""Entities: frozen dataclasses of what the store keeps, converted to JSON by codec. Written for Python 3.8."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, Optional, Tuple

from windlass.core.coordinates import Coordinates
from windlass.core.states import FINAL, Intent, Reason, RunState


@dataclass(frozen=True)
class Resources:
    """Resources that a job requests; None means the target's default."""

    nodes: Optional[int] = None
    cpus: Optional[float] = None
    gpus: Optional[int] = None
    memory_mb: Optional[int] = None


@dataclass(frozen=True)
class Distribution:
    """Distributed launch of a run's processes. A run without one executes its command once, on the first node."""

    framework: str  # "mpi", "pytorch" or "tensorflow"
    processes_per_node: int = 1
    process_count: Optional[int] = None  # in all, for PyTorch; None: one on each node
    workers: int = 1  # TensorFlow's
    parameter_servers: int = 0
    backend: str = ""  # PyTorch's: "nccl" or "gloo"


@dataclass(frozen=True)
class RetryPolicy:
    """Ends of an attempt after which a run is queued again. Evictions have a count of their own."""

    count: int = 0
    on: Tuple[str, ...] = ("node-loss",)  # "node-loss", "failure", "exit:75"
    evictions: int = 3


@dataclass(frozen=True)
class NodeShare:
    """A run's share of one node, or of a target without nodes (`node` is ""). GPUs are device numbers."""

    node: str = ""
    cores: float = 0.0
    memory_mb: int = 0
    gpus: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Allocation:
    """A run's share of its target, assigned when it is dispatched: one share per node."""

    shares: Tuple[NodeShare, ...] = ()


@dataclass(frozen=True)
class EnvironmentSpec:
    """Interpreter and packages. With `interpreter`, an existing Python is used; else it is built once per digest."""

    name: str = ""
    version: Optional[str] = None
    interpreter: Optional[str] = None
    python_version: Optional[str] = None
    pip: Tuple[str, ...] = ()
    pip_options: Tuple[str, ...] = ()
    conda: Tuple[str, ...] = ()
    channels: Tuple[str, ...] = ()
    strict: bool = False  # refuse an unavailable Python or release instead of using the nearest one
    variables: Dict[str, str] = field(default_factory=dict)
    # For runs in containers: an image, or the text of a Dockerfile.
    image: Optional[str] = None
    dockerfile: Optional[str] = None

    @property
    def is_built(self) -> bool:
        """Whether packages are installed for it, as opposed to an existing interpreter."""
        return self.interpreter is None


@dataclass(frozen=True)
class Container:
    """Container options of a run, beyond the image of its environment."""

    shm_size_mb: Optional[int] = None
    # Options of `docker run` that the user named; what is not harmless needs the consent of the target's owner.
    arguments: Tuple[str, ...] = ()
    shared_volumes: bool = True


@dataclass(frozen=True)
class RunSpec:
    """What the user asked for. Never changes after submit."""

    script: Optional[str] = None
    arguments: Tuple[str, ...] = ()
    command: Tuple[str, ...] = ()
    target: str = "local"
    environment: EnvironmentSpec = EnvironmentSpec(interpreter="python3")
    environment_variables: Dict[str, str] = field(default_factory=dict)
    container: Optional[Container] = None  # None: no container
    secrets: Tuple[str, ...] = ()  # names in the workspace's key store that this run may read
    resources: Resources = Resources()
    max_run_duration_seconds: Optional[int] = None
    grace_seconds: int = 30
    snapshot: Optional[str] = None
    output_collection: bool = True
    directories_to_watch: Tuple[str, ...] = ("logs",)
    priority: int = 0
    distribution: Optional[Distribution] = None
    retries: RetryPolicy = RetryPolicy()
    # Azure's run definition, camelCase, as get_details() returns it.
    definition: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Workspace:
    name: str
    subscription_id: str
    resource_group: str
    location: str
    created_at: datetime
    tags: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    name: str
    id: str
    created_at: datetime
    archived_at: Optional[datetime] = None
    tags: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    name: str
    kind: str
    config: Dict[str, Any]
    created_at: datetime
    is_attached: bool = True
    slots: Optional[int] = None
    attached_by: str = ""
    # Set if the target showed another identity than the pinned one: nothing is sent there until its owner confirms it.
    quarantine: Optional[str] = None
    # Result of the last check: cores, memory_mb, python ...
    inventory: Optional[Dict[str, Any]] = None
    # The pinned identity, such as a host key, and whether a person compared it.
    pin: Optional[str] = None
    pin_confirmed: bool = False
    depends_on: Tuple[str, ...] = ()  # other targets of the workspace that it needs: a jump host
    # Of managed targets: Creating, Updating, Deleting, Succeeded or Failed, and the reason.
    provisioning_state: str = "Succeeded"
    provisioning_message: str = ""
    config_before: Optional[Dict[str, Any]] = None  # while it is being updated: the previous configuration


@dataclass(frozen=True)
class Connection:
    """Settings for the coordinates of an Azure resource. Its secrets are in the key store: connection/<name>/<what>."""

    name: str
    kind: str  # "aks", "databricks", "batch", "adla" or "vm"
    coordinates: Coordinates
    config: Dict[str, Any]
    created_by: str
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True)
class Run:
    """Run: one execution that a user submitted, with the fields of the list of runs."""

    id: str
    workspace: str
    experiment: str
    number: int
    type: str
    state: RunState
    state_at: datetime
    created_at: datetime
    target: str = ""
    name: str = ""
    description: str = ""
    submitted_by: str = ""
    parent: Optional[str] = None
    root: Optional[str] = None
    intent: Intent = Intent.RUN
    reason: Optional[Reason] = None
    message: str = ""
    attempt: int = 1
    version: int = 1
    started_at: Optional[datetime] = None
    ended_at: Optional[datetime] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    snapshot: Optional[str] = None
    error: Optional[Dict[str, Any]] = None
    usage: Optional[Dict[str, Any]] = None
    tags: Dict[str, Optional[str]] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    eviction: Optional[str] = None  # set while its attempt is being stopped to queue the run again: the reason
    archived_at: Optional[datetime] = None  # since when it is hidden from lists, if it is

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def is_stopping(self) -> bool:
        """Whether its attempt is being stopped: to cancel the run, or to queue it again."""
        return self.intent is Intent.CANCEL or self.eviction is not None

    @property
    def status(self) -> str:
        """The state as shown to people: a pending request to cancel is shown as CancelRequested."""
        if self.intent is Intent.CANCEL and not self.is_final:
            return "CancelRequested"
        return self.state.value


@dataclass(frozen=True)
class Event:
    """Event of a run. `seq` counts from 1 without gaps; replaying the events gives the run's state."""

    run: str
    seq: int
    at: datetime
    kind: str
    state: Optional[RunState] = None
    reason: Optional[Reason] = None
    message: str = ""
    data: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifact:
    """Stored file of a run: a path for a blob, which is stored by digest."""

    path: str
    digest: str
    size: int
    created_at: datetime
    # A log that exceeds its cap is stored without its middle: `gap_length` bytes are missing at `gap_offset`.
    gap_offset: int = 0
    gap_length: int = 0


@dataclass(frozen=True)
class SnapshotFile:
    path: str
    digest: str
    size: int
    executable: bool = False


@dataclass(frozen=True)
class Snapshot:
    digest: str
    files: Tuple[SnapshotFile, ...]
