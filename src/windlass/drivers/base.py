"""Driver contract: the interface between the server and a kind of compute. Public and versioned (CONTRACT_VERSION).

A kind is a subclass of Driver. The optional interfaces that the class implements too say what its targets can do.
`windlass.testing.Laws` tests a driver against this contract.

| interface | targets that |
|---|---|
| Watcher | push events; all others are polled by observe() |
| EnvironmentCache | keep environments that were built for runs |
| Attachable | exist already, and are attached by an address and credentials |
| Managed | are created and deleted by the server |
| HasNodes | consist of nodes |
| Scalable | have nodes that the server creates and deletes as the queue grows and shrinks |
| Claims | have a scheduler that may start the same job twice, on file systems that do not see each other |
| Interactive | let members open a shell, a command or a TCP connection where a job runs |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, SecretStr

from windlass.core.entities import Allocation, Container, Distribution, EnvironmentSpec, Resources, SnapshotFile
from windlass.core.errors import NotFound, SpecNotSupported, WindlassError
from windlass.core.states import Observation, Phase, Reason

__all__ = [
    "CHANNEL_WINDOW", "CONTRACT_VERSION", "Attachable", "Bundle", "CachedEnvironment", "Channel", "ChannelEnd",
    "ChannelRequest", "ChannelSink", "Claims", "ConnectionPool", "Credentials", "Driver", "DriverContext",
    "EnvironmentCache", "Event", "Features", "FileGrew", "Handle", "HasNodes", "Health", "Identity", "Interactive",
    "Job", "JobChanged", "Managed", "NoCredentials", "Node", "NodeSize", "NodeSource", "NodeState", "Observation",
    "OtherTarget", "Phase", "Plan", "Provisioning", "ProvisioningState", "Reason", "RunFile", "Scalable", "Secrets",
    "Sending", "ServerAddress", "TargetConfig", "TargetGroup", "ThisComputer", "Watcher", "WorkspaceCredential",
    "shown_as_option", "shown_in_form", "shown_in_python",
]  # fmt: skip

# Incremented when a driver written for the previous version would no longer work. Packages of drivers may check it.
CONTRACT_VERSION = 1


class TargetConfig(BaseModel):
    """Settings of a target of this kind. The CLI, the studio and the docs are generated from their schema."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Credentials(BaseModel):
    """Credentials of a target. All fields are secrets: they are kept in the key store and never shown again."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def values(self) -> dict[str, SecretStr]:
        """The secrets that were given, by name."""
        return {name: value for name, value in self if value is not None}


class NoCredentials(Credentials):
    """Credentials of kinds that need none."""


def shown_as_option(
    *names: str, metavar: str = "", values: Mapping[str, Sequence[str]] | None = None, is_file: bool = False
) -> dict[str, Any]:
    """Command-line options of a field, for `Field(json_schema_extra=...)`. The default is --field-name.

    `names` are its options ("-a", "--address"). An empty name hides the field; a one-letter option moves it to the
    front of the help. A boolean is a flag; "--on/--off" names both of its sides. `values` has a flag for each value,
    with a sentence for the help: {"agent": ["--use-agent", "Log in with the agent."]}. With `is_file`, the option takes
    the path of a file, and the value is the text of that file. A field of Credentials that is not a file gets the
    options NAME-file, NAME-stdin and --ask-NAME, since secrets do not belong on a command line; the `title` of the
    field is the prompt.
    """
    return {"cli": {"options": list(names), "metavar": metavar, "flags": dict(values or {}), "is_file": is_file}}


def shown_in_form(
    group: str = "",
    format: str = "",
    unit: str = "",
    labels: Mapping[str, str] | None = None,
    hidden: bool = False,
    at_least: str = "",
) -> dict[str, Any]:
    """How the studio's form shows a field, for `Field(json_schema_extra=...)`, also together with shown_as_option().

    The form has the fields of a schema in their order: title, description, default, examples, limits and choices are
    those of the schema. `group` puts a field into a section of that name below the others: "login", "containers",
    "advanced". `format` says what a text is: "vm-size", "target", "image", "path", "multiline" or "password". `unit` is
    shown beside a number. `labels` are texts for the values of a choice. A `hidden` field is not in the form.
    `at_least` names the field that this number must not be less than.
    """
    shown = {"group": group, "format": format, "unit": unit, "labels": dict(labels or {}), "hidden": hidden}
    return {name: value for name, value in {**shown, "at_least": at_least}.items() if value}


def shown_in_python(
    name: str, arguments: Mapping[str, str | Mapping[str, str]], always: Sequence[str] = ()
) -> dict[str, Any]:
    """The class whose configurations make targets of this kind in Python, for `ConfigDict(json_schema_extra=...)`.

    `arguments` has the argument for each field of configuration and credentials, or for each value of a field one that
    is then True; "pin" stands for the identity. The studio writes code with them, and `always` passes these fields.
    With a field that has no argument it uses KindAttachConfiguration or KindProvisioningConfiguration instead.
    """
    return {"python": {"class": name, "arguments": dict(arguments), "always": list(always)}}


# Where the studio lists targets of a kind: those that are always there, and Azure's groups.
TargetGroup = Literal["built-in", "instances", "clusters", "attached", "serverless"]

C = TypeVar("C", bound=TargetConfig)


@dataclass(frozen=True, slots=True)
class Features:
    """Features that a kind supports. plan() refuses a job that needs one which is not declared here."""

    containers: bool = False
    gpus: bool = False
    multi_node: bool = False
    built_environments: bool = False
    calls_home: bool = False  # whether scripts there can connect to the server; otherwise their requests are relayed


class Bundle(Protocol):
    """Snapshot of a job: its files, and a way to open each by digest. The only part of a Job that is not JSON."""

    @property
    def digest(self) -> str: ...
    def files(self) -> Sequence[SnapshotFile]: ...
    def open(self, digest: str) -> BinaryIO: ...


@dataclass(frozen=True, slots=True)
class Job:
    """One process tree to start. `id` is the idempotency key: a driver starts the same id at most once, ever."""

    id: str  # "<run id>.<attempt>"
    run: str
    attempt: int
    nonce: str
    fence: int
    command: tuple[str, ...]  # argv; a first element "{python}" stands for the environment's interpreter
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)  # variables too; never in a plan's text or a handle
    # Secrets for run.get_secret(), passed by a file descriptor. A job that is only planned has names without values.
    granted: Mapping[str, SecretStr | None] = field(default_factory=dict)
    environment: EnvironmentSpec = EnvironmentSpec(interpreter="python3")
    bundle: Bundle | None = None
    resources: Resources = Resources()
    container: Container | None = None  # made from the environment's image
    time_limit: timedelta | None = None
    grace: timedelta = timedelta(seconds=30)
    watch: tuple[str, ...] = ("logs",)  # directories of the source tree whose files are read while they grow
    log_cap: int = 1 << 30  # bytes of one log file that are kept on the machine
    build_limit: timedelta = timedelta(hours=6)  # for building its environment
    distribution: Distribution | None = None  # how its processes are launched, if it has several
    allocation: Allocation | None = None  # its share of the target; None while it is only planned or pre-staged


@dataclass(frozen=True, slots=True)
class Plan:
    """Exactly what start() will send. `text` renders it for people and golden tests, without secrets."""

    job: Job
    describe: Callable[[], str] = field(compare=False, repr=False)

    @property
    def text(self) -> str:
        return self.describe()


@dataclass(frozen=True, slots=True)
class Handle:
    """Receipt for a started job. Stored with the run: at most 4 KB of JSON, and no secrets.

    A job is identified by its id and its nonce. If another server has a job with the same id and another nonce on the
    target, the driver treats that job as unknown.
    """

    kind: str
    native_id: str
    nonce: str  # the job's; stored with the attempt, not in the row of the handle
    version: int = 1
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sending:
    """Progress of a start: bytes that the target has received, and the total. A total of 0 means: still connecting."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class RunFile:
    """File of a run folder. `digest` is set once the file is final."""

    path: str
    size: int
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """Result of a check: whether a job could start now, and the inventory (cores, memory_mb, disk_free_mb ...)."""

    ok: bool
    message: str
    inventory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileGrew:
    """Event: a file of the run folder has new bytes."""

    path: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class JobChanged:
    """Event: a job entered another phase or stage. Without an observation, the server calls observe()."""

    observation: Observation | None = None


