"""The contract between the server and a kind of compute: public, and versioned. Its laws are tests: windlass.testing.

A kind is a subclass of Driver. Interfaces that it implements beside it say what else its targets are:

| interface | targets that |
|---|---|
| Watcher | push events; the others are asked by observe() |
| EnvironmentCache | keep environments that were built for runs |
| Attachable | exist without us, and are attached by an address and credentials |
| Managed | are created and deleted by us |
| HasNodes | consist of nodes |
| Scalable | have nodes that we make and remove with their queue |
| Claims | have a scheduler that may start the same job twice, on file systems that do not see each other |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, SecretStr

from windlass.core.entities import Allocation, Container, Distribution, EnvironmentSpec, Resources, SnapshotFile
from windlass.core.errors import NotFound, SpecNotSupported, WindlassError
from windlass.core.states import Observation, Phase, Reason

__all__ = [
    "CONTRACT_VERSION", "Attachable", "Bundle", "CachedEnvironment", "Claims", "ConnectionPool", "Credentials",
    "Driver", "DriverContext", "EnvironmentCache", "Event", "Features", "FileGrew", "Handle", "HasNodes", "Health",
    "Identity", "Job", "JobChanged", "Managed", "NoCredentials", "Node", "NodeSize", "NodeSource", "NodeState",
    "Observation", "OtherTarget", "Phase", "Plan", "Provisioning", "ProvisioningState", "Reason", "RunFile", "Scalable",
    "Secrets", "Sending", "ServerAddress", "ThisComputer",
    "TargetConfig", "Watcher", "WorkspaceCredential", "shown_as_option",
]  # fmt: skip

# Raised when a driver written for the version before would not work any more. A package of drivers may compare it.
CONTRACT_VERSION = 1


class TargetConfig(BaseModel):
    """What a user may set on a target of this kind. Its schema feeds CLI options, the studio's form and the docs."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Credentials(BaseModel):
    """What opens a target. All fields are secrets: they go to the key store, and nothing shows them again."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def values(self) -> dict[str, SecretStr]:
        """The fields that have a value."""
        return {name: value for name, value in self if value is not None}


class NoCredentials(Credentials):
    """For kinds that need none."""


def shown_as_option(
    *names: str, metavar: str = "", values: Mapping[str, Sequence[str]] | None = None, is_file: bool = False
) -> dict[str, Any]:
    """How the command line shows a field, for `Field(json_schema_extra=...)`; without it, --field-name.

    `names` are its options ("-a", "--address"); an empty one hides it, and one of a single letter moves it to the front
    of the help. A boolean is a flag; "--on/--off" names both of its sides. `values` are flags that stand for a value
    each, with a sentence for the help: {"agent": ["--use-agent", "Log in with the agent."]}. `is_file`: the option is
    a file, whose text is the value. A field of Credentials that is no file gets the options NAME-file, NAME-stdin and
    --ask-NAME, since secrets do not belong on a command line; the `title` of the field is the prompt.
    """
    return {"cli": {"options": list(names), "metavar": metavar, "flags": dict(values or {}), "is_file": is_file}}


C = TypeVar("C", bound=TargetConfig)


@dataclass(frozen=True, slots=True)
class Features:
    """What a kind can do. What is not declared here is refused by plan()."""

    containers: bool = False
    gpus: bool = False
    multi_node: bool = False
    built_environments: bool = False
    calls_home: bool = False  # whether scripts there reach the server by themselves; else they are relayed


class Bundle(Protocol):
    """The snapshot on its way to a target: its files, and their bytes by digest. The one part of a Job not in JSON."""

    @property
    def digest(self) -> str: ...
    def files(self) -> Sequence[SnapshotFile]: ...
    def open(self, digest: str) -> BinaryIO: ...


@dataclass(frozen=True, slots=True)
class Job:
    """One process tree to start. `id` is the idempotency key: the same id is started at most once, ever."""

    id: str  # "<run id>.<attempt>"
    run: str
    attempt: int
    nonce: str
    fence: int
    command: tuple[str, ...]  # argv; a first element "{python}" stands for the environment's interpreter
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)  # variables too; never in a plan's text or a handle
    # What run.get_secret() reads: handed over by an fd. A job that is only planned has the names.
    granted: Mapping[str, SecretStr | None] = field(default_factory=dict)
    environment: EnvironmentSpec = EnvironmentSpec(interpreter="python3")
    bundle: Bundle | None = None
    resources: Resources = Resources()
    container: Container | None = None  # made from the environment's image
    time_limit: timedelta | None = None
    grace: timedelta = timedelta(seconds=30)
    watch: tuple[str, ...] = ("logs",)  # directories of the source tree whose files are read while they grow
    log_cap: int = 1 << 30  # bytes of one log file that are worth keeping on the machine
    build_limit: timedelta = timedelta(hours=6)  # for what its environment takes
    distribution: Distribution | None = None  # how its processes are launched, if it has several
    allocation: Allocation | None = None  # what it has of the target; None while it is only planned or pre-staged


@dataclass(frozen=True, slots=True)
class Plan:
    """Exactly what start() will send; `text` is for people and golden tests and shows no secret."""

    job: Job
    describe: Callable[[], str] = field(compare=False, repr=False)

    @property
    def text(self) -> str:
        return self.describe()


@dataclass(frozen=True, slots=True)
class Handle:
    """The driver's receipt for a job: stored with the run, at most 4 KB, no secrets.

    The nonce is that of the job. A target where another server has a job of the same id answers as if that one were
    not there.
    """

    kind: str
    native_id: str
    nonce: str  # stored once, with the attempt, and not in the row of the handle
    version: int = 1
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sending:
    """How far a start is: bytes that the target has taken, of how many. Of 0 bytes: it is only being connected to."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file of the run folder. `digest` is there once the file is final."""

    path: str
    size: int
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a job could start now, and what the target offers (cores, memory_mb, python, disk_free_mb ...)."""

    ok: bool
    message: str
    inventory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileGrew:
    """A file of the run folder has new bytes."""

    path: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A job is in another phase or stage. Without an observation, observe() must be asked."""

    observation: Observation | None = None


