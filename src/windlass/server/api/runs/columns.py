"""What a table of runs can show and filter by."""

from __future__ import annotations

import dataclasses

from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.server.http.parameters import Text, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route

TAG = "runs"


class RunColumns(TypedDict):
    metrics: list[str]
    parameters: list[str]  # `alpha` for an argument --alpha
    tags: list[str]
    members: list[str]
    targets: list[str]


@route("GET", "/workspaces/{workspace}/run-columns", "runs.read", answers=RunColumns)
def columns(request: ApiRequest, workspace: WorkspaceName, experiment: Text | None = None) -> Response:
    """The names of metrics, parameters and tags of the latest 500 runs, of their members and their targets."""
    return json_response(dataclasses.asdict(request.context.store.runs.columns(workspace, experiment)))