Event = FileGrew | JobChanged


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of the machine or service that answered at an address, read before any credential is sent to it."""

    pin: str  # compared byte by byte from now on: an SSH host key, the certificate of a cluster
    shown_as: str  # how people compare it: "SHA256:…"
    what: str = "key"  # what it is called: "host key"
    how_to_compare: str = ""  # a command that prints it on the machine itself
    details: Mapping[str, Any] = field(default_factory=dict)


class Secrets(Protocol):
    """Key store, as drivers see it. A driver reads a secret when it needs the value, and does not keep it."""

    def get(self, name: str) -> SecretStr:
        """The value of a secret, by its name. NotFound if there is none. The server audits each use."""
        ...


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of the server, to which the requests of scripts are relayed from machines that cannot connect to it."""

    id: str  # 16 hexadecimal digits; the same for all servers of one store, at any time
    url: str  # that scripts use
    host: str  # where it listens, as seen from itself
    port: int
    certificate: str = field(default="", repr=False)  # in PEM, if it speaks TLS; some keep the key in the same file


class ConnectionPool(ABC):
    """Long-lived connections, shared by all drivers of a server. The drivers themselves are built anew for each use."""

    server: ServerAddress | None = None

    @abstractmethod
    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """The connection with that key. Calls `make` if there is none, or if it is broken (`is_open` is false).

        After failures it raises the last error at once, until the back-off delay has passed.
        """

    @abstractmethod
    def reset_backoff(self, key: str) -> None:
        """Let the next get() connect at once: a user asked for it."""

    @abstractmethod
    def drop(self, key: str) -> None:
        """Close the connection with that key, and forget its failures."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""


def _ignore(sending: Sending) -> None:
    pass


@dataclass(frozen=True, slots=True)
class OtherTarget:
    """Configuration and pin of another target of the workspace: a jump host."""

    config: Mapping[str, Any]
    pin: str | None = None


def _unknown(name: str) -> OtherTarget:
    raise NotFound(f"There is no target {name}.")


def _as_found(address: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class ThisComputer:
    """Resources of the server's own computer that are for runs."""

    cores: float = 1.0
    memory_mb: int = 1024
    gpus: int = 0


