"""Registered environments by name and version, wheels of the workspace, and whether an environment is built."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import names
from windlass.core.codec import format_time
from windlass.core.entities import RunSpec
from windlass.core.errors import SnapshotIncomplete
from windlass.server.api.runs.spec_validation import FromWire, check_environment, check_files
from windlass.server.api.runs.submit import ManifestFile, read_manifest
from windlass.server.api.views import Time
from windlass.server.http.parameters import Body, Digest, EnvironmentName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.store.catalog.environments import EnvironmentVersion

TAG = "environments"

ENVIRONMENTS = "/workspaces/{workspace}/environments"
OwnName = Annotated[EnvironmentName, AfterValidator(names.own_environment_name)]
Version = Annotated[str, AfterValidator(names.environment_version)]


class NewEnvironment(Body):
    name: OwnName
    definition: dict[str, Any]
    version: Version | None = None


class NewWheel(Body):
    name: Annotated[str, AfterValidator(names.wheel_name)]
    digest: Digest
    exist_ok: bool = False


class PreparedQuery(Body):
    """`files` are needed only if the Dockerfile of the environment copies some of them."""

    spec: Annotated[RunSpec, FromWire(RunSpec)]
    files: list[ManifestFile] = []


class EnvironmentView(TypedDict):
    name: str
    version: str
    definition: dict[str, Any]
    created_by: str
    created_at: Time


class EnvironmentList(TypedDict):
    environments: list[EnvironmentView]


class WheelView(TypedDict):
    name: str
    digest: str
    size: int


class Prepared(TypedDict):
    prepared: bool


@route("GET", ENVIRONMENTS, "environments.read", answers=EnvironmentList, for_runs=True)
def find(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """List the latest version of each environment."""
    return json_response(
        {"environments": [_view(found) for found in request.context.store.environments.list(workspace)]}
    )


@route("GET", f"{ENVIRONMENTS}/{{name}}", "environments.read", answers=EnvironmentView, errors=(404,), for_runs=True)
def show(
    request: ApiRequest, workspace: WorkspaceName, name: EnvironmentName, version: Version | None = None
) -> Response:
    """One version of an environment, by default the latest."""
    return json_response(_view(request.context.store.environments.get(workspace, name, version)))


@route(
    "GET",
    f"{ENVIRONMENTS}/{{name}}/versions",
    "environments.read",
    answers=EnvironmentList,
    errors=(404,),
    for_runs=True,
)
def versions(request: ApiRequest, workspace: WorkspaceName, name: EnvironmentName) -> Response:
    """All versions of an environment, the latest first."""
    return json_response(
        {"environments": [_view(each) for each in request.context.store.environments.versions(workspace, name)]}
    )


@route(
    "POST", ENVIRONMENTS, "environments.write", answers=EnvironmentView, errors=(404, 409, 413, 507), body_type="json"
)
def register(request: ApiRequest, workspace: WorkspaceName, body: NewEnvironment) -> Response:
    """Register a version, which never changes. Without `version`: the next number, or the latest if it is equal."""
    by, environments = request.principal.name, request.context.store.environments
    return json_response(_view(environments.register(workspace, body.name, body.definition, by, body.version)))


@route(
    "POST",
    "/workspaces/{workspace}/wheels",
    "environments.write",
    answers=WheelView,
    errors=(404, 409, 413, 507),
    body_type="json",
)
def keep_wheel(request: ApiRequest, workspace: WorkspaceName, body: NewWheel) -> Response:
    """Register uploaded bytes as a wheel of the workspace, for environments to refer to."""
    store = request.context.store
    size = store.blobs.sizes([body.digest])[body.digest]
    if size is None:
        raise SnapshotIncomplete(
            f"The server does not have the bytes of {body.name}.", "Put them first.", {"missing": [body.digest]}
        )
    kept, _ = store.environments.keep_wheel(
        workspace, body.name, body.digest, size, request.principal.name, body.exist_ok
    )
    return json_response({"name": kept.name, "digest": kept.digest, "size": kept.size})


@route(
    "POST",
    "/workspaces/{workspace}/prepared",
    "targets.use",
    answers=Prepared,
    errors=(404, 413, 422, 502, 503),
    body_type="json",
)
def is_prepared(request: ApiRequest, workspace: WorkspaceName, body: PreparedQuery) -> Response:
    """Whether a run of this specification would start on its target without building an environment first."""
    files = read_manifest(body.files)
    check_files(files)
    check_environment(body.spec.environment)
    names.target_name(body.spec.target)
    return json_response({"prepared": request.context.targets.is_prepared(workspace, body.spec, files)})


def _view(found: EnvironmentVersion) -> EnvironmentView:
    return {
        "name": found.name,
        "version": found.version,
        "definition": dict(found.definition),
        "created_by": found.created_by,
        "created_at": format_time(found.created_at),
    }