Event = FileGrew | JobChanged


@dataclass(frozen=True, slots=True)
class Identity:
    """What answered at an address, before any credential was sent there."""

    pin: str  # compared byte by byte from now on: an SSH host key, the certificate of a cluster
    shown_as: str  # what people compare: "SHA256:…"
    what: str = "key"  # the word for it: "host key"
    how_to_compare: str = ""  # a command to type there
    details: Mapping[str, Any] = field(default_factory=dict)


class Secrets(Protocol):
    """Resolves references to secrets at the last moment."""

    def get(self, name: str) -> SecretStr: ...


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The server that drivers work for: what scripts on machines that cannot reach it are relayed to."""

    id: str  # 16 hexadecimal digits; the same for all servers of one store, at any time
    url: str  # as scripts call it
    host: str  # where it listens, as seen from itself
    port: int
    certificate: str = field(default="", repr=False)  # in PEM, if it speaks TLS; some keep the key in the same file


class ConnectionPool(ABC):
    """Long-lived connections, owned by the server and handed to drivers, which are built anew for each use."""

    server: ServerAddress | None = None

    @abstractmethod
    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """The connection of that key, made if there is none or if it is broken (`is_open` is false)."""

    @abstractmethod
    def reset_backoff(self, key: str) -> None:
        """Who asks for it next does so on purpose, and does not wait until it is tried again."""

    @abstractmethod
    def drop(self, key: str) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


def _ignore(sending: Sending) -> None:
    pass


@dataclass(frozen=True, slots=True)
class OtherTarget:
    """Another target of the workspace, as a driver needs it: a jump host."""

    config: Mapping[str, Any]
    pin: str | None = None


def _unknown(name: str) -> OtherTarget:
    raise NotFound(f"There is no target {name}.")


def _as_found(address: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class ThisComputer:
    """What the server's own computer has for runs."""

    cores: float = 1.0
    memory_mb: int = 1024
    gpus: int = 0