def _no_nodes(name: str) -> list[Node]:
    return []


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What the server tells a driver: its permissions, and functions to look up addresses, targets and nodes."""

    # Whether drivers may use files of the account that runs the server (~/.ssh). Not on a server that people share.
    reads_user_files: bool = True
    # Resolves a host name to an address that may be connected to, else raises. None: leave it to the system resolver.
    resolve: Callable[[str], str | None] = _as_found
    target: Callable[[str], OtherTarget] = _unknown  # another target of the workspace, by its name
    # Part of connection keys: the pool is shared by all workspaces, the credentials of one are not for the others.
    workspace: str = ""
    # The folder of the server: the default for targets on its own computer.
    folder: Path | None = None
    computer: ThisComputer = ThisComputer()  # what the server gives to runs of its own computer
    nodes: Callable[[str], list[Node]] = _no_nodes  # the nodes of a Scalable target, by its name


class Driver(ABC, Generic[C]):
    """Runs jobs on one target. Built anew for each use; long-lived connections are in the server's `connections`.

    Methods are called from several threads, and each may be called again after it succeeded or failed. If the backend
    cannot be reached, a method raises TargetUnreachable: it never guesses the state of a job.
    """

    kind: ClassVar[str]
    title: ClassVar[str] = ""  # what one such target is called, as in "Compute cluster"; by default the kind
    group: ClassVar[TargetGroup | None] = None  # by default "attached", or "instances" for managed ones
    config_model: ClassVar[type[TargetConfig]]
    features: ClassVar[Features] = Features()
    # Settings that can be changed later. The others are fixed when the target is attached or created.
    mutable_settings: ClassVar[frozenset[str]] = frozenset()
    # Keys of the inventory that become outdated when one of these settings changes.
    checked_inventory: ClassVar[frozenset[str]] = frozenset()
    context: DriverContext = DriverContext()
    is_this_computer: ClassVar[bool] = False  # its runs use cores, memory and GPUs of the server's own computer
    is_internal: ClassVar[bool] = False  # for tests: not offered to users, and without a page in the docs

    def __init__(self, name: str, config: C, secrets: Secrets, connections: ConnectionPool) -> None:
        """Store the arguments. No I/O."""
        self.name = name
        self.config = config
        self.secrets = secrets
        self.connections = connections
        self.pin: str | None = None  # set by the server: the identity that was pinned when it was attached
        self.report: Callable[[Sending], None] = _ignore  # start() reports its progress to it, in the calling thread

    @abstractmethod
    def check(self) -> Health:
        """Check whether a job could start now, and list what the target has. Called on attach and on request."""

    @abstractmethod
    def plan(self, job: Job) -> Plan:
        """Render exactly what start() will send. Pure: no I/O, and equal jobs give equal plans.

        Called before a run is accepted. A job that this target can never run is refused here: SpecNotSupported.
        """

    @abstractmethod
    def start(self, plan: Plan) -> Handle:
        """Hand the job to the backend, and return without waiting for it to run.

        A second call with the same job id returns the same handle and starts nothing; after clean() it raises Conflict.
        TargetRejected if another server has a job with that id. After any other error either nothing runs, or a second
        call adopts the job that does.
        """

    def prepare(self, plan: Plan) -> None:
        """Pre-stage a job that will be started later: send files, build the environment. Optional, and a hint only.

        It executes nothing of the job. Until start(), find() and observe() do not know the job; clean() discards it.
        """

    def is_prepared(
        self, environment: EnvironmentSpec, container: Container | None, files: Sequence[SnapshotFile] = ()
    ) -> bool:
        """Whether a job with this environment could begin without building it. `files` are those an image may copy."""
        raise SpecNotSupported(f"Targets of kind {self.kind} cannot tell whether an environment is built.")

    @abstractmethod
    def find(self, job_id: str, nonce: str) -> Handle | None:
        """The handle of a job that the backend accepted with this id and nonce. Recovers the receipt of a lost start().

        None is a promise: the backend has no such job. Called before another server starts a run again, and before a
        canceled run is recorded as never started.
        """

    @abstractmethod
    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        """The state of many jobs, by one request to the backend, in the order of the handles.

        Polled, mostly with all runs of the target at once. A job that is unknown there is Phase.LOST, never ENDED.
        """

    @abstractmethod
    def stop(self, handle: Handle, grace: timedelta) -> None:
        """Request the stop and return: the target sends SIGTERM, waits `grace`, then kills the whole process tree.

        Stopping a job that has ended or is unknown is no error.
        """

    @abstractmethod
    def read(self, handle: Handle, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """At most `limit` bytes of a file of the run folder, from an offset; b"" if there is nothing (yet)."""

    @abstractmethod
    def files(self, handle: Handle) -> Iterable[RunFile]:
        """The files of the run folder that are collected: logs, metrics, uploads, outputs, status."""

    @abstractmethod
    def clean(self, handle: Handle) -> None:
        """Remove everything that start() left on the target. Twice is silent.

        Also called after a start() that failed or whose answer was lost: if that request arrives later, nothing is
        started.
        """

    def leave(self) -> None:
        """Close the connections to the target. Called when it is detached, or its address or credentials change."""

    def clock_skew(self) -> float:
        """Seconds by which the server's clock is ahead of the target's. The server corrects times of scripts by it."""
        return 0.0


class Watcher(ABC):
    """Optional: targets that push events (over a pipe, by a Kubernetes watch). All others are polled by observe()."""

    @abstractmethod
    def watch(self, sink: Callable[[str, Event], None]) -> None:
        """Call `sink(native_id, event)` for each event from now on. Returns at once; a second call replaces the sink.

        The driver may call the sink from any thread; the sink does not block. After a reconnect the driver sends
        JobChanged for every job that it watches, since events may have been lost.
        """


@dataclass(frozen=True, slots=True)
class CachedEnvironment:
    """Environment in the cache of a target."""

    digest: str
    size: int
    idle: timedelta  # since a run last used it


class EnvironmentCache(ABC):
    """Optional: a target that caches the environments that it builds for runs."""

    @property
    def is_servers_own(self) -> bool:
        """Whether the cache is in the server's own folder, which its targets there share: it is cleaned up once."""
        return False

    @abstractmethod
    def environments(self) -> list[CachedEnvironment]:
        """All cached environments."""

    @abstractmethod
    def evict(self, digest: str, idle: timedelta) -> bool:
        """Delete an environment that no run has used for `idle`. False if it was not deleted."""


