"""Compute targets: named places to run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.server.call import Call, answer
from windlass.server.parameters import Body, TargetName, WorkspaceName
from windlass.server.routes import route
from windlass.server.views import TargetView, target_view

TARGETS = "/workspaces/{workspace}/targets"


class TargetChange(Body):
    slots: Annotated[int, Field(ge=1, le=100_000)] | None = None


class Targets(TypedDict):
    targets: list[TargetView]


class HealthView(TypedDict):
    ok: bool
    message: str
    offers: dict[str, Any]


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
    """How many runs may run there at a time; null for no limit. Runs that wait start as soon as there is room."""
    targets = call.context.store.targets
    target = targets.get(workspace, name)
    if "slots" in body.model_fields_set:
        target = targets.update(workspace, name, slots=body.slots)
        call.context.reconciler.admit(workspace, name)
    return answer(target_view(target, targets.counts(workspace)))


@route("POST", f"{TARGETS}/{{name}}/check", "targets.use", answers=HealthView, errors=(404, 502, 503))
def check(call: Call, workspace: WorkspaceName, name: TargetName) -> Response:
    """Whether a run could start there now, and what it offers."""
    health = call.context.reconciler.check(workspace, name)
    return answer({"ok": health.ok, "message": health.message, "offers": dict(health.offers)})


@route("GET", "/workspaces/{workspace}/kinds", "targets.read", answers=Kinds)
def kinds(call: Call, workspace: WorkspaceName) -> Response:
    """The kinds of targets, each with the JSON schema of its configuration."""
    return answer({"kinds": call.context.reconciler.kinds()})
