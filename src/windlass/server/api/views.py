"""JSON responses: their types, for the OpenAPI document too, and the conversion of entities."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field, ValidationError
from typing_extensions import TypedDict

from windlass.core import vm_sizes
from windlass.core.codec import format_time, to_wire
from windlass.core.entities import Artifact, Event, Experiment, NodeShare, Run, RunSpec, Snapshot, Target, Workspace
from windlass.core.errors import WindlassError
from windlass.core.states import Intent, Reason, RunState
from windlass.drivers.base import Attachable, Managed
from windlass.server.execution.overdue import Overdue
from windlass.server.execution.target_probe import outline
from windlass.store import Attempt, RunCounts

log = logging.getLogger(__name__)
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class ErrorView(TypedDict):
    code: str
    message: str
    hint: str
    transient: bool
    details: dict[str, Any]


class Refusal(TypedDict):
    error: ErrorView


class RunError(TypedDict, total=False):
    code: str
    message: str


class RunView(TypedDict):
    id: str
    workspace: str
    experiment: str
    number: int
    type: str
    state: RunState
    status: str
    state_at: Time
    reason: Reason | None
    message: str
    intent: Intent
    target: str
    name: str
    description: str
    submitted_by: str
    parent: str | None
    root: str | None
    attempt: int
    version: int
    created_at: Time
    started_at: Time | None
    ended_at: Time | None
    exit_code: int | None
    signal: int | None
    snapshot: str | None
    error: dict[str, Any] | None
    usage: dict[str, Any] | None
    tags: dict[str, str | None]
    properties: dict[str, str]
    url: str
    archived_at: Time | None
    metrics: NotRequired[dict[str, Any]]  # if names were asked for
    script: NotRequired[str]  # if arguments were asked for; "" for a command, which is in the arguments
    arguments: NotRequired[list[str]]


class OverdueView(TypedDict):
    """A run that should have changed its state by `since`."""

    id: str
    experiment: str
    name: str
    state: RunState
    since: Time
    message: str


class AttemptView(TypedDict):
    number: int
    started_at: str
    ended_at: str | None
    reason: str | None
    exit_code: int | None
    signal: int | None


class ShareView(TypedDict):
    node: str
    cores: float
    memory_mb: int
    gpus: list[int]


class RunDetails(RunView):
    allocation: list[ShareView]
    spec: RunSpec | None
    target_kind: str | None
    log_files: list[str]
    events_url: str
    attempts: NotRequired[list[AttemptView]]  # of a run that was queued again


class RunPage(TypedDict):
    runs: list[RunView]
    next: str | None


class EventView(TypedDict):
    run: str
    seq: int
    at: Time
    kind: str
    state: RunState | None
    reason: Reason | None
    message: str
    data: dict[str, Any]


class FileView(TypedDict):
    path: str
    size: int
    is_live: bool
    digest: NotRequired[str]
    gap_offset: NotRequired[int]
    gap_length: NotRequired[int]


class SnapshotFileView(TypedDict):
    path: str
    digest: str
    size: int
    executable: bool


class SnapshotView(TypedDict):
    digest: str
    files: list[SnapshotFileView]


class WorkspaceView(TypedDict):
    name: str
    subscription_id: str
    resource_group: str
    location: str
    created_at: Time
    tags: dict[str, str]


class ExperimentView(TypedDict):
    name: str
    id: str
    created_at: Time
    archived_at: Time | None
    tags: dict[str, str]
    runs: int  # without archived ones, as all counts
    active_runs: int
    failed_runs: int
    last_run_at: Time | None


class TargetView(TypedDict):
    name: str
    kind: str
    config: dict[str, Any]
    created_at: Time
    is_attached: bool
    slots: int | None
    attached_by: str
    quarantine: str | None
    inventory: dict[str, Any] | None
    pin: str | None
    pin_confirmed: bool
    pin_shown_as: str | None
    location: str
    depends_on: list[str]
    provisioning_state: str
    provisioning_message: str
    active_runs: int
    queued_runs: int
    price_per_hour: float | None  # of a node, in US dollars, approximate; null if it is not known
    nodes: NotRequired[dict[str, int]]  # of targets with nodes of ours: how many are in which state


def run_view(run: Run, base_url: str) -> RunView:
    return {
        "id": run.id,
        "workspace": run.workspace,
        "experiment": run.experiment,
        "number": run.number,
        "type": run.type,
        "state": run.state,
        "status": run.status,
        "state_at": format_time(run.state_at),
        "reason": run.reason,
        "message": run.message,
        "intent": run.intent,
        "target": run.target,
        "name": run.name,
        "description": run.description,
        "submitted_by": run.submitted_by,
        "parent": run.parent,
        "root": run.root,
        "attempt": run.attempt,
        "version": run.version,
        "created_at": format_time(run.created_at),
        "started_at": _time(run.started_at),
        "ended_at": _time(run.ended_at),
        "exit_code": run.exit_code,
        "signal": run.signal,
        "snapshot": run.snapshot,
        "error": run.error,
        "usage": run.usage,
        "tags": run.tags,
        "properties": run.properties,
        "url": f"{base_url}/workspaces/{run.workspace}/runs/{run.id}",
        "archived_at": _time(run.archived_at),
    }


def overdue_view(overdue: Overdue) -> OverdueView:
    run = overdue.unfinished.run
    return {
        "id": run.id,
        "experiment": run.experiment,
        "name": run.name,
        "state": run.state,
        "since": format_time(overdue.since),
        "message": overdue.message,
    }


def share_view(share: NodeShare) -> ShareView:
    """The share of a run in one node, or in a target without nodes."""
    return {"node": share.node, "cores": share.cores, "memory_mb": share.memory_mb, "gpus": list(share.gpus)}


def event_view(event: Event) -> EventView:
    wire: EventView = to_wire(event)
    return wire


def attempt_view(attempt: Attempt) -> AttemptView:
    return {
        "number": attempt.number,
        "started_at": format_time(attempt.started_at),
        "ended_at": _time(attempt.ended_at),
        "reason": None if attempt.reason is None else attempt.reason.value,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
    }


def file_view(artifact: Artifact) -> FileView:
    view: FileView = {"path": artifact.path, "size": artifact.size, "is_live": False, "digest": artifact.digest}
    if artifact.gap_length:
        view["gap_offset"], view["gap_length"] = artifact.gap_offset, artifact.gap_length
    return view


def snapshot_view(snapshot: Snapshot) -> SnapshotView:
    wire: SnapshotView = to_wire(snapshot)
    return wire


def workspace_view(workspace: Workspace) -> WorkspaceView:
    wire: WorkspaceView = to_wire(workspace)
    return wire


def experiment_view(experiment: Experiment, counts: RunCounts) -> ExperimentView:
    return cast(ExperimentView, {**to_wire(experiment), **to_wire(counts)})


def target_view(
    target: Target, counts: Mapping[str, tuple[int, int]], nodes: Mapping[str, Mapping[str, int]] | None = None
) -> TargetView:
    active, queued = counts.get(target.name, (0, 0))
    wire: dict[str, Any] = to_wire(target)
    del wire["config_before"]
    location, pin_shown_as = _shown(target)
    shown = {
        "location": location,
        "pin_shown_as": pin_shown_as,
        "active_runs": active,
        "queued_runs": queued,
        "price_per_hour": vm_sizes.node_price(target.config),
    }
    counted = {"nodes": dict(nodes[target.name])} if nodes and target.name in nodes else {}
    return cast(TargetView, {**wire, **shown, **counted})


def _shown(target: Target) -> tuple[str, str | None]:
    """Location and pin of a target as its driver shows them. A target is listed even if its driver is missing."""
    try:
        driver = outline(target)
        location = driver.location() if isinstance(driver, (Attachable, Managed)) else ""
        if target.pin is None or not isinstance(driver, Attachable):
            return location, None
        return location, driver.show_pin(target.pin)
    except (WindlassError, ValidationError) as e:
        log.warning("target=%s cannot be described by its driver: %s", target.name, e)
        return "", target.pin


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
