"""The tokens of a workspace's members: an owner gives them, sees who has one, and takes them back."""

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
from windlass.server.http.request import Call, answer
from windlass.server.http.routing import route
from windlass.server.security.secret_store import SERVER
from windlass.store import Token

TAG = "members"

TOKENS = "/workspaces/{workspace}/tokens"
# Not `admin`, who runs the server: the owner of one workspace is not.
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
def find(call: Call, workspace: WorkspaceName) -> Response:
    """Who has a token for the workspace, by name; also expired ones. Not those of runs, and not the server's own."""
    return answer({"tokens": [_view(token) for token in call.context.store.tokens.list(workspace)]})


@route("POST", TOKENS, "tokens.write", status=201, answers=GivenToken, errors=(409, 413, 507), takes="json")
def create(call: Call, workspace: WorkspaceName, body: NewToken, idempotency_key: Key = None) -> Response:
    """Give a member a token, for so many days or until it is revoked. `token` is its value, which is answered here and
    nowhere else; asked again with the same key, another value takes its place.
    """
    if body.name.lower() == SERVER:
        raise AlreadyExists(f"{body.name} is the server's own name in the audit.", "Choose another name.")
    expires_at = datetime.now(UTC) + timedelta(days=body.days) if body.days else None
    tokens = call.context.store.tokens
    token, value = tokens.give(workspace, body.name, body.role, call.principal.name, expires_at, idempotency_key)
    return answer({**_view(token), "token": value}, 201)


@route("DELETE", f"{TOKENS}/{{name}}", "tokens.write", status=204, errors=(404, 409))
def revoke(call: Call, workspace: WorkspaceName, name: MemberName) -> Response:
    """Take back a member's token: requests with it are refused from now on, and the streams that it opened end. On
    other servers of the same database within ten seconds. Runs that the member submitted go on.
    """
    call.door.forget(call.context.store.tokens.revoke(workspace, name, call.principal.name))
    return Response(status_code=204)


def _view(token: Token) -> TokenView:
    return {
        "name": token.principal,
        "role": token.role,  # type: ignore[typeddict-item]
        "created_at": format_time(token.created_at),
        "last_used_at": format_time(token.last_used_at) if token.last_used_at else None,
        "expires_at": format_time(token.expires_at) if token.expires_at else None,
    }
