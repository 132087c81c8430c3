"""Parameters and results of the repository of runs, beside the entities of core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from windlass.core.entities import Allocation, Artifact, Run, RunSpec
from windlass.core.states import Reason


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to insert. Without `spec` it is interactive: its owner reports how it goes."""

    id: str
    workspace: str
    experiment: str
    type: str
    key: str | None = None  # the client's idempotency key
    body_hash: str = ""
    submitted_by: str = ""
    spec: RunSpec | None = None
    parent: str | None = None
    name: str = ""
    tags: Mapping[str, str | None] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    snapshot: str | None = None
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class ComputerCapacity:
    """All cores, memory and GPUs of a computer that can be allocated to runs."""

    machine: str
    millicores: int
    memory_mb: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """The resources of a target for runs."""

    slots: int | None = None  # runs at a time; None: no limit
    computer: ComputerCapacity | None = None  # None: only slots count
    has_nodes: bool = False  # then runs are placed on nodes that are ready, and slots do not count
    is_low_priority: bool = False  # then its nodes may be taken away for runs of other targets


@dataclass(frozen=True, slots=True)
class Leased:
    """A run with its owner's lease. The owner passes the fence with every change; `handle` is set once the job was
    started.
    """

    run: Run
    spec: RunSpec
    fence: int
    nonce: str
    handle: dict[str, Any] | None = None
    allocation: Allocation = Allocation()


# The run; whether it is new (False: an earlier request with its key made it); the lease if it may start now.
Submitted = tuple[Run, bool, Leased | None]


@dataclass(frozen=True, slots=True)
class Ending:
    """What is written together with a final state. The times are the runner's, if it reported them."""

    error: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    artifacts: Sequence[Artifact] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """A dispatched or an interactive run. `has_owner`: whether a server or a script takes care of it."""

    run: Run
    spec: RunSpec | None
    has_owner: bool
    cancel_at: datetime | None  # when its cancel was requested


@dataclass(frozen=True, slots=True)
class UncleanedAttempt:
    """An attempt that has ended and may have files or processes on its machine. Its run may be deleted by now."""

    OF_ATTEMPT: ClassVar[tuple[str, ...]] = ("number", "nonce", "handle", "reason")

    workspace: str
    target: str
    run: str
    number: int
    nonce: str
    handle: Mapping[str, Any]
    reason: Reason | None

    @property
    def key(self) -> tuple[str, int, str]:
        return self.run, self.number, self.nonce


@dataclass(frozen=True, slots=True)
class Attempt:
    number: int
    nonce: str
    handle: dict[str, Any] | None
    started_at: datetime
    ended_at: datetime | None
    reason: Reason | None
    exit_code: int | None
    signal: int | None
