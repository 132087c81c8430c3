"""The summary of a workspace, for its members."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from starlette.responses import Response
from typing_extensions import TypedDict

from windlass import _version
from windlass.core.entities import Target
from windlass.server.api.views import OverdueView, overdue_view
from windlass.server.execution.overdue import find_overdue
from windlass.server.http.parameters import WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.store.catalog.targets import FAILED, UNDER_WAY

TAG = "workspaces"


class TargetHealth(TypedDict):
    """How many targets are in which condition. Each target is counted once."""

    ready: int
    changing: int  # being created, updated or deleted
    problem: int  # the last check found something wrong
    failed: int  # could not be created, updated or deleted
    quarantined: int  # showed another identity than the pinned one


class Summary(TypedDict):
    runs: dict[str, int]  # by state, without archived ones
    active_runs: int
    queued_runs: int
    targets: int
    target_health: TargetHealth
    overdue: list[OverdueView]
    version: str
    url: str


@route("GET", "/workspaces/{workspace}/summary", "workspace.read", answers=Summary)
def summarize(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """Counts of runs and targets, and the runs that should have changed their state by now (`overdue`)."""
    context = request.context
    store = context.store
    counts, targets = store.targets.counts(workspace).values(), store.targets.list(workspace)
    give_up = timedelta(hours=context.settings.give_up_hours)
    overdue = find_overdue(store, workspace, give_up, datetime.now(UTC))
    return json_response(
        {
            "runs": {state.value: count for state, count in store.runs.count_by_state(workspace).items()},
            "active_runs": sum(active for active, _ in counts),
            "queued_runs": sum(queued for _, queued in counts),
            "targets": len(targets),
            "target_health": {**dict.fromkeys(TargetHealth.__annotations__, 0), **Counter(map(_health, targets))},
            "overdue": [overdue_view(each) for each in overdue],
            "version": _version.__version__,
            "url": context.url,
        }
    )


def _health(target: Target) -> str:
    if target.quarantine is not None:
        return "quarantined"
    if target.provisioning_state == FAILED:
        return "failed"
    if target.provisioning_state in UNDER_WAY:
        return "changing"
    problems = (target.inventory or {}).get("problems", ())
    return "problem" if any(problem.get("level") != "warning" for problem in problems) else "ready"
