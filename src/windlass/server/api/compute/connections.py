"""Connections: they map Azure's coordinates of clusters, accounts, workspaces and machines to real resources."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, SecretStr
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core import coordinates
from windlass.core.codec import format_time
from windlass.core.coordinates import Coordinates
from windlass.core.entities import Connection
from windlass.core.errors import AlreadyExists, Conflict, InvalidRequest, NotFound
from windlass.drivers.connections import kinds
from windlass.drivers.connections.kinds import ConnectionCredentials, Kind
from windlass.server.api.views import Time
from windlass.server.http.parameters import Body, ConnectionName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.security.egress_policy import is_shared
from windlass.store.access.secrets import SealedCredential

TAG = "connections"

CONNECTIONS = "/workspaces/{workspace}/connections"
Part = Annotated[str, Field(max_length=coordinates.MAX_PART)]


class NewConnection(Body):
    """Coordinates are a `resource_id`, or a `resource_group` and a `resource_name`."""

    name: ConnectionName
    kind: Kind
    resource_id: Annotated[str, Field(max_length=2000)] | None = None
    subscription_id: Part = ""
    resource_group: Part = ""
    resource_name: Part = ""
    config: dict[str, Any] = {}
    credentials: ConnectionCredentials = ConnectionCredentials()
    exist_ok: bool = False


class ConnectionView(TypedDict):
    name: str
    kind: Kind
    subscription_id: str
    resource_group: str
    resource_name: str
    config: dict[str, Any]
    created_by: str
    created_at: Time
    changed_at: Time


class ConnectionList(TypedDict):
    connections: list[ConnectionView]


@route("GET", CONNECTIONS, "targets.read", answers=ConnectionList)
def find(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """List the connections by name. No route returns their credentials."""
    return json_response({"connections": [_view(each) for each in request.context.store.connections.list(workspace)]})


@route("GET", f"{CONNECTIONS}/{{name}}", "targets.read", answers=ConnectionView, errors=(404,))
def show(request: ApiRequest, workspace: WorkspaceName, name: ConnectionName) -> Response:
    return json_response(_view(request.context.store.connections.get(workspace, name)))


@route(
    "POST", CONNECTIONS, "targets.write", status=201, answers=ConnectionView, errors=(404, 409, 413), body_type="json"
)
def add(request: ApiRequest, workspace: WorkspaceName, body: NewConnection) -> Response:
    """Create a connection.

    `config` and `credentials` depend on the kind: docs/how-to/connections.md. With `exist_ok`, an existing connection
    of that name gets these settings and credentials.
    """
    shared = is_shared(request.context.settings)
    config, given = kinds.accept(body.kind, body.config, body.credentials, shared)
    at = datetime.now(UTC)
    new = Connection(body.name, body.kind, _coordinates(body), config, request.principal.name, at, at)
    try:
        known = request.context.store.connections.get(workspace, body.name)
    except NotFound:
        known = None
    if known is not None and not body.exist_ok:
        if _is_same(request, workspace, known, new, given):
            return json_response(_view(known), 201)
        raise AlreadyExists(
            f"There is a connection {body.name} already.", "Choose another name, or change it with --update."
        )
    return json_response(_view(_keep(request, workspace, known, new, given)), 201)


@route("DELETE", f"{CONNECTIONS}/{{name}}", "targets.write", status=204, errors=(404, 409))
def remove(request: ApiRequest, workspace: WorkspaceName, name: ConnectionName) -> Response:
    """Remove a connection with its credentials. Refused while targets use it."""
    request.context.store.connections.remove(workspace, name, request.principal.name)
    return Response(status_code=204)


def _coordinates(body: NewConnection) -> Coordinates:
    parts = (body.resource_group, body.resource_name, body.subscription_id)
    if body.resource_id is None:
        return coordinates.checked(*parts)
    if any(parts):
        raise InvalidRequest("A resource_id says it all: leave out subscription_id, resource_group and resource_name.")
    return coordinates.of_resource_id(body.resource_id)


def _is_same(
    request: ApiRequest, workspace: str, known: Connection, new: Connection, given: Mapping[str, SecretStr]
) -> bool:
    """Whether the existing connection equals the requested one: a request repeated after a lost response."""
    if replace(new, created_at=known.created_at, changed_at=known.changed_at) != known:
        return False
    purpose = {"connection": known.name, "for": "a comparison"}
    for what, value in given.items():
        kept = request.context.secret_store.use(
            workspace, f"connection/{known.name}/{what}", request.principal.name, purpose
        )
        if not hmac.compare_digest(kept.get_secret_value().encode(), value.get_secret_value().encode()):
            return False
    return True


def _keep(
    request: ApiRequest, workspace: str, known: Connection | None, new: Connection, given: Mapping[str, SecretStr]
) -> Connection:
    store, by = request.context.store, request.principal.name
    values = {f"connection/{new.name}/{what}": value for what, value in given.items()}
    sealed = [SealedCredential(*each) for each in request.context.secret_store.sealed(workspace, values)]
    if known is None:
        return store.connections.add(workspace, new, sealed)
    if known.kind != new.kind:
        raise Conflict(f"The connection {new.name} is of kind {known.kind}, not {new.kind}.", "Choose another name.")
    renewed = replace(new, created_by=known.created_by, created_at=known.created_at)
    return store.connections.replace(workspace, known, renewed, sealed, by)


def _view(connection: Connection) -> ConnectionView:
    place = connection.coordinates
    return {
        "name": connection.name,
        "kind": connection.kind,  # type: ignore[typeddict-item]
        "subscription_id": place.subscription,
        "resource_group": place.resource_group,
        "resource_name": place.name,
        "config": connection.config,
        "created_by": connection.created_by,
        "created_at": format_time(connection.created_at),
        "changed_at": format_time(connection.changed_at),
    }
