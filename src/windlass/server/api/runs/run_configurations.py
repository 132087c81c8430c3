"""Saved run configurations of a workspace: what the studio's form of a new run starts from."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.codec import format_time, to_wire
from windlass.core.entities import RunSpec
from windlass.core.errors import InvalidRequest
from windlass.server.api.runs.spec_validation import FromWire, check_spec
from windlass.server.api.views import Time
from windlass.server.http.parameters import Body, RunConfigurationName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.store.catalog.run_configurations import SavedRunConfiguration

TAG = "run_configurations"

RUN_CONFIGURATIONS = "/workspaces/{workspace}/run-configurations"


class RunConfiguration(Body):
    content: Annotated[RunSpec, FromWire(RunSpec)]


class RunConfigurationView(TypedDict):
    name: str
    content: RunSpec
    changed_by: str
    changed_at: Time


class RunConfigurationList(TypedDict):
    run_configurations: list[RunConfigurationView]


@route("GET", RUN_CONFIGURATIONS, "runs.read", answers=RunConfigurationList)
def find(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """List the saved run configurations, by name."""
    saved = request.context.store.run_configurations.list(workspace)
    return json_response({"run_configurations": [_view(each) for each in saved]})


@route("GET", f"{RUN_CONFIGURATIONS}/{{name}}", "runs.read", answers=RunConfigurationView, errors=(404,))
def show(request: ApiRequest, workspace: WorkspaceName, name: RunConfigurationName) -> Response:
    return json_response(_view(request.context.store.run_configurations.get(workspace, name)))


@route(
    "PUT",
    f"{RUN_CONFIGURATIONS}/{{name}}",
    "runs.submit",
    answers=RunConfigurationView,
    errors=(404, 413),
    body_type="json",
)
def put(request: ApiRequest, workspace: WorkspaceName, name: RunConfigurationName, body: RunConfiguration) -> Response:
    """Save a run configuration: a run's spec without a snapshot. One of that name is replaced."""
    check_spec(body.content)
    if body.content.snapshot is not None:
        raise InvalidRequest("A run configuration has no snapshot: the source folder is chosen for each run.")
    saved = request.context.store.run_configurations.put(workspace, name, body.content, request.principal.name)
    return json_response(_view(saved))


@route("DELETE", f"{RUN_CONFIGURATIONS}/{{name}}", "runs.submit", status=204, errors=(404,))
def remove(request: ApiRequest, workspace: WorkspaceName, name: RunConfigurationName) -> Response:
    request.context.store.run_configurations.remove(workspace, name, request.principal.name)
    return Response(status_code=204)


def _view(saved: SavedRunConfiguration) -> RunConfigurationView:
    return {
        "name": saved.name,
        "content": to_wire(saved.content),
        "changed_by": saved.changed_by,
        "changed_at": format_time(saved.changed_at),
    }
