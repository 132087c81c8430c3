"""Compute targets: list, show, change, check."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass import drivers
from windlass.core.codec import format_time
from windlass.core.entities import Target
from windlass.core.errors import InvalidRequest
from windlass.drivers.base import Attachable, Managed, Node
from windlass.server.api.compute import managed_targets
from windlass.server.api.views import TargetView, Time, target_view
from windlass.server.clusters.quotas import cluster_check
from windlass.server.execution.target_probe import outline, valid_config
from windlass.server.http.parameters import Body, TargetName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route

TAG = "targets"

log = logging.getLogger(__name__)

TARGETS = "/workspaces/{workspace}/targets"
MOST_SLOTS = 100_000
Slots = Annotated[int, Field(ge=1, le=MOST_SLOTS)]


class TargetChange(Body):
    slots: Slots | None = None
    config: dict[str, Any] = {}


class Targets(TypedDict):
    targets: list[TargetView]


class HealthView(TypedDict):
    ok: bool
    message: str
    inventory: dict[str, Any]


class NodeView(TypedDict):
    id: str
    state: str
    resources: dict[str, Any]
    runs: list[str]
    message: str
    created_at: Time | None
    idle_since: Time | None


class Nodes(TypedDict):
    nodes: list[NodeView]


@route("GET", TARGETS, "targets.read", answers=Targets)
def find(request: ApiRequest, workspace: WorkspaceName) -> Response:
    store = request.context.store
    counts, nodes = store.targets.counts(workspace), store.node_usage.node_counts(workspace)
    return json_response({"targets": [target_view(target, counts, nodes) for target in store.targets.list(workspace)]})


@route("GET", f"{TARGETS}/{{name}}", "targets.read", answers=TargetView, errors=(404,))
def show(request: ApiRequest, workspace: WorkspaceName, name: TargetName) -> Response:
    store = request.context.store
    counts, nodes = store.targets.counts(workspace), store.node_usage.node_counts(workspace)
    return json_response(target_view(store.targets.get(workspace, name), counts, nodes))


@route("PATCH", f"{TARGETS}/{{name}}", "targets.write", answers=TargetView, errors=(404, 409, 413), body_type="json")
def change(request: ApiRequest, workspace: WorkspaceName, name: TargetName, body: TargetChange) -> Response:
    """Change the slots or the settings of a target.

    `slots`: how many runs may be active at a time, null for no limit; queued runs start as soon as there is a slot.
    `config`: only settings of the kind that may change (`mutable_settings`).
    """
    context = request.context
    target = context.store.targets.get(workspace, name)
    changes: dict[str, Any] = {"slots": body.slots} if "slots" in body.model_fields_set else {}
    if body.config:
        changes |= _changes(request, target, body.config)
    if changes:
        check = cluster_check(name, changes["config"]) if "config" in changes else None
        target = context.store.attachments.change(
            workspace, target, changes, request.principal.name, "target.change", check
        )
    if body.config:
        context.targets.forget(workspace, name)
    if "slots" in changes:
        context.reconciler.admit(workspace, name)
    return json_response(target_view(target, context.store.targets.counts(workspace)))


def _changes(request: ApiRequest, target: Target, settings: dict[str, Any]) -> dict[str, Any]:
    """The columns that change with these settings; an inventory of the former ones is dropped."""
    kind = drivers.load(target.kind)
    for key in settings:
        if key not in kind.mutable_settings:
            raise InvalidRequest(
                f"The setting {ascii(key[:60])} of a target is not changed in place; these are: "
                f"{', '.join(sorted(kind.mutable_settings)) or 'none'}.",
                f"Attach it anew: windlass compute attach {target.kind} {target.name} … --update",
            )
    whole = {**target.config, **settings}
    valid = valid_config(target.kind, whole)
    config = {key: valid[key] for key in whole}
    changes: dict[str, Any] = {"config": config}
    if target.inventory is not None:
        kept = {key: value for key, value in target.inventory.items() if key not in kind.checked_inventory}
        changes["inventory"] = kept
    if issubclass(kind, Managed):
        changes |= managed_targets.begin_update(target, config)
    driver = outline(replace(target, config=config))
    if isinstance(driver, Attachable) and driver.depends_on() != target.depends_on:
        changes["depends_on"] = driver.depends_on()
    return changes


@route("POST", f"{TARGETS}/{{name}}/check", "targets.use", answers=HealthView, errors=(404, 502, 503))
def check(request: ApiRequest, workspace: WorkspaceName, name: TargetName) -> Response:
    """Check whether a run could start on a target now; its inventory is stored."""
    health = request.context.targets.check(workspace, name)
    request.context.store.targets.update(workspace, name, inventory=dict(health.inventory))
    return json_response({"ok": health.ok, "message": health.message, "inventory": dict(health.inventory)})


@route("GET", f"{TARGETS}/{{name}}/nodes", "targets.read", answers=Nodes, errors=(404, 409, 422, 502, 503))
def nodes(request: ApiRequest, workspace: WorkspaceName, name: TargetName) -> Response:
    """The current nodes of a target of a kind with nodes (`has_nodes`)."""
    found = request.context.targets.nodes(workspace, name)
    return json_response({"nodes": [_node_view(node) for node in found]})


def _node_view(node: Node) -> NodeView:
    return {
        "id": node.id,
        "state": node.state,
        "resources": dict(node.resources),
        "runs": list(node.runs),
        "message": node.message,
        "created_at": None if node.created_at is None else format_time(node.created_at),
        "idle_since": None if node.idle_since is None else format_time(node.idle_since),
    }
