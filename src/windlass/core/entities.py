"""What we remember: frozen values, JSON-able through codec. Spelled for Python 3.8, where the runner's friends run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, Optional, Tuple

from windlass.core.coordinates import Coordinates
from windlass.core.states import FINAL, Intent, Reason, RunState


@dataclass(frozen=True)
class Resources:
    """What a job asks for; None means the target's default."""

    nodes: Optional[int] = None
    cpus: Optional[float] = None
    gpus: Optional[int] = None
    memory_mb: Optional[int] = None


@dataclass(frozen=True)
class Distribution:
    """How the processes of a run are launched on its nodes; without one, its command runs once on the first node."""

    framework: str  # "mpi", "pytorch" or "tensorflow"
    processes_per_node: int = 1
    process_count: Optional[int] = None  # in all, for PyTorch; None: one on each node
    workers: int = 1  # TensorFlow's
    parameter_servers: int = 0
    backend: str = ""  # PyTorch's: "nccl" or "gloo"


@dataclass(frozen=True)
class RetryPolicy:
    """After which ends of an attempt a run is queued again. Evictions count by themselves."""

    count: int = 0
    on: Tuple[str, ...] = ("node-loss",)  # "node-loss", "failure", "exit:75"
    evictions: int = 3


@dataclass(frozen=True)
class NodeShare:
    """What a run has of one node, or of a machine without nodes (whose `node` is ""). GPUs are device numbers."""

    node: str = ""
    cores: float = 0.0
    memory_mb: int = 0
    gpus: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Allocation:
    """What a run has of its target, given to it when it is dispatched; one share for each of its nodes."""

    shares: Tuple[NodeShare, ...] = ()


@dataclass(frozen=True)
class EnvironmentSpec:
    """Interpreter and packages. With `interpreter`, it is there already; otherwise it is built once per digest."""

    name: str = ""
    version: Optional[str] = None
    interpreter: Optional[str] = None
    python_version: Optional[str] = None
    pip: Tuple[str, ...] = ()
    pip_options: Tuple[str, ...] = ()
    conda: Tuple[str, ...] = ()
    channels: Tuple[str, ...] = ()
    strict: bool = False  # a Python or a release that is not to be had is refused, instead of replaced by the nearest
    variables: Dict[str, str] = field(default_factory=dict)
    # What a container is made from, where the run lives in one: an image, or the text of a Dockerfile.
    image: Optional[str] = None
    dockerfile: Optional[str] = None

    @property
    def is_built(self) -> bool:
        """Whether packages must be installed for it, as opposed to an interpreter that is there."""
        return self.interpreter is None


@dataclass(frozen=True)
class Container:
    """How the container of a run is made, beyond the environment's image."""

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
    secrets: Tuple[str, ...] = ()  # of the workspace's key store, by name: what this run is granted
    resources: Resources = Resources()
    max_run_duration_seconds: Optional[int] = None
    grace_seconds: int = 30
    snapshot: Optional[str] = None
    output_collection: bool = True
    directories_to_watch: Tuple[str, ...] = ("logs",)
    priority: int = 0
    distribution: Optional[Distribution] = None
    retries: RetryPolicy = RetryPolicy()
    # Azure's run definition, camelCase, as people read it back from get_details().
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
    # Why nothing is sent there any more, until its owner has confirmed it: what answers is not what was pinned.
    quarantine: Optional[str] = None
    # What it reported about itself when it was last checked: cores, memory_mb, python ...
    inventory: Optional[Dict[str, Any]] = None
    # The identity of what answers there, such as a host key; whether a person compared it.
    pin: Optional[str] = None
    pin_confirmed: bool = False
    depends_on: Tuple[str, ...] = ()  # other targets of the workspace that it needs: a jump host
    # Of targets that are created: Creating, Updating, Deleting, Succeeded, Failed; and why.
    provisioning_state: str = "Succeeded"
    provisioning_message: str = ""
    config_before: Optional[Dict[str, Any]] = None  # of one that is being updated: its configuration until then


@dataclass(frozen=True)
class Connection:
    """What Azure's coordinates of a resource mean here. What opens it is in the key store: connection/<name>/<what>."""

    name: str
    kind: str  # "aks", "databricks", "batch", "adla" or "vm"
    coordinates: Coordinates
    config: Dict[str, Any]
    created_by: str
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True)
class Run:
    """One execution that the user asked for, as far as the list of runs shows it."""

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
    eviction: Optional[str] = None  # why its attempt is to be stopped and the run queued again

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def is_stopping(self) -> bool:
        """Whether its attempt is to be stopped: the run is to be canceled, or to be queued again."""
        return self.intent is Intent.CANCEL or self.eviction is not None

    @property
    def status(self) -> str:
        """The state as people see it: a wish to cancel shows until it is fulfilled."""
        if self.intent is Intent.CANCEL and not self.is_final:
            return "CancelRequested"
        return self.state.value


@dataclass(frozen=True)
class Event:
    """One line of a run's story. `seq` counts from 1 without gaps; the run's state is the replay of these."""

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
    """A stored file of a run: a name for bytes that live under their digest."""

    path: str
    digest: str
    size: int
    created_at: datetime
    # A log beyond its cap is kept without its middle: this many bytes are missing after that offset.
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