@dataclass(frozen=True, slots=True)
class WorkspaceCredential:
    """Credential that a workspace generates once and uses for all its targets of a kind: an SSH key pair."""

    secret: str  # its name in the key store
    make: Callable[[], SecretStr]
    public: Callable[[SecretStr, str], str]  # (secret, workspace name) -> the public half, to install on targets


class Attachable(ABC):
    """Optional: a target that exists already and is attached by an address and credentials.

    While a target is being attached, the server builds the driver with the new configuration, and
    `secrets.get("target/NAME/WHAT")` returns the secrets of the request, which are not stored yet.
    """

    credentials_model: ClassVar[type[Credentials]] = NoCredentials
    # Settings that must stay, with the pin, while runs are on the target: with others its jobs are not found again.
    identity_settings: ClassVar[frozenset[str]] = frozenset()
    workspace_credential: ClassVar[WorkspaceCredential | None] = None

    @abstractmethod
    def probe(self) -> Identity | None:
        """Read the identity at endpoint(). Called before any credential is sent, to show and pin it.

        None if this kind pins nothing. TargetUnreachable if there is no answer.
        """

    @abstractmethod
    def location(self) -> str:
        """Where the target is, as shown in lists, the audit log and the events of runs: "jane@10.0.0.7"."""

    def left_at(self) -> str:
        """Where the folders of unfinished runs stay after a forced detach: "jane@10.0.0.7:~/.windlass/ssh"."""
        return self.location()

    def endpoint(self) -> str:
        """Address that probe() connects to: "10.0.0.7:22". What was pinned for it is expected there again."""
        return self.location()

    def depends_on(self) -> tuple[str, ...]:
        """Names of other targets of the workspace that this one needs: a jump host. They cannot be detached first."""
        return ()

    def accept(self, given: Credentials) -> tuple[TargetConfig, Mapping[str, SecretStr]]:
        """Validate the credentials of an attach request. Returns the configuration and the secrets to store, by name
        (WHAT of target/NAME/WHAT).

        InvalidRequest for contradictions. CredentialsNeeded names the missing fields, for which the command line
        prompts. No network I/O.
        """
        return self.config, given.values()  # type: ignore[attr-defined]

    def uses_workspace_credential(self) -> bool:
        """Whether this target is opened by the workspace's own credential."""
        return False

    def enroll(self, public: str) -> None:
        """Install the workspace's public credential on the target, by the secrets of the request. Idempotent."""
        raise NotImplementedError

    def enrollment_problem(self, public: str) -> Mapping[str, str]:
        """Problem to report while the target does not accept the workspace's credential: {"message": …, "fix": …}."""
        return {"message": f"{self.location()} does not accept the workspace's credential yet.", "fix": public}

    @classmethod
    def read_pin(cls, text: str) -> str:
        """Parse an identity that a user gave, into the form of `Identity.pin`. InvalidRequest if it is not one."""
        return text

    @classmethod
    def show_pin(cls, pin: str) -> str:
        """Format a pin as people compare it, like `Identity.shown_as`."""
        return pin

    def explain(self, error: WindlassError) -> WindlassError:
        """Return the error, with a hint that fits the login method of this target."""
        return error


