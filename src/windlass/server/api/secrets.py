"""The secrets of a workspace. Runs use them; no route returns a value."""

from __future__ import annotations

import base64
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.codec import format_time
from windlass.server.api.views import Time
from windlass.server.http.parameters import Body, SecretName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.security.log_redaction import is_redactable
from windlass.server.security.secret_store import LARGEST
from windlass.store.access.secrets import Secret

TAG = "secrets"

SECRETS = "/workspaces/{workspace}/secrets"
GrantedTo = Literal["runs", "named runs", "nobody"]


class NewSecret(Body):
    # The bounds are for the OpenAPI document only; the secret store validates, so that an error is a sentence.
    value: Annotated[SecretStr, Field(json_schema_extra={"minLength": 1, "maxLength": LARGEST})]
    granted_to: GrantedTo | None = None
    content_type: Annotated[str, Field(min_length=1, max_length=255, pattern="^[ -~]+$")] | None = None


class Grant(Body):
    granted_to: GrantedTo


class SecretView(TypedDict):
    name: str
    version: int
    granted_to: GrantedTo
    created_by: str
    created_at: Time
    changed_at: Time
    content_type: str | None


class KeptSecret(SecretView):
    is_masked: bool


class SecretList(TypedDict):
    secrets: list[SecretView]


class SealedSecret(TypedDict):
    workspace: str
    name: str
    version: int
    key_id: str
    sealed: str
    key_file: str


class RotationView(TypedDict):
    key_id: str
    resealed: int
    refused: list[str]
    refused_elsewhere: int


@route("GET", SECRETS, "secrets.use", answers=SecretList)
def find(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """List names, versions, times and grants of secrets. No route returns values."""
    return json_response({"secrets": [secret_view(secret) for secret in request.context.secret_store.list(workspace)]})


@route("PUT", f"{SECRETS}/{{name}}", "secrets.write", answers=KeptSecret, errors=(404, 413, 507), body_type="json")
def put(request: ApiRequest, workspace: WorkspaceName, name: SecretName, body: NewSecret) -> Response:
    """Set a secret. `granted_to`: all `runs` (the default for a new one), `named runs` only, or `nobody`.

    `content_type` describes the value to its readers; it belongs to this version.
    `is_masked` is false for a value that is too short to be masked in logs.
    """
    by = request.principal.name
    kept = request.context.secret_store.put(workspace, name, body.value, body.granted_to, by, body.content_type)
    return json_response({**secret_view(kept), "is_masked": is_redactable(body.value.get_secret_value())})


@route("PATCH", f"{SECRETS}/{{name}}", "secrets.write", answers=SecretView, errors=(404, 409, 413), body_type="json")
def grant(request: ApiRequest, workspace: WorkspaceName, name: SecretName, body: Grant) -> Response:
    """Change which runs may use a secret. Runs that were started before keep their values."""
    return json_response(
        secret_view(request.context.secret_store.grant(workspace, name, body.granted_to, request.principal.name))
    )


@route("DELETE", f"{SECRETS}/{{name}}", "secrets.write", status=204, errors=(404,))
def delete(request: ApiRequest, workspace: WorkspaceName, name: SecretName) -> Response:
    request.context.secret_store.delete(workspace, name, request.principal.name)
    return Response(status_code=204)


@route("POST", "/workspaces/{workspace}/keys/rotate", "secrets.rotate", answers=RotationView)
def rotate(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """Seal the secrets of all workspaces with a new key.

    `refused` names those that the old keys do not open; `refused_elsewhere` counts those of workspaces that the caller
    cannot see.
    """
    done = request.context.secret_store.rotate(workspace, request.principal.name)
    named = [f"{each.workspace}/{each.name}" for each in done.refused if request.principal.may_see(each.workspace)]
    refused = {"refused": named, "refused_elsewhere": len(done.refused) - len(named)}
    return json_response({"key_id": done.key_id, "resealed": done.resealed, **refused})


@route("POST", f"{SECRETS}/{{name}}/sealed", "secrets.write", answers=SealedSecret, errors=(404, 409))
def fetch(request: ApiRequest, workspace: WorkspaceName, name: SecretName) -> Response:
    """The sealed bytes of a secret, which only users with the server's key file can open."""
    secret = request.context.secret_store.fetch(workspace, name, request.principal.name)
    sealed = base64.b64encode(secret.sealed).decode("ascii")
    opener = {"key_id": secret.key_id, "sealed": sealed, "key_file": request.context.secret_store.key_file}
    return json_response({"workspace": workspace, "name": name, "version": secret.version, **opener})


def secret_view(secret: Secret) -> SecretView:
    return {
        "name": secret.name,
        "version": secret.version,
        "granted_to": secret.granted_to,  # type: ignore[typeddict-item]
        "created_by": secret.created_by,
        "created_at": format_time(secret.created_at),
        "changed_at": format_time(secret.changed_at),
        "content_type": secret.content_type,
    }
