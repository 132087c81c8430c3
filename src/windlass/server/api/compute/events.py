"""What happened to a target: its creation, changes and deletion, its nodes, evictions and quarantine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.codec import format_time
from windlass.server.api.compute.targets import TARGETS
from windlass.server.api.views import Time
from windlass.server.http.parameters import TargetName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route

TAG = "target_events"


class TargetEventView(TypedDict):
    number: int
    at: Time
    kind: str
    message: str


class TargetEventPage(TypedDict):
    events: list[TargetEventView]
    next: int | None


@route("GET", f"{TARGETS}/{{name}}/events", "targets.read", answers=TargetEventPage, errors=(404,))
def find(
    request: ApiRequest,
    workspace: WorkspaceName,
    name: TargetName,
    before: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None,
    limit: Annotated[int, Field(ge=1, le=1000)] = 100,
) -> Response:
    """The latest events of a target, the newest first. `next` is the `before` of the next page, or null.

    Those of a removed target can be read for 30 days.
    """
    store = request.context.store
    found = store.target_events.list(workspace, name, limit + 1, before)
    if not found:
        store.targets.get(workspace, name)  # raises NotFound
    shown = found[:limit]
    events = [
        {"number": each.pk, "at": format_time(each.at), "kind": each.kind, "message": each.message} for each in shown
    ]
    return json_response({"events": events, "next": shown[-1].pk if len(found) > limit else None})
