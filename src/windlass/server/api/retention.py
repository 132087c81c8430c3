"""Garbage collection: lists what may be removed, and removes it on request."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.server.execution.machine_gc import KINDS, MachineGc
from windlass.server.http.parameters import Body
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route

TAG = "gc"


class Collect(Body):
    apply: bool = False


class ItemView(TypedDict):
    kind: str
    id: str
    bytes: int
    why: str


class Collected(TypedDict):
    items: list[ItemView]
    bytes: int
    applied: bool
    unanswered: list[str]


@route("POST", "/gc", "server.gc", answers=Collected, errors=(413,), body_type="json")
def collect(request: ApiRequest, body: Collect) -> Response:
    """List what the settings allow to be removed and how many bytes that frees; with `apply`, remove it.

    Nothing that a kept run needs is in the list. `unanswered` names targets (workspace/target) that did not answer in
    time: nothing is removed there.
    """
    context = request.context
    tuned = context.settings.tuned(context.store)
    targets, machine = context.targets, context.settings.home / "machine"
    machine_gc = MachineGc(context.store, machine, targets.own_environment_cache(), targets.environment_caches())
    items = [*context.store.retention.candidates(tuned.policy(), datetime.now(UTC)), *machine_gc.candidates(tuned)]
    freed = sum(item.bytes for item in items)
    if body.apply:
        freed = context.store.retention.apply([item for item in items if item.kind not in KINDS])
        for workspace in context.store.workspaces.list():
            context.event_bus.publish_change(workspace.name, None)
        freed += machine_gc.apply([item for item in items if item.kind in KINDS], tuned)
    views = [{"kind": item.kind, "id": item.id, "bytes": item.bytes, "why": item.why} for item in items]
    silent = sorted(machine_gc.unanswered)
    return json_response({"items": views, "bytes": freed, "applied": body.apply, "unanswered": silent})
