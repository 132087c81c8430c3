"""Authentication and authorization of requests: each route's request passes here before its body is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from windlass.core import names
from windlass.core.errors import Denied, NotFound, TooMany, WindlassError
from windlass.server.http.errors import Unauthenticated
from windlass.server.http.threads import RequestThreads, run_in_thread
from windlass.server.security.principals import OPEN, Principal, TokenCache
from windlass.server.security.sessions import BrowserSession, SessionCache
from windlass.store import NewSession

if TYPE_CHECKING:
    from windlass.server.context import Context
    from windlass.server.http.request import ApiRequest


T = TypeVar("T")


class Authenticator:
    def __init__(self, context: Context) -> None:
        self.context = context
        self._tokens = TokenCache(context.store, context.token_key)
        self.sessions = SessionCache(context.store, self._tokens, context.token_key)
        self._workspaces: set[str] = set()  # that are known to exist
        self.threads = RequestThreads()

    async def authenticate(self, request: ApiRequest, for_runs: bool) -> None:
        """Set the request's principal by its bearer token, else by the session of its cookie, and check its permission.
        A token is accepted in the header only. `for_runs`: whether tokens of runs are accepted.
        """
        if request.permission == OPEN:
            return
        cookie = self._cookie(request)
        if cookie:
            request.browser_session = await self._session(cookie, request.address)
            self.sessions.check_intent(request, request.browser_session)
            request.principal = request.browser_session.principal
        else:
            request.principal = await self._principal(bearer_token(request), request.address)
        request.state.slot.authenticate()
        if "workspace" in request.path_params:
            await self._check_workspace(request.principal, request.workspace)
        if not request.principal.may(request.permission):
            raise Denied(
                f"This needs the permission {request.permission}, which your token does not have.",
                "Ask an owner of the workspace, or whoever runs the server.",
            )
        if request.principal.run is not None and not for_runs:
            raise Denied("This is not for the scripts of runs.", "Do it from outside, with a token of your own.")

    async def sign_in(self, code: str | None, token: str | None, address: str) -> tuple[BrowserSession, NewSession]:
        """Begin a session by a one-time code, or by a token."""
        if code is not None:
            return await self._in_thread(address, self.sessions.redeem, code)
        return await self._in_thread(address, self.sessions.begin, token or "")

    async def still_valid(self, request: ApiRequest) -> bool:
        """Whether the token or session of an open stream is valid now; True if that cannot be found out."""
        cookie = self._cookie(request)
        try:
            if cookie:
                await self._session(cookie, request.address)
            else:
                await self._principal(bearer_token(request), request.address)
        except (Denied, TooMany):
            return False
        except WindlassError:
            pass
        return True

    def drop_revoked(self, digests: Iterable[str]) -> None:
        """Drop tokens that were just revoked from the cache, and their sessions: the next request with one is refused,
        and streams that it opened end.
        """
        gone = list(digests)
        self._tokens.drop_revoked(gone)
        self.sessions.drop_revoked(gone)
        self.context.event_bus.wake_all()

    def end_session(self, session: BrowserSession) -> None:
        """Sign a browser out; the streams that it opened end."""
        self.sessions.end(session)
        self.context.event_bus.wake_all()

    def _cookie(self, request: ApiRequest) -> str:
        """The secret of the cookie, if the request is to be authenticated by that: a token goes first."""
        return "" if "authorization" in request.headers else request.cookies.get(self.sessions.cookie_name, "")

    async def _principal(self, secret: str, address: str) -> Principal:
        known = self._tokens.cached(secret)
        return known if known is not None else await self._in_thread(address, self._tokens.lookup, secret)

    async def _session(self, secret: str, address: str) -> BrowserSession:
        known = self.sessions.cached(secret)
        return known if known is not None else await self._in_thread(address, self.sessions.lookup, secret)

    async def _in_thread(self, address: str, lookup: Callable[[str, str], T], secret: str) -> T:
        pool = self.threads.suspects if self._tokens.wrong.is_suspect(address) else self.threads.requests
        return await run_in_thread(pool, lookup, secret, address)

    async def _check_workspace(self, principal: Principal, workspace: str) -> None:
        """Raise NotFound for a workspace that does not exist, and the same for one that the token is not for."""
        names.workspace_name(workspace)
        if not principal.may_see(workspace):
            raise NotFound(f"There is no workspace {workspace}.")
        if workspace not in self._workspaces:
            await run_in_thread(self.threads.requests, self.context.store.workspaces.get, workspace)
            self._workspaces.add(workspace)


def bearer_token(request: ApiRequest) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret:
        raise Unauthenticated(
            "This needs a token: Authorization: Bearer …",
            "An owner of the workspace gives you one; the server's own stands in the file `token` of its home.",
        )
    return secret
