"""Compute targets: named places to run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.entities import Target
from windlass.core.errors import InvalidRequest
from windlass.server.call import Call, answer
from windlass.server.execution.target_probe import valid_config
from windlass.server.parameters import Body, TargetName, WorkspaceName
from windlass.server.routes import route
from windlass.server.views import TargetView, target_view
from windlass.store import Store

TARGETS = "/workspaces/{workspace}/targets"


MOST_SLOTS = 100_000
Slots = Annotated[int, Field(ge=1, le=MOST_SLOTS)]
# What may be set on a target that is there; the rest belongs to what it was attached by.
CHANGEABLE = ("python", "docker", "base_image", "network", "engine", "allow_privileged")


class TargetChange(Body):
    slots: Slots | None = None
    config: dict[str, Any] = {}


class Targets(TypedDict):
    targets: list[TargetView]


class HealthView(TypedDict):
    ok: bool
    message: str
    inventory: dict[str, Any]


class Kinds(TypedDict):
    kinds: list[dict[str, Any]]


@route("GET", TARGETS, "targets.read", answers=Targets)
def find(call: Call, workspace: WorkspaceName) -> Response:
    targets = call.context.store.targets
    counts = targets.counts(workspace)
    return answer({"targets": [target_view(target, counts) for target in targets.list(workspace)]})


@route("GET", f"{TARGETS}/{{name}}", "targets.read", answers=TargetView, errors=(404,))
def show(call: Call, workspace: WorkspaceName, name: TargetName) -> Response:
    targets = call.context.store.targets
    return answer(target_view(targets.get(workspace, name), targets.counts(workspace)))


@route("PATCH", f"{TARGETS}/{{name}}", "targets.write", answers=TargetView, errors=(404, 413), takes="json")
def change(call: Call, workspace: WorkspaceName, name: TargetName, body: TargetChange) -> Response:
    """How many runs may run there at a time (null for no limit: runs that wait start as soon as there is room), and
    settings of its kind: python, docker, base_image, network, engine, allow_privileged.
    """
    context = call.context
    target = context.store.targets.get(workspace, name)
    changes: dict[str, Any] = {"slots": body.slots} if "slots" in body.model_fields_set else {}
    if body.config:
        changes["config"] = _changed(target, body.config)
    if changes:
        target = context.store.attachments.change(workspace, target, changes, call.principal.name, "target.change")
    if body.config:
        context.targets.forget(workspace, name)
        target = _unasked(context.store, workspace, target)
    if "slots" in changes:
        context.reconciler.admit(workspace, name)
    return answer(target_view(target, context.store.targets.counts(workspace)))


def _unasked(store: Store, workspace: str, target: Target) -> Target:
    """What it offers, but for what it would have to be asked again with its new settings."""
    if target.inventory is None:
        return target
    kept = {key: value for key, value in target.inventory.items() if key not in ("docker", "missing")}
    return store.targets.update(workspace, target.name, inventory=kept)


def _changed(target: Target, changes: dict[str, Any]) -> dict[str, Any]:
    for key in changes:
        if key not in CHANGEABLE:
            raise InvalidRequest(
                f"The setting {ascii(key[:60])} of a target is not changed in place; these are: "
                f"{', '.join(CHANGEABLE)}.",
                f"Attach it anew: windlass compute attach {target.kind} {target.name} … --update",
            )
    whole = {**target.config, **changes}
    valid = valid_config(target.kind, {"root": "/", **whole})  # the server's own targets have the folder that it has
    return {key: valid[key] for key in whole}


@route("POST", f"{TARGETS}/{{name}}/check", "targets.use", answers=HealthView, errors=(404, 502, 503))
def check(call: Call, workspace: WorkspaceName, name: TargetName) -> Response:
    """Whether a run could start there now, and what it inventory."""
    health = call.context.targets.check(workspace, name)
    call.context.store.targets.update(workspace, name, inventory=dict(health.inventory))
    return answer({"ok": health.ok, "message": health.message, "inventory": dict(health.inventory)})


@route("GET", "/workspaces/{workspace}/kinds", "targets.read", answers=Kinds)
def kinds(call: Call, workspace: WorkspaceName) -> Response:
    """The kinds of targets, each with the JSON schema of its configuration."""
    return answer({"kinds": call.context.targets.kinds()})