def _no_nodes(name: str) -> list[Node]:
    return []


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What a server lets its drivers do, and what they may ask it."""

    # Where people share a server, the files of the account that it runs by are not for its users.
    reads_user_files: bool = True
    # The address that a name stands for, if that may be connected to (else it raises); None: as the system finds it.
    resolve: Callable[[str], str | None] = _as_found
    target: Callable[[str], OtherTarget] = _unknown  # another target of the workspace, by its name
    # Connection pools are shared by all workspaces. What is open by the credentials of one is not for the others.
    workspace: str = ""
    # The folder of the server itself, for targets on its own computer whose configuration names none.
    folder: Path | None = None
    computer: ThisComputer = ThisComputer()  # what the server gives to runs of its own computer
    nodes: Callable[[str], list[Node]] = _no_nodes  # of a target whose nodes the server scales, by its name


class Driver(ABC, Generic[C]):
    """Runs jobs on one target. Built for each use; the long-lived connections are the server's `connections`.

    Calls come from several threads. Every method is safe to repeat. A backend that cannot be
    reached raises TargetUnreachable; a driver never answers for a backend it did not hear.
    """

    kind: ClassVar[str]
    config_model: ClassVar[type[TargetConfig]]
    features: ClassVar[Features] = Features()
    # Settings that may change on a target that is there; the others belong to what it was attached or created by.
    mutable_settings: ClassVar[frozenset[str]] = frozenset()
    # Parts of the inventory that a change of the settings above makes out of date.
    checked_inventory: ClassVar[frozenset[str]] = frozenset()
    context: DriverContext = DriverContext()
    is_this_computer: ClassVar[bool] = False  # then its runs take cores, memory and GPUs of the server's own computer
    is_internal: ClassVar[bool] = False  # for tests: not offered to users, and without a page in the docs

    def __init__(self, name: str, config: C, secrets: Secrets, connections: ConnectionPool) -> None:
        """Store the arguments. No I/O."""
        self.name = name
        self.config = config
        self.secrets = secrets
        self.connections = connections
        self.pin: str | None = None  # set by the server: the identity that was pinned when it was attached
        self.report: Callable[[Sending], None] = _ignore  # called by a start that takes long, in its thread

    @abstractmethod
    def check(self) -> Health:
        """Say whether a job could start now, and what the target inventory. Used by attach and studio."""

    @abstractmethod
    def plan(self, job: Job) -> Plan:
        """Render exactly what start() will send. Pure. Refuse here what cannot work: SpecNotSupported."""

    @abstractmethod
    def start(self, plan: Plan) -> Handle:
        """Hand the job over and return at once. The same job id twice yields the same handle; after clean(), Conflict.
        Where another server has a job of that id, TargetRejected.

        If it raises, nothing runs, or a second call adopts what runs.
        """

    def prepare(self, plan: Plan) -> None:
        """Get ready for a start that will come later, if that can be done: it executes nothing, and promises nothing.

        Until it is started, the job is not there; clean() forgets it.
        """

    def is_prepared(
        self, environment: EnvironmentSpec, container: Container | None, files: Sequence[SnapshotFile] = ()
    ) -> bool:
        """Whether a job with this environment would begin without building it; `files` are what an image may copy."""
        raise SpecNotSupported(f"Targets of kind {self.kind} cannot tell whether an environment is built.")

    @abstractmethod
    def find(self, job_id: str, nonce: str) -> Handle | None:
        """The job that the backend accepted under this id with this nonce, if any: for receipts that were lost.

        None means that it is surely not there. Asked before a run is started again by another server, and
        before a canceled one is given up as never started.
        """

    @abstractmethod
    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        """Report on many jobs in one question, in the order asked. Unknown job: Phase.LOST, never ENDED."""

    @abstractmethod
    def stop(self, handle: Handle, grace: timedelta) -> None:
        """Deliver the wish and return: the far side asks, waits grace, kills the whole tree.

        Stopping what is dead or unknown is no error.
        """

    @abstractmethod
    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """At most limit bytes of a file of the run folder from an offset; b"" if there is nothing (yet)."""

    @abstractmethod
    def files(self, handle: Handle) -> Iterable[RunFile]:
        """The files of the run folder that belong to the record: logs, metrics, uploads, outputs, status."""

    @abstractmethod
    def clean(self, handle: Handle) -> None:
        """Remove what start() left behind. Also after a start that failed, or one whose receipt was lost: if it reaches
        the target later, nothing is started."""

    def leave(self) -> None:
        """Close what is kept open to the target: it is detached, or reached in another way from now on."""

    def clock_skew(self) -> float:
        """Seconds by which our clock is ahead of the target's, where they differ: what it writes is told in its own."""
        return 0.0


