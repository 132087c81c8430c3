"""Environments by name and version, wheels that the workspace keeps, and whether an environment is built somewhere."""

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
from windlass.server.http.request import Call, answer
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


class Wish(Body):
    """`files` only where its Dockerfile copies some of them."""

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
def find(call: Call, workspace: WorkspaceName) -> Response:
    """The latest version of each."""
    return answer({"environments": [_view(found) for found in call.context.store.environments.list(workspace)]})


@route("GET", f"{ENVIRONMENTS}/{{name}}", "environments.read", answers=EnvironmentView, errors=(404,), for_runs=True)
def show(call: Call, workspace: WorkspaceName, name: EnvironmentName, version: Version | None = None) -> Response:
    """That version, or the latest."""
    return answer(_view(call.context.store.environments.get(workspace, name, version)))


@route(
    "GET",
    f"{ENVIRONMENTS}/{{name}}/versions",
    "environments.read",
    answers=EnvironmentList,
    errors=(404,),
    for_runs=True,
)
def versions(call: Call, workspace: WorkspaceName, name: EnvironmentName) -> Response:
    """All versions of one, the latest first."""
    return answer({"environments": [_view(each) for each in call.context.store.environments.versions(workspace, name)]})


@route("POST", ENVIRONMENTS, "environments.write", answers=EnvironmentView, errors=(404, 409, 413, 507), takes="json")
def register(call: Call, workspace: WorkspaceName, body: NewEnvironment) -> Response:
    """That version, which never changes; without one, the next number, unless the latest says the same: then that."""
    by, environments = call.principal.name, call.context.store.environments
    return answer(_view(environments.register(workspace, body.name, body.definition, by, body.version)))


@route(
    "POST",
    "/workspaces/{workspace}/wheels",
    "environments.write",
    answers=WheelView,
    errors=(404, 409, 413, 507),
    takes="json",
)
def keep_wheel(call: Call, workspace: WorkspaceName, body: NewWheel) -> Response:
    """Keep bytes that were put before under the name of a wheel, for environments to name them."""
    store = call.context.store
    size = store.blobs.sizes([body.digest])[body.digest]
    if size is None:
        raise SnapshotIncomplete(
            f"The server does not have the bytes of {body.name}.", "Put them first.", {"missing": [body.digest]}
        )
    kept, _ = store.environments.keep_wheel(workspace, body.name, body.digest, size, call.principal.name, body.exist_ok)
    return answer({"name": kept.name, "digest": kept.digest, "size": kept.size})


@route(
    "POST",
    "/workspaces/{workspace}/prepared",
    "targets.use",
    answers=Prepared,
    errors=(404, 413, 422, 502, 503),
    takes="json",
)
def is_prepared(call: Call, workspace: WorkspaceName, body: Wish) -> Response:
    """Whether a run of this kind would begin on its target without an environment being built first."""
    files = read_manifest(body.files)
    check_files(files)
    check_environment(body.spec.environment)
    names.target_name(body.spec.target)
    return answer({"prepared": call.context.targets.is_prepared(workspace, body.spec, files)})


def _view(found: EnvironmentVersion) -> EnvironmentView:
    return {
        "name": found.name,
        "version": found.version,
        "definition": dict(found.definition),
        "created_by": found.created_by,
        "created_at": format_time(found.created_at),
    }
