"""Workspaces. One exists from the start; each has this machine as the targets `local` and `docker`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import names
from windlass.server.api.views import WorkspaceView, workspace_view
from windlass.server.clusters.computer import machine_id
from windlass.server.http.parameters import Body, TagKey, TagValue, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.settings import Settings
from windlass.store import Store

TAG = "workspaces"

DEFAULT = "default"
# Old code reads it and expects a UUID.
NO_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
LOCAL = "local"
DOCKER = "docker"


def _one_line(text: str) -> str:
    return names.printable("A workspace's description", text)


Line = Annotated[str, Field(max_length=255), AfterValidator(_one_line)]


class NewWorkspace(Body):
    name: WorkspaceName
    subscription_id: Line = ""
    resource_group: Line = ""
    location: Line = ""
    tags: Annotated[dict[TagKey, TagValue], Field(max_length=1000)] = {}
    exist_ok: bool = False


class Workspaces(TypedDict):
    workspaces: list[WorkspaceView]


def ensure_default(store: Store, settings: Settings) -> None:
    """Create the default workspace, and in every workspace the targets `local` and `docker`."""
    store.workspaces.create(DEFAULT, NO_SUBSCRIPTION, DEFAULT, LOCAL, {}, exist_ok=True)
    for workspace in store.workspaces.list():
        add_local(store, settings, workspace.name)


def add_local(store: Store, settings: Settings, workspace: str) -> None:
    """Add this machine as targets, with and without containers. Each is named like its kind."""
    there = {target.name for target in store.targets.list(workspace)}
    for name in (LOCAL, DOCKER):
        if name not in there:
            store.targets.ensure(workspace, name, name, local_config(store, settings), settings.local_slots, True)


def local_config(store: Store, settings: Settings) -> dict[str, str]:
    """The configuration of `local`. Where servers share a database, it names the machine of the server that made it."""
    return {"root": str(settings.home / "machine"), "machine": machine_id()} if store.is_shared else {}


@route("GET", "/workspaces", "workspaces.read", answers=Workspaces)
def find(request: ApiRequest) -> Response:
    """List the workspaces that the token is for."""
    seen = [w for w in request.context.store.workspaces.list() if request.principal.may_see(w.name)]
    return json_response({"workspaces": [workspace_view(workspace) for workspace in seen]})


@route(
    "POST", "/workspaces", "workspaces.create", status=201, answers=WorkspaceView, errors=(409, 413), body_type="json"
)
def create(request: ApiRequest, body: NewWorkspace) -> Response:
    context = request.context
    workspace = context.store.workspaces.create(
        body.name, body.subscription_id, body.resource_group, body.location, body.tags, body.exist_ok
    )
    add_local(context.store, context.settings, workspace.name)
    return json_response(workspace_view(workspace), 201)


@route("GET", "/workspaces/{workspace}", "workspace.read", answers=WorkspaceView, for_runs=True)
def show(request: ApiRequest, workspace: WorkspaceName) -> Response:
    return json_response(workspace_view(request.context.store.workspaces.get(workspace)))