class Watcher(ABC):
    """Optional: targets that push events (over a pipe, by a Kubernetes watch); the others are asked by observe()."""

    @abstractmethod
    def watch(self, sink: Callable[[str, Event], None]) -> None:
        """From now on call `sink(native_id, event)` for each event. Returns at once; a second call replaces the sink.

        The sink may be called from any thread and must not block. After a reconnect, JobChanged is sent for every job
        that is still known there.
        """


@dataclass(frozen=True, slots=True)
class CachedEnvironment:
    """An environment that a target keeps, by its digest."""

    digest: str
    size: int
    idle: timedelta  # since a run last used it


class EnvironmentCache(ABC):
    """Optional: a target that keeps environments that were built for a run, for later runs."""

    @property
    def is_servers_own(self) -> bool:
        """Whether it is the folder of the server itself, which the server cleans up without a driver."""
        return False

    @abstractmethod
    def environments(self) -> list[CachedEnvironment]: ...

    @abstractmethod
    def evict(self, digest: str, idle: timedelta) -> bool:
        """Remove an environment that no run has used for that long. False if it is still there."""


@dataclass(frozen=True, slots=True)
class WorkspaceCredential:
    """A credential that a workspace makes once and uses for all its targets of a kind: an SSH key pair."""

    secret: str  # its name in the key store
    make: Callable[[], SecretStr]
    public: Callable[[SecretStr, str], str]  # the half to install elsewhere, of a workspace by its name


class Attachable(ABC):
    """Optional: a target that exists without us and is attached by an address and credentials.

    The server builds the driver with the configuration that is to be attached. Secrets that were given, and are not
    kept yet, are found by their names: `secrets.get("target/NAME/WHAT")`.
    """

    credentials_model: ClassVar[type[Credentials]] = NoCredentials
    # With these settings and the pin unchanged, jobs that run there are found again: the account, the folder.
    identity_settings: ClassVar[frozenset[str]] = frozenset()
    workspace_credential: ClassVar[WorkspaceCredential | None] = None

    @abstractmethod
    def probe(self) -> Identity | None:
        """What answers there. Called before any credential is sent, so that it can be shown and pinned.

        None where nothing is pinned. TargetUnreachable if nothing answers.
        """

    @abstractmethod
    def location(self) -> str:
        """Where the target is, for lists, the audit and the events of runs: "jane@10.0.0.7"."""

    def left_at(self) -> str:
        """Where the folders of runs are that go on when it is detached: "jane@10.0.0.7:~/.windlass/ssh"."""
        return self.location()

    def endpoint(self) -> str:
        """What probe() connects to: "10.0.0.7:22". What was pinned for an endpoint is expected there again."""
        return self.location()

    def depends_on(self) -> tuple[str, ...]:
        """Names of other targets of the workspace that this one needs: a jump host. They cannot be detached before."""
        return ()

    def accept(self, given: Credentials) -> tuple[TargetConfig, Mapping[str, SecretStr]]:
        """The configuration to keep, and the secrets to keep by name (WHAT of target/NAME/WHAT).

        Refuses what contradicts itself: InvalidRequest. CredentialsNeeded names the fields that are missing, which a
        person at a terminal is asked for. No I/O beyond this machine.
        """
        return self.config, given.values()  # type: ignore[attr-defined]

    def uses_workspace_credential(self) -> bool:
        """Whether the workspace's own credential opens it."""
        return False

    def enroll(self, public: str) -> None:
        """Have the target accept the workspace's credential, by the secrets that were given. Twice is silent."""
        raise NotImplementedError

    def enrollment_problem(self, public: str) -> Mapping[str, str]:
        """What is missing until the target accepts the workspace's credential: {"message": …, "fix": …}."""
        return {"message": f"{self.location()} does not accept the workspace's credential yet.", "fix": public}

    @classmethod
    def read_pin(cls, text: str) -> str:
        """An identity to pin, as probe() would have it. Refuses a text that is none: InvalidRequest."""
        return text

    @classmethod
    def show_pin(cls, pin: str) -> str:
        """A pinned identity as people compare it."""
        return pin

    def explain(self, error: WindlassError) -> WindlassError:
        """The error, with the hint that fits how this target is opened."""
        return error


class ProvisioningState(StrEnum):
    """Azure's words."""

    CREATING = "Creating"
    UPDATING = "Updating"
    DELETING = "Deleting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Provisioning:
    """How far a managed target is."""

    state: ProvisioningState
    message: str = ""


