"""Server-sent events of a workspace: which runs changed, and that targets changed. Clients read their lists again."""

from __future__ import annotations

import re
import time
from typing import Annotated, Protocol

from pydantic import Field
from starlette.responses import Response

from windlass.server.http.parameters import WorkspaceName
from windlass.server.http.request import ApiRequest
from windlass.server.http.routing import route
from windlass.server.http.threads import run_in_thread
from windlass.server.streaming.event_bus import EventBus, OfWorkspace
from windlass.server.streaming.event_stream import EventStream, frame
from windlass.store import ChangePosition, Store

TAG = "streams"

# Targets are compared as often, and on a shared database the changes of other servers are read.
POLL_SECONDS = 1.0
MOST_IDS = 200  # in one event
# Between two events, while changes continue: each makes clients read their lists again.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.25, 1.0
# A new stream begins with the changes of the last seconds: the client has read its lists a moment before.
OVERLAP_SECONDS = 5.0

SHARED = "shared"
_ID = re.compile(r"([0-9a-f]{8}|shared)\.(\d{1,18})\.(\d{1,18})\.([0-9a-f]{16})", re.ASCII)


class RunChanges(Protocol):
    """The changes of runs after a position."""

    def read(self) -> list[str] | None:
        """The ids of runs that changed since the last call; None if any may have changed."""

    def position(self) -> str:
        """The position as text, the same for all servers that know these changes."""


class AnnouncedChanges:
    """Those that the event bus has announced: all there are, if no other server has the database."""

    def __init__(self, event_bus: EventBus, workspace: str, bus_id: str, position: int) -> None:
        self._id = event_bus.id
        self._changes = event_bus.changes(workspace)
        # The position of an earlier server is beyond this one's changes: any run may have changed.
        self._position = position if bus_id == self._id else -1
        if not bus_id:
            self._position = self._changes.before(OVERLAP_SECONDS)

    def read(self) -> list[str] | None:
        ids, self._position = (None, self._changes.count) if self._position < 0 else self._changes.since(self._position)
        return ids

    def position(self) -> str:
        return f"{self._id}.{self._position}.0"


class StoredChanges:
    """Those of all servers, from a shared database. Its rows of runs say nothing of metrics: those that this server has
    stored are announced, too.
    """

    def __init__(
        self, store: Store, event_bus: EventBus, workspace: str, bus_id: str, changed_at: int, entry: int
    ) -> None:
        self._runs = store.runs
        self._workspace = workspace
        self._announced = AnnouncedChanges(event_bus, workspace, "", 0)
        self._after: ChangePosition | None = ChangePosition(changed_at, entry) if bus_id == SHARED else None

    def read(self) -> list[str] | None:
        announced = self._announced.read()  # first: what is announced is committed
        after = self._after or self._runs.change_position(self._workspace, OVERLAP_SECONDS)
        changes = self._runs.changed_since(self._workspace, after)
        self._after = changes.position
        if announced is None or changes.ids is None:
            return None
        return list(dict.fromkeys([*changes.ids, *announced]))

    def position(self) -> str:
        after = self._after or ChangePosition(0, 0)
        return f"{SHARED}.{after.changed_at}.{after.entry}"


class WorkspaceCursor:
    """The position of one stream: in the changes of runs, and what the targets were like."""

    has_more = False
    is_over = False

    def __init__(self, store: Store, event_bus: EventBus, workspace: str, after: str) -> None:
        """`after` is the id of the last event that the client has, or "". An id that is not known is like one of long
        ago.
        """
        found = _ID.fullmatch(after)
        bus_id, first, second, self._fingerprint = (
            (found[1], int(found[2]), int(found[3]), found[4]) if found else ("unknown" if after else "", 0, 0, "")
        )
        self._store = store
        self._workspace = workspace
        self._runs: RunChanges = (
            StoredChanges(store, event_bus, workspace, bus_id, first, second)
            if store.is_shared
            else AnnouncedChanges(event_bus, workspace, bus_id, first)
        )
        self.pause = 0.0
        self._sent_at = 0.0

    def step(self) -> list[bytes]:
        ids, fingerprint = self._runs.read(), self._store.targets.fingerprint(self._workspace)
        have_targets_changed = fingerprint != self._fingerprint
        self._fingerprint = fingerprint
        id = f"{self._runs.position()}.{fingerprint}"
        frames = []
        if ids is None or ids:
            frames.append(frame("runs", {"ids": None if ids is None or len(ids) > MOST_IDS else ids}, id))
        if have_targets_changed:
            frames.append(frame("targets", {}, id))
        self._set_pause(bool(frames))
        return frames

    def _set_pause(self, has_sent: bool) -> None:
        """The first event comes at once, those that follow soon after it less and less often."""
        now = time.monotonic()
        if has_sent:
            self.pause = min(max(2 * self.pause, SHORTEST_PAUSE), LONGEST_PAUSE)
            self._sent_at = now
        elif now - self._sent_at >= LONGEST_PAUSE:
            self.pause = 0.0


@route("GET", "/workspaces/{workspace}/stream", "runs.read", answers="text/event-stream")
async def follow_workspace(
    request: ApiRequest, workspace: WorkspaceName, after: Annotated[str, Field(max_length=200)] = ""
) -> Response:
    """Server-sent events of a workspace, for as long as the client is connected: `runs` with the ids of runs that
    changed, were made or deleted (null: any may have), and `targets` when what is shown of them changed. Read again
    what you show. `after` is the id of the last event: the stream continues there.
    """
    context = request.context
    make = WorkspaceCursor
    cursor = await run_in_thread(
        request.authenticator.threads.requests, make, context.store, context.event_bus, workspace, after
    )
    return EventStream(request, cursor, OfWorkspace(workspace), POLL_SECONDS)
