"""Models by name and version: immutable files, and metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import names
from windlass.core.codec import format_time
from windlass.core.errors import Denied, InvalidRequest, NotFound, SnapshotIncomplete
from windlass.server.api.runs.files import BYTES, RangeHeader, send_file
from windlass.server.api.runs.spec_validation import check_files
from windlass.server.api.runs.submit import ManifestFile, Properties, Tags, read_manifest
from windlass.server.api.views import Time
from windlass.server.http.parameters import Body, FilePath, ModelName, RunId, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.streaming.log_reader import Sealed
from windlass.store import Store
from windlass.store.catalog.models import Model, ModelFile, NewModel

TAG = "models"

MODELS = "/workspaces/{workspace}/models"
ONE = f"{MODELS}/{{name}}/{{version}}"
_MOST_SHOWN = 10


def _short_line(text: str) -> str:
    return names.printable("A framework", text)


Version = Annotated[int, Field(ge=1, le=10**9)]
Description = Annotated[str, Field(max_length=10_000)]
Framework = Annotated[str, Field(max_length=200), AfterValidator(_short_line)]


class Register(Body):
    """Made of `files` whose bytes were uploaded before, or of the file or folder `path` of the record of `run`."""

    name: ModelName
    files: list[ManifestFile] | None = None
    run: RunId | None = None
    path: FilePath | None = None
    description: Description = ""
    framework: Framework = ""
    framework_version: Framework = ""
    tags: Properties = {}
    properties: Properties = {}


class Change(Body):
    description: Description | None = None
    tags: Tags | None = None
    properties: Properties | None = None


class ModelFileView(TypedDict):
    path: str
    digest: str
    size: int


class ModelView(TypedDict):
    id: str
    name: str
    version: int
    run: str | None
    experiment: str | None
    description: str
    framework: str
    framework_version: str
    tags: dict[str, str]
    properties: dict[str, str]
    files: list[ModelFileView]
    created_by: str
    created_at: Time
    changed_at: Time


class ModelList(TypedDict):
    models: list[ModelView]


@route("GET", MODELS, "models.read", answers=ModelList, for_runs=True)
def find(
    request: ApiRequest,
    workspace: WorkspaceName,
    name: ModelName | None = None,
    run: RunId | None = None,
    latest: bool = False,
) -> Response:
    """List models, the latest first: of a name, of a run, or all; with `latest` only the last version of each."""
    found = request.context.store.models.list(workspace, name, run, latest)
    return json_response({"models": [_view(each) for each in found]})


@route("GET", f"{MODELS}/{{name}}", "models.read", answers=ModelView, errors=(404,), for_runs=True)
def show(request: ApiRequest, workspace: WorkspaceName, name: ModelName, version: Version | None = None) -> Response:
    """One version of a model, by default the latest."""
    return json_response(_view(request.context.store.models.get(workspace, name, version)))


@route(
    "POST",
    MODELS,
    "models.write",
    status=201,
    answers=ModelView,
    errors=(404, 409, 413, 507),
    body_type="json",
    is_large=True,
    for_runs=True,
)
def register(request: ApiRequest, workspace: WorkspaceName, body: Register) -> Response:
    """Register the next version of a model.

    It is made of `files` whose bytes were uploaded before, or of the file or folder `path` of the record of `run`.
    """
    if (body.files is None) == (body.path is None) or (body.path is not None and body.run is None):
        raise InvalidRequest("A model is made from `files`, or from a `path` of a `run`.")
    maker = body.run or request.principal.run
    run = None if maker is None else request.run(maker)
    store = request.context.store
    new = NewModel(
        body.name,
        _of_record(store, run.id, body.path) if run and body.path else _put_before(store, body.files or []),
        run.id if run else None,
        run.experiment if run else None,
        body.description,
        body.framework,
        body.framework_version,
        body.tags,
        body.properties,
    )
    return json_response(_view(store.models.register(workspace, new, request.principal.name)), 201)


@route("PATCH", ONE, "models.write", answers=ModelView, errors=(404, 409, 413, 507), body_type="json", for_runs=True)
def change(request: ApiRequest, workspace: WorkspaceName, name: ModelName, version: Version, body: Change) -> Response:
    """Change description, tags and properties of a model version.

    A tag that is null is removed; a property can be set once. The script of a run may change what its run registered.
    """
    by, models = request.principal.name, request.context.store.models
    if request.principal.run is not None and models.get(workspace, name, version).run != request.principal.run:
        raise Denied(f"The model {name}:{version} is not of the run {request.principal.run}.")
    return json_response(
        _view(models.describe(workspace, name, version, by, body.description, body.tags, body.properties))
    )


@route("DELETE", ONE, "models.write", answers=ModelView, errors=(404,))
def delete(request: ApiRequest, workspace: WorkspaceName, name: ModelName, version: Version) -> Response:
    """Delete a model version and return it. Its number is not used again."""
    return json_response(_view(request.context.store.models.delete(workspace, name, version, request.principal.name)))


@route("GET", f"{ONE}/files/{{path:path}}", "models.read", answers=BYTES, errors=(404, 416), for_runs=True)
def read(
    request: ApiRequest,
    workspace: WorkspaceName,
    name: ModelName,
    version: Version,
    path: FilePath,
    range: RangeHeader = None,
) -> Response:
    """The bytes of a file of a model version, or a range of them."""
    store = request.context.store
    for file in store.models.get(workspace, name, version).files:
        if file.path == path:
            return send_file(Sealed(store, file.path, file.size, file.digest), None, None, range)
    raise NotFound(
        f"The model {name}:{version} has no file {path}.", f"`windlass model show {name}:{version}` lists its files."
    )


def _of_record(store: Store, run: str, path: str) -> list[ModelFile]:
    """The files of a model that is made of a path of a run: their paths begin at that file or folder."""
    above = path.rpartition("/")[0]
    recorded = store.artifacts.list(run)
    found = [
        ModelFile(file.path[len(above) + 1 if above else 0 :], file.digest, file.size)
        for file in recorded
        if file.path == path or file.path.startswith(f"{path}/")
    ]
    if not found:
        there = [file.path for file in recorded]
        shown = ", ".join(there[:_MOST_SHOWN]) + (", …" if len(there) > _MOST_SHOWN else "")
        raise NotFound(
            f"Could not locate the provided model_path {path} in the set of files uploaded to the run: "
            f"{shown or 'there is none'}.",
            "What a script writes to ./outputs is there at its end; run.upload_file() adds a file at once.",
        )
    _keep_young(store, found)
    return found


def _keep_young(store: Store, files: Sequence[ModelFile]) -> None:
    """Check that the bytes exist. That also protects them from retention until the model refers to them."""
    missing = store.blobs.missing([file.digest for file in files])
    if missing:
        raise SnapshotIncomplete(
            "The bytes of the run's files were removed meanwhile.", "Put them first.", {"missing": missing}
        )


def _put_before(store: Store, manifest: Sequence[ManifestFile]) -> list[ModelFile]:
    files = read_manifest(manifest)
    check_files(files)
    if not files:
        raise InvalidRequest("A model has at least one file.")
    sizes = store.blobs.sizes([file.digest for file in files])
    missing = [file.digest for file in files if sizes[file.digest] is None]
    if missing:
        raise SnapshotIncomplete(
            "The server does not have all bytes of the model.", "Put them first.", {"missing": missing}
        )
    return [ModelFile(file.path, file.digest, sizes[file.digest] or 0) for file in files]


def _view(model: Model) -> ModelView:
    return {
        "id": f"{model.name}:{model.version}",
        "name": model.name,
        "version": model.version,
        "run": model.run,
        "experiment": model.experiment,
        "description": model.description,
        "framework": model.framework,
        "framework_version": model.framework_version,
        "tags": dict(model.tags),
        "properties": dict(model.properties),
        "files": [{"path": file.path, "digest": file.digest, "size": file.size} for file in model.files],
        "created_by": model.created_by,
        "created_at": format_time(model.created_at),
        "changed_at": format_time(model.changed_at),
    }
