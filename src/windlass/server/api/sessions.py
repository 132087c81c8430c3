"""Sessions of browsers: one-time codes, sign-in, sign-out, and links for downloads."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass import _version
from windlass.core.codec import format_time
from windlass.core.errors import Denied, InvalidRequest
from windlass.server.api.views import Time
from windlass.server.http.parameters import Body
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.security.authentication import bearer_token
from windlass.server.security.principals import Principal
from windlass.server.security.sessions import CODE_LIFETIME, BrowserSession
from windlass.server.settings import is_loopback

TAG = "sessions"

Secret = Annotated[str, Field(min_length=1, max_length=600)]


class SignIn(Body):
    code: Secret | None = None
    token: Secret | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.code is None) == (self.token is None):
            raise ValueError("give either a code or a token")
        return self


class LinkFor(Body):
    path: Annotated[str, Field(min_length=1, max_length=8192)]


class SignInCommand(TypedDict):
    command: str


class CodeView(TypedDict):
    code: str
    url: str
    expires_at: Time


class SessionView(TypedDict):
    name: str
    role: str
    workspace: str | None
    permissions: list[str]
    server: str
    version: str
    expires_at: Time | None


class NewSessionView(SessionView):
    csrf: str


class Link(TypedDict):
    url: str


@route("GET", "/sign-in", "open", answers=SignInCommand)
def show_sign_in(request: ApiRequest) -> Response:
    """Show the command that opens this server's studio signed in."""
    settings = request.context.settings
    option: list[str] = []
    if settings.public_url or not is_loopback(settings.host):
        option = ["--url", request.context.url]
    elif settings.home != Path.home() / ".windlass":
        option = ["--home", str(settings.home)]
    return json_response({"command": shlex.join(["windlass", *option, "studio"])})


@route("POST", "/session-codes", "api.read", status=201, answers=CodeView, errors=(507,))
def create_code(request: ApiRequest) -> Response:
    """Create a code that signs a browser in as the member of the request's token, once and within two minutes.

    `url` is the studio's page that does it. A session cannot create codes: it would outlive itself.
    """
    if request.browser_session is not None:
        raise Denied("A session creates no codes.", "Type `windlass studio`, or sign in with your token.")
    code, expires_at = request.context.store.sessions.create_code(bearer_token(request), CODE_LIFETIME)
    url = f"{request.context.url}/signin#code={code}"
    return json_response({"code": code, "url": url, "expires_at": format_time(expires_at)}, 201)


@route(
    "POST",
    "/session",
    "open",
    status=201,
    answers=NewSessionView,
    errors=(401, 413, 429, 503, 507),
    body_type="json",
)
async def begin(request: ApiRequest, body: SignIn) -> Response:
    """Begin a session of this browser, by a code or by a token. It lasts for two weeks, or as long as its token.

    The response sets a cookie that no script can read. Each request with the cookie needs `csrf` in the header
    `X-Windlass-Session`, and an Origin unless it is a GET.
    """
    session, new = await request.authenticator.sign_in(body.code, body.token, request.address)
    response = json_response({**_view(request, session.principal, session), "csrf": new.csrf}, 201)
    _set_cookie(request, response, new.secret, int((session.expires_at - datetime.now(UTC)).total_seconds()))
    return response


@route("GET", "/session", "api.read", answers=SessionView)
def show(request: ApiRequest) -> Response:
    """Show as whom the request was made, by a session or by a token, and what it may do."""
    return json_response(_view(request, request.principal, request.browser_session))


@route("DELETE", "/session", "api.read", status=204, errors=(507,))
def end(request: ApiRequest) -> Response:
    """Sign out: the session ends, and its streams."""
    request.authenticator.end_session(_session(request))
    response = Response(status_code=204)
    _set_cookie(request, response, "", 0)
    return response


@route("POST", "/session/links", "api.read", answers=Link, errors=(413,), body_type="json")
def create_link(request: ApiRequest, body: LinkFor) -> Response:
    """Create a link for a download by the browser itself, which sends the cookie and no header: it is good for a
    minute, for GET of that path and query, in the browser of this session.
    """
    link = request.authenticator.sessions.link(_session(request), body.path)
    return json_response({"url": request.context.settings.path_prefix + link})


def _session(request: ApiRequest) -> BrowserSession:
    if request.browser_session is None:
        raise InvalidRequest("This is for the session of a browser, and the request came with a token.")
    return request.browser_session


def _view(request: ApiRequest, principal: Principal, session: BrowserSession | None) -> SessionView:
    expires_at = session.expires_at if session is not None else principal.expires_at
    return {
        "name": principal.name,
        "role": principal.role,
        "workspace": principal.workspace,
        "permissions": sorted(principal.permissions),
        "server": request.authenticator.sessions.server_id,
        "version": _version.__version__,
        "expires_at": None if expires_at is None else format_time(expires_at),
    }


def _set_cookie(request: ApiRequest, response: Response, secret: str, seconds: int) -> None:
    response.set_cookie(
        request.authenticator.sessions.cookie_name,
        secret,
        max_age=seconds,
        path=request.context.settings.path_prefix or "/",
        secure=_is_encrypted(request),
        httponly=True,
        samesite="strict",
    )


def _is_encrypted(request: ApiRequest) -> bool:
    """Whether the browser came by https: it says so in Origin, also where a proxy does TLS and a tunnel does not."""
    origin = request.headers.get("origin")
    if origin is not None:
        return origin.startswith("https:")
    return request.url.scheme == "https" or urlsplit(request.context.settings.public_url or "").scheme == "https"