class Managed(ABC):
    """Optional: a target that we create and delete. Its row exists before it does, and until it is gone.

    All calls are repeated after a restart of the server, until they succeed or fail for good (TargetRejected). Where
    several servers share a database, two of them may call at the same time.
    """

    credentials_model: ClassVar[type[Credentials]] = NoCredentials

    @abstractmethod
    def create(self) -> Provisioning:
        """Create the target, or go on with it. Returns at once; called again until it is Succeeded or Failed."""

    @abstractmethod
    def delete(self) -> Provisioning:
        """Delete the target and all that create() made, or go on with that. Succeeded: nothing is left of it.

        Deleting what was never created, or is gone, succeeds.
        """

    def update(self, before: Mapping[str, Any]) -> Provisioning:
        """Apply settings that changed (`mutable_settings`); `before` is the configuration until now."""
        return Provisioning(ProvisioningState.SUCCEEDED)

    def location(self) -> str:
        """Where it is, for lists and the audit."""
        return ""


class NodeState(StrEnum):
    """Azure's words."""

    IDLE = "idle"
    RUNNING = "running"
    PREPARING = "preparing"
    LEAVING = "leaving"
    PREEMPTED = "preempted"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a target, or a share of one."""

    id: str
    state: NodeState
    resources: Mapping[str, Any] = field(default_factory=dict)  # cores, memory_mb, gpus
    runs: tuple[str, ...] = ()
    message: str = ""


class HasNodes(ABC):
    """Optional: a target that consists of nodes, managed or attached."""

    @abstractmethod
    def nodes(self) -> list[Node]:
        """The nodes that there are now. TargetUnreachable if that is not known."""


class NodeSource(ABC):
    """Makes and removes the nodes of a cluster. Both are idempotent by the node's id, which we choose: the row of a
    node is there before the node is, and until it is gone. A call that fails may have succeeded all the same: it is
    repeated, or undone by delete_node().
    """

    @abstractmethod
    def create_node(self, id: str) -> bool:
        """Make a node, or go on with it. True once it takes runs; called again until then. TargetRejected if it can
        never be made.
        """

    @abstractmethod
    def delete_node(self, id: str) -> None:
        """Remove a node. One that is not there is no error."""

    @abstractmethod
    def nodes(self) -> list[str]:
        """The ids of all nodes that there are, or are being made: what has no row is deleted, and what has a row and is
        not among them is gone.
        """


@dataclass(frozen=True, slots=True)
class NodeSize:
    """A node of a cluster: what it accounts for, and what its runs may use at most."""

    cores: float
    memory_mb: int
    gpus: int
    limit_cores: float
    limit_memory_mb: int
    note: str = ""  # in what it is less than what was asked for


class Scalable(HasNodes):
    """Optional: a managed target whose nodes come and go with its queue."""

    @abstractmethod
    def node_source(self) -> NodeSource:
        """What makes its nodes."""

    @abstractmethod
    def node_size(self) -> NodeSize: ...

    @abstractmethod
    def scale(self) -> tuple[int, int, float]:
        """The least and the most nodes, and for how many seconds a node may be idle."""

    def is_for_one_run(self) -> bool:
        """Whether it was created for a run, and goes with it."""
        return False

    @classmethod
    def has_low_priority(cls, config: Mapping[str, Any]) -> bool:
        """Whether the nodes of a target with these settings may be taken away for runs of other targets."""
        return False


class Claims(ABC):
    """Optional: targets whose scheduler may start the same job twice, on file systems that do not see each other.

    Each instance of a job (a pod by its UID, a queue's job by its id and restart count) executes nothing until it is
    allowed to. The server commits which instance owns the attempt, by compare-and-set, and then allows that one.
    """

    @abstractmethod
    def waiting(self, handles: Sequence[Handle]) -> list[tuple[str, ...]]:
        """The instances of each job that wait to be allowed, in one question."""

    @abstractmethod
    def allow(self, handle: Handle, instance: str) -> None:
        """Let this instance execute. The commit that names it as the owner is done. Twice is silent."""

    @abstractmethod
    def refuse(self, handle: Handle, instance: str, owner: str) -> None:
        """End this instance without executing anything: another one owns the attempt. Twice is silent."""