class ProvisioningState(StrEnum):
    """States of a managed target, by Azure's names."""

    CREATING = "Creating"
    UPDATING = "Updating"
    DELETING = "Deleting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Progress of a create, update or delete operation on a managed target."""

    state: ProvisioningState
    message: str = ""


class Managed(ABC):
    """Optional: a target that the server creates and deletes. Its row exists before the target does, and after it.

    Calls are repeated, also by a restarted server, until they return Succeeded or Failed or raise an error that is not
    transient (TargetRejected). Where several servers share a database, two may call at the same time.
    """

    credentials_model: ClassVar[type[Credentials]] = NoCredentials

    @abstractmethod
    def create(self) -> Provisioning:
        """Begin or continue to create the target. Returns at once; called again until it is Succeeded or Failed."""

    @abstractmethod
    def delete(self) -> Provisioning:
        """Begin or continue to delete the target and everything that create() made. Succeeded: nothing is left.

        Deleting a target that was never created, or is gone, succeeds.
        """

    def update(self, before: Mapping[str, Any]) -> Provisioning:
        """Begin or continue to apply changed settings (`mutable_settings`). `before` is the previous configuration."""
        return Provisioning(ProvisioningState.SUCCEEDED)

    def location(self) -> str:
        """Where the target is, as shown in lists and the audit log."""
        return ""


