"""Deletion of runs."""

from __future__ import annotations

from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.server.api.runs.history import RUNS
from windlass.server.http.parameters import RunId, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route

TAG = "runs"


class Deleted(TypedDict):
    deleted: list[str]


@route("DELETE", f"{RUNS}/{{id}}", "runs.write", answers=Deleted, errors=(404, 409), for_runs=False)
def delete(request: ApiRequest, workspace: WorkspaceName, id: RunId, children: bool = False) -> Response:
    """Delete a run that has ended, with its files, logs, metrics and events. Registered models keep their files.

    With `children`, all runs below it are deleted too; without, a run that has some is refused.
    """
    context, principal = request.context, request.principal
    request.run(id)
    deleted = context.store.runs.delete(workspace, id, children, principal.name, principal.check_acts_on)
    for each in deleted:
        context.store.logs.drop_all(each)
        context.event_bus.publish_change(workspace, each)
    context.reconciler.on_deleted()
    return json_response({"deleted": deleted})
