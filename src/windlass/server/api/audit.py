"""Who did what in a workspace."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.codec import format_time
from windlass.server.api.views import Time
from windlass.server.http.parameters import WorkspaceName
from windlass.server.http.request import Call, answer
from windlass.server.http.routing import route
from windlass.store.access.audit import Entry

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
def find(call: Call, workspace: WorkspaceName, limit: Limit = 100, before: Number | None = None) -> Response:
    """The newest first. `next`, where there may be more, is the `before` of the page that follows."""
    entries = call.context.store.audit.list(workspace, limit, before)
    following = entries[-1].pk if len(entries) == limit else None
    return answer({"entries": [_view(entry) for entry in entries], "next": following})


@route("GET", f"{AUDIT}/chain", "audit.read", answers=ChainView)
def verify(call: Call, workspace: WorkspaceName) -> Response:
    """Whether the rows of all workspaces are what was written: each has the digest of the one before in its own."""
    chain = call.context.store.audit.verify()
    found = {"is_whole": chain.is_whole, "count": chain.count, "digest": chain.digest, "broken_at": chain.broken_at}
    return answer(found)


def _view(entry: Entry) -> EntryView:
    return {
        "number": entry.pk,
        "at": format_time(entry.at),
        "principal": entry.principal,
        "act": entry.act,
        "object": entry.object,
        "details": dict(entry.details),
        "digest": entry.digest,
    }