class NodeState(StrEnum):
    """States of a node, by Azure's names."""

    IDLE = "idle"
    RUNNING = "running"
    PREPARING = "preparing"
    LEAVING = "leaving"
    PREEMPTED = "preempted"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Node:
    """Node of a target: a machine, or a share of one."""

    id: str
    state: NodeState
    resources: Mapping[str, Any] = field(default_factory=dict)  # cores, memory_mb, gpus
    runs: tuple[str, ...] = ()
    message: str = ""
    created_at: datetime | None = None  # None: not known
    idle_since: datetime | None = None  # of an idle node


class HasNodes(ABC):
    """Optional: a target that consists of nodes, managed or attached."""

    @abstractmethod
    def nodes(self) -> list[Node]:
        """The nodes that exist now. TargetUnreachable if that is not known."""


class NodeSource(ABC):
    """Creates and deletes the nodes of a cluster.

    Both calls are idempotent by the node's id, which the server chooses: the row of a node exists before the node does,
    and after it. A call that raised may have succeeded all the same; the server repeats it, or calls delete_node().
    """

    @abstractmethod
    def create_node(self, id: str) -> bool:
        """Begin or continue to create a node. Called again until it returns True: the node takes runs.

        TargetRejected if it can never be created.
        """

    @abstractmethod
    def delete_node(self, id: str) -> None:
        """Delete a node. Deleting one that does not exist is no error."""

    @abstractmethod
    def nodes(self) -> list[str]:
        """The ids of all nodes that exist or are being created.

        The server deletes nodes that have no row, and treats a node that has a row and is not in this list as gone.
        """


@dataclass(frozen=True, slots=True)
class NodeSize:
    """Size of a cluster's nodes: what a node counts for in accounting, and the most that its runs may use."""

    cores: float
    memory_mb: int
    gpus: int
    limit_cores: float
    limit_memory_mb: int
    note: str = ""  # how it falls short of the requested size


