"""The contract between the server and a kind of compute. Its twenty laws are tests: tests/contract/laws.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, BinaryIO, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, SecretStr

from windlass.core.entities import Container, EnvironmentSpec, Resources, SnapshotFile
from windlass.core.errors import NotFound, SpecNotSupported
from windlass.core.states import Observation, Phase

__all__ = [
    "Attachable", "Bundle", "Driver", "Event", "FileSeen", "Features", "Handle", "Health", "Identity", "Job",
    "Keeper", "Kept", "Links", "Observation", "Phase", "Plan", "Secrets", "Sending", "ServerAddress", "Surroundings",
    "TargetConfig", "Watcher",
]  # fmt: skip


class TargetConfig(BaseModel):
    """What a user may set on a target of this kind. Its schema feeds CLI options, the studio's form and the docs."""

    model_config = ConfigDict(extra="forbid", frozen=True)


C = TypeVar("C", bound=TargetConfig)


@dataclass(frozen=True, slots=True)
class Features:
    """What a kind can do. What is not declared here is refused by plan()."""

    containers: bool = False
    gpus: bool = False
    multi_node: bool = False
    built_environments: bool = False
    calls_home: bool = False  # whether scripts there reach the server by themselves; else they are relayed
    claim: str = "folder"  # or "server", where a scheduler may start the same job on another file system


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
class FileSeen:
    """A file of the run folder. `digest` is there once the file is final."""

    path: str
    size: int
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a job could start now, and what the target offers (cores, memory_mb, python, disk_free_mb ...)."""

    ok: bool
    message: str
    offers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """An unasked-for word from a target: `grew` (a file has new bytes) or `changed` (to what is `seen`; else ask)."""

    kind: str
    path: str = ""
    size: int = 0
    seen: Observation | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answered at an address, before any credential was sent there."""

    host_key: str  # "ssh-ed25519 AAAA…"
    fingerprint: str  # "SHA256:…", as people compare it
    accepts: tuple[str, ...] = ()  # ways to log in


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


class Links(ABC):
    """Long-lived connections, owned by the server and handed to drivers, which are built anew for each use."""

    server: ServerAddress | None = None

    @abstractmethod
    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """The connection of that key, made if there is none or if it is broken (`is_open` is false)."""

    @abstractmethod
    def hurry(self, key: str) -> None:
        """Who asks for it next does so on purpose, and does not wait until it is tried again."""

    @abstractmethod
    def drop(self, key: str) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


def _ignore(sending: Sending) -> None:
    pass


def _unknown(name: str) -> Mapping[str, Any]:
    raise NotFound(f"There is no target {name}.")


def _as_found(address: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a server lets its drivers do, and what they may ask it."""

    # Where people share a server, the files of the account that it runs by are not for its users.
    reads_user_files: bool = True
    # The address that a name stands for, if that may be connected to (else it raises); None: as the system finds it.
    resolve: Callable[[str], str | None] = _as_found
    config_of: Callable[[str], Mapping[str, Any]] = _unknown  # of another target of the workspace
    # Links are shared by all workspaces. What is open by the credentials of one is not for the others.
    workspace: str = ""


class Driver(ABC, Generic[C]):
    """Runs jobs on one target. Built for each use; the long-lived connections are the server's `links`.

    Calls come from several threads. Every method is safe to repeat. A backend that cannot be
    reached raises TargetUnreachable; a driver never answers for a backend it did not hear.
    """

    kind: ClassVar[str]
    config_model: ClassVar[type[TargetConfig]]
    features: ClassVar[Features] = Features()
    surroundings: Surroundings = Surroundings()
    is_internal: ClassVar[bool] = False  # for tests: not offered to users, and without a page in the docs

    def __init__(self, name: str, config: C, secrets: Secrets, links: Links) -> None:
        """Store the arguments. No I/O."""
        self.name = name
        self.config = config
        self.secrets = secrets
        self.links = links
        self.report: Callable[[Sending], None] = _ignore  # called by a start that takes long, in its thread

    @abstractmethod
    def check(self) -> Health:
        """Say whether a job could start now, and what the target offers. Used by attach and studio."""

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
    def files(self, handle: Handle) -> Iterable[FileSeen]:
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
    """Optional: targets that tell (a pipe, a Kubernetes watch); the others are asked by observe()."""

    @abstractmethod
    def watch(self, sink: Callable[[str, Event], None]) -> None:
        """From now on call `sink(native_id, event)` on news. Returns at once; calling it again replaces the sink.

        The sink may be called from any thread and must not block. After the connection broke and was made again,
        `changed` is told for every job still known there.
        """


@dataclass(frozen=True, slots=True)
class Kept:
    """An environment that a target keeps, by its digest."""

    digest: str
    size: int
    idle: timedelta  # since somebody last used it


class Keeper(ABC):
    """Optional: a target that keeps what was built for a run, for those that come after it."""

    @abstractmethod
    def kept(self) -> list[Kept]: ...

    @abstractmethod
    def forget(self, digest: str, idle: timedelta) -> bool:
        """Remove it, if nobody has used it for that long. False if it is still there."""


class Attachable(ABC):
    """Optional: a target that exists without us and is attached by an address and credentials."""

    @abstractmethod
    def identify(self) -> Identity:
        """Who is there. Asked before anything is sent, so that its key can be shown and pinned."""

    @abstractmethod
    def install_key(self, public_key: str) -> None:
        """Let that key in from now on, by the credentials that are good already. Twice is silent."""
