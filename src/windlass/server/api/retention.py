"""What may go: shown first, removed when asked."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.server.execution.machine_gc import KINDS, MachineGc
from windlass.server.http.parameters import Body
from windlass.server.http.request import Call, answer
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


@route("POST", "/gc", "server.gc", answers=Collected, errors=(413,), takes="json")
def collect(call: Call, body: Collect) -> Response:
    """What may go by the settings, and how much that frees. Nothing that a kept run needs is among it.

    `unanswered` names machines (workspace/target) that did not answer in time: what they keep stays for now.
    """
    context = call.context
    tuned = context.settings.tuned(context.store)
    machine_gc = MachineGc(context.store, context.settings.home / "machine", context.targets.environment_caches())
    items = [*context.store.retention.candidates(tuned.policy(), datetime.now(UTC)), *machine_gc.candidates(tuned)]
    freed = sum(item.bytes for item in items)
    if body.apply:
        freed = context.store.retention.apply([item for item in items if item.kind not in KINDS])
        freed += machine_gc.apply([item for item in items if item.kind in KINDS], tuned)
    views = [{"kind": item.kind, "id": item.id, "bytes": item.bytes, "why": item.why} for item in items]
    silent = sorted(machine_gc.unanswered)
    return answer({"items": views, "bytes": freed, "applied": body.apply, "unanswered": silent})
