"""The audit log of a workspace."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.codec import format_time
from windlass.server.api.views import Time
from windlass.server.http.parameters import WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.store.access.audit import AuditRecord

TAG = "audit"

AUDIT = "/workspaces/{workspace}/audit"
Limit = Annotated[int, Field(ge=1, le=1000)]
Number = Annotated[int, Field(ge=1, le=1 << 53)]


class EntryView(TypedDict):
    number: int
    at: Time
    principal: str
    act: str
    object: str
    details: dict[str, Any]
    digest: str


class AuditPage(TypedDict):
    entries: list[EntryView]
    next: int | None


class ChainView(TypedDict):
    is_whole: bool
    count: int
    digest: str
    broken_at: int | None


@route("GET", AUDIT, "audit.read", answers=AuditPage)
def find(request: ApiRequest, workspace: WorkspaceName, limit: Limit = 100, before: Number | None = None) -> Response:
    """List entries, the newest first. `next`, if there may be more, is the `before` of the following page."""
    entries = request.context.store.audit.list(workspace, limit, before)
    following = entries[-1].pk if len(entries) == limit else None
    return json_response({"entries": [_view(entry) for entry in entries], "next": following})


@route("GET", f"{AUDIT}/chain", "audit.read", answers=ChainView)
def verify(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """Verify the hash chain of all workspaces' entries: the digest of each covers the digest of the one before."""
    chain = request.context.store.audit.verify()
    found = {"is_whole": chain.is_whole, "count": chain.count, "digest": chain.digest, "broken_at": chain.broken_at}
    return json_response(found)


def _view(entry: AuditRecord) -> EntryView:
    return {
        "number": entry.pk,
        "at": format_time(entry.at),
        "principal": entry.principal,
        "act": entry.act,
        "object": entry.object,
        "details": dict(entry.details),
        "digest": entry.digest,
    }
