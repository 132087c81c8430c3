"""Tokens of the members of a workspace: create, list, revoke."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.codec import format_time
from windlass.core.errors import AlreadyExists
from windlass.server.api.views import Time
from windlass.server.http.parameters import Body, Key, MemberName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.security.secret_store import SERVER
from windlass.store import Token

TAG = "members"

TOKENS = "/workspaces/{workspace}/tokens"
# Not `admin`, the role for the whole server: owners of one workspace cannot give it.
Role = Literal["reader", "contributor", "owner"]


class NewToken(Body):
    name: MemberName
    role: Role
    days: Annotated[int, Field(ge=1, le=36500)] | None = None


class TokenView(TypedDict):
    name: str
    role: Role
    created_at: Time
    last_used_at: Time | None
    expires_at: Time | None


class GivenToken(TokenView):
    token: str


class TokenList(TypedDict):
    tokens: list[TokenView]


@route("GET", TOKENS, "tokens.read", answers=TokenList)
def find(request: ApiRequest, workspace: WorkspaceName) -> Response:
    """List the tokens of members by name, also expired ones; without those of runs and the server's own."""
    return json_response({"tokens": [_view(token) for token in request.context.store.tokens.list(workspace)]})


@route("POST", TOKENS, "tokens.write", status=201, answers=GivenToken, errors=(409, 413, 507), body_type="json")
def create(request: ApiRequest, workspace: WorkspaceName, body: NewToken, idempotency_key: Key = None) -> Response:
    """Create a token for a member, valid for so many days or until it is revoked.

    `token` is its value, which no other response has. A repeated request with the same key replaces the value.
    """
    if body.name.lower() == SERVER:
        raise AlreadyExists(f"{body.name} is the server's own name in the audit.", "Choose another name.")
    expires_at = datetime.now(UTC) + timedelta(days=body.days) if body.days else None
    tokens = request.context.store.tokens
    token, value = tokens.issue(workspace, body.name, body.role, request.principal.name, expires_at, idempotency_key)
    return json_response({**_view(token), "token": value}, 201)


@route("DELETE", f"{TOKENS}/{{name}}", "tokens.write", status=204, errors=(404, 409))
def revoke(request: ApiRequest, workspace: WorkspaceName, name: MemberName) -> Response:
    """Revoke the token of a member.

    Requests with it are refused from now on, and the streams that it opened end; on other servers of the same database
    within ten seconds. Runs that the member submitted go on.
    """
    request.authenticator.drop_revoked(request.context.store.tokens.revoke(workspace, name, request.principal.name))
    return Response(status_code=204)


def _view(token: Token) -> TokenView:
    return {
        "name": token.principal,
        "role": token.role,  # type: ignore[typeddict-item]
        "created_at": format_time(token.created_at),
        "last_used_at": format_time(token.last_used_at) if token.last_used_at else None,
        "expires_at": format_time(token.expires_at) if token.expires_at else None,
    }