class Scalable(HasNodes):
    """Optional: a managed target that the server scales: it creates nodes for queued runs, and deletes idle ones."""

    @abstractmethod
    def node_source(self) -> NodeSource:
        """The source that creates and deletes the nodes of this target."""

    @abstractmethod
    def node_size(self) -> NodeSize:
        """The size of each node."""

    @abstractmethod
    def scale(self) -> tuple[int, int, float]:
        """The minimum and maximum number of nodes, and the seconds after which an idle node is deleted."""

    def is_for_one_run(self) -> bool:
        """Whether the target was created for one run, and is deleted after it."""
        return False

    @classmethod
    def has_low_priority(cls, config: Mapping[str, Any]) -> bool:
        """Whether nodes of a target with these settings may be preempted for runs of other targets."""
        return False


class Claims(ABC):
    """Optional: targets whose scheduler may start the same job twice, on file systems that do not see each other.

    Each instance of a job (a pod by its UID, a queue's job by its id and restart count) waits until the server allows
    it to execute. The server commits the owner of the attempt by compare-and-set, then allows that instance and
    refuses the others. While the script does not run, it asks for waiting instances again.
    """

    @abstractmethod
    def waiting(self, handles: Sequence[Handle]) -> list[tuple[str, ...]]:
        """The instances that wait for permission, for each handle, by one request to the backend."""

    @abstractmethod
    def allow(self, handle: Handle, instance: str) -> None:
        """Let this instance execute: it is committed as the owner of the attempt. Twice is silent."""

    @abstractmethod
    def refuse(self, handle: Handle, instance: str, owner: str) -> None:
        """End this instance without executing anything: another one owns the attempt. Twice is silent."""


CHANNEL_WINDOW = 1 << 18  # bytes in one direction of a channel that the other side has not confirmed


@dataclass(frozen=True, slots=True)
class ChannelRequest:
    """What a channel leads to: a port if there is one, else a command, else a shell."""

    command: tuple[str, ...] = ()
    port: int | None = None  # of 127.0.0.1, as programs there see it
    size: tuple[int, int] | None = None  # columns and rows of the terminal; None: the command gets pipes
    term: str = ""  # the terminal's type
    rank: int | None = None  # of a distributed run: with the variables of that rank


@dataclass(frozen=True, slots=True)
class ChannelEnd:
    """How a channel ended: the exit code of its command, or a message."""

    exit_code: int | None = None
    message: str = ""


class ChannelSink(Protocol):
    """Gets what comes out of a channel, from any thread, one call at a time. Does not block."""

    def receive(self, data: bytes, is_error: bool) -> None:
        """Output; `is_error`: of standard error. Without confirmation at most about CHANNEL_WINDOW bytes come."""

    def accept(self, count: int) -> None:
        """The channel took so many bytes of input: as many more may be sent."""

    def end(self, end: ChannelEnd) -> None:
        """The channel has ended, or the connection to the target broke; nothing follows."""


class Channel(ABC):
    """An open channel. Calls after its end are ignored; they raise TargetUnreachable if the connection breaks."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send input: at first CHANNEL_WINDOW bytes, then as many as were accepted."""

    @abstractmethod
    def end_input(self) -> None:
        """No input follows."""

    @abstractmethod
    def resize(self, columns: int, rows: int) -> None: ...

    @abstractmethod
    def confirm(self, count: int) -> None:
        """So many bytes of output were passed on: as many more may come."""

    @abstractmethod
    def close(self) -> None:
        """End the channel: every process that it has started is killed. The sink gets its end."""


class Interactive(ABC):
    """Optional: targets where members can open a shell, a command or a TCP connection.

    A command has the account, the working directory, the variables and the limits of the job; one of a job in a
    container is in that container. It neither belongs to the job nor keeps it alive: it is killed when the job ends,
    when its channel is closed, and when the connection to the target breaks.
    """

    @abstractmethod
    def open_channel(self, handle: Handle | None, request: ChannelRequest, sink: ChannelSink) -> Channel:
        """Open a channel where that job runs; without a handle, on the machine of the target.

        Conflict if the job does not run now. A command that cannot be executed ends its channel with a message.
        """
