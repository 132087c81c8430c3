"""Experiments: named series of runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.entities import Experiment
from windlass.server.api.views import ExperimentView, experiment_view
from windlass.server.http.parameters import Body, ExperimentName, TagKey, TagValue, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.store import RunCounts

TAG = "experiments"

EXPERIMENTS = "/workspaces/{workspace}/experiments"


class NewExperiment(Body):
    name: ExperimentName


class ExperimentChange(Body):
    tags: Annotated[dict[TagKey, TagValue], Field(max_length=1000)] | None = None
    archived: bool | None = None


class Experiments(TypedDict):
    experiments: list[ExperimentView]


@route("GET", EXPERIMENTS, "runs.read", answers=Experiments)
def find(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """The experiments, with counts of their runs."""
    store = request.context.store
    counts = store.runs.count_by_experiment(workspace)
    found = store.experiments.list(workspace)
    return json_response({"experiments": [experiment_view(e, counts.get(e.name, RunCounts())) for e in found]})


@route("POST", EXPERIMENTS, "runs.submit", answers=ExperimentView, errors=(413,), body_type="json")
def ensure(request: ApiRequest, workspace: WorkspaceName, body: NewExperiment) -> Response:
    """The experiment of that name; created if there is none."""
    return _response(request, request.context.store.experiments.ensure(workspace, body.name))


@route("GET", f"{EXPERIMENTS}/{{name}}", "runs.read", answers=ExperimentView, errors=(404,))
def show(request: ApiRequest, workspace: WorkspaceName, name: ExperimentName) -> Response:
    return _response(request, request.context.store.experiments.get(workspace, name))


@route(
    "PATCH", f"{EXPERIMENTS}/{{name}}", "experiments.write", answers=ExperimentView, errors=(404, 413), body_type="json"
)
def change(request: ApiRequest, workspace: WorkspaceName, name: ExperimentName, body: ExperimentChange) -> Response:
    """Replace the tags, archive or restore."""
    return _response(request, request.context.store.experiments.update(workspace, name, body.tags, body.archived))


@route("DELETE", f"{EXPERIMENTS}/{{name}}", "experiments.write", status=204, errors=(404, 409))
def delete(request: ApiRequest, workspace: WorkspaceName, name: ExperimentName) -> Response:
    """Only an experiment without runs can be deleted."""
    request.context.store.experiments.delete(workspace, name)
    return Response(status_code=204)


def _response(request: ApiRequest, experiment: Experiment) -> Response:
    counts = request.context.store.runs.count_of_experiment(request.workspace, experiment.name)
    return json_response(experiment_view(experiment, counts))
