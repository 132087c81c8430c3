"""Sessions of browsers: a cookie in place of a token. A session has the principal of the token that began it, and ends
with that token.

A browser sends a cookie with every request to this host, whatever page and port the request comes from. So a request
with the cookie needs the session's second token too, in a header that only the studio's own page can send; or, for a
download, a link that was signed for that session, path and minute.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request

from windlass.core.errors import Denied, InvalidRequest
from windlass.server.http.errors import Unauthenticated
from windlass.server.security.principals import LookupCache, Principal, TokenCache
from windlass.server.security.run_tokens import server_id
from windlass.store import NewSession, Store, Token, WebSession

CODE_LIFETIME = timedelta(seconds=120)
LIFETIME = timedelta(days=14)
LINK_SECONDS = 60
HEADER = "x-windlass-session"

_SIGN_IN = (
    "Sign in again: `windlass studio` opens the studio signed in, and `windlass studio --print` prints the address."
)
_LINK = re.compile(rb"(?:^|&)link=([0-9]{1,12})\.([0-9a-f]{64})\Z")
_LINKED = re.compile(r"/api/v1/[!-\"$-\[\]-~]+\Z")  # printable ASCII without '#' and '\'


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A session that was looked up, or has just begun."""

    id: str
    principal: Principal
    csrf_digest: str
    token_digest: str
    expires_at: datetime


class SessionCache:
    """Begins, looks up and ends sessions. Valid ones are cached for a moment, as tokens are."""

    def __init__(self, store: Store, tokens: TokenCache, key: bytes) -> None:
        self.server_id = server_id(key)
        # Two servers on one host get each other's cookies: each knows its own by the name.
        self.cookie_name = f"windlass_{self.server_id}"
        self._store = store
        self._tokens = tokens
        self._key = key
        self._known = LookupCache[BrowserSession]()

    def redeem(self, code: str, address: str) -> tuple[BrowserSession, NewSession]:
        """Begin a session by a one-time code. Raises Unauthenticated, or TooMany after many wrong codes."""
        return self._tokens.wrong.guard(address, lambda: self._begun(self._store.sessions.redeem_code(code, LIFETIME)))

    def begin(self, token: str, address: str) -> tuple[BrowserSession, NewSession]:
        """Begin a session by a token."""
        if self._tokens.lookup(token, address).run is not None:
            raise Denied("The token of a run opens no session.", "Use a token of your own.")
        return self._begun(self._store.sessions.begin(token, LIFETIME))

    def cached(self, secret: str) -> BrowserSession | None:
        """The session of a cookie that was looked up a moment ago; never queries the store."""
        return self._known.get(secret)

    def lookup(self, secret: str, address: str) -> BrowserSession:
        """The session of a cookie. Raises Unauthenticated, or TooMany after many wrong cookies."""
        session = self.cached(secret)
        if session is not None:
            return session
        revocations = self._known.revocations
        session = self._tokens.wrong.guard(address, lambda: self._look_up(secret))
        self._known.put(secret, session, revocations)
        return session

    def end(self, session: BrowserSession) -> None:
        self._store.sessions.end(session.id, session.principal.workspace, session.principal.name)
        self._known.drop(lambda _, known: known.id == session.id)

    def drop_revoked(self, token_digests: Iterable[str]) -> None:
        """Drop the sessions of tokens that were revoked in the store."""
        gone = set(token_digests)
        self._known.drop(lambda _, session: session.token_digest in gone)

    def check_intent(self, request: Request, session: BrowserSession) -> None:
        """Refuse a request that another page could have made the browser send with its cookie.

        A signed link, which is for one path, is removed from the query: the route does not see it.
        """
        is_from_here = "origin" in request.headers or request.headers.get("sec-fetch-site") == "same-origin"
        if request.method != "GET" and not is_from_here:
            raise Denied(
                "A session changes nothing without an Origin.", "Programs use a token: Authorization: Bearer …"
            )
        given = request.headers.get(HEADER)
        if given is not None:
            if hmac.compare_digest(_digest(given), session.csrf_digest):
                return
        elif request.method == "GET" and self._take_link(request, session):
            return
        raise Unauthenticated(
            "The cookie alone opens nothing: the session's second token is missing or wrong.", _SIGN_IN
        )

    def link(self, session: BrowserSession, target: str) -> str:
        """The target, a path with its query, with a signature that opens it for a minute in the session's browser."""
        path, mark, query = target.partition("?")
        decoded = unquote(path)
        if not _LINKED.match(target) or {".", ".."} & set(decoded.split("/")):
            raise InvalidRequest(
                "A link is for a path below /api/v1/, without fragment, '.' or '..'; other characters than printable "
                "ASCII are percent-encoded."
            )
        expires = int(time.time()) + LINK_SECONDS
        return f"{target}{'&' if query else '' if mark else '?'}link={self.sign(session.id, decoded, query, expires)}"

    def sign(self, session_id: str, path: str, query: str, expires: int) -> str:
        """The signature of a link, with the second at which it expires."""
        about = json.dumps(["link", session_id, path, parse_qsl(query, keep_blank_values=True), expires])
        return f"{expires}.{hmac.new(self._key, about.encode(), hashlib.sha256).hexdigest()}"

    def _take_link(self, request: Request, session: BrowserSession) -> bool:
        """Whether the request's address has a valid link of the session; removes it from there."""
        found = _LINK.search(request.scope["query_string"])
        if found is None:
            return False
        rest: bytes = request.scope["query_string"][: found.start()]
        given, expires = found.group()[found.start(1) - found.start() :].decode(), int(found.group(1))
        signed = self.sign(session.id, request.scope["path"], rest.decode("latin-1"), expires)
        if expires <= time.time() or not hmac.compare_digest(signed, given):
            raise Unauthenticated(
                "This link has expired, or is for something else.", "Download it again in the studio."
            )
        request.scope["query_string"] = rest
        return True

    def _look_up(self, secret: str) -> BrowserSession:
        found = self._store.sessions.find(secret)
        if found is None:
            raise Unauthenticated("This session has ended.", _SIGN_IN)
        return self._session(*found)

    def _begun(self, new: NewSession | None) -> tuple[BrowserSession, NewSession]:
        if new is None:
            raise Unauthenticated("This code is not valid: it is good for two minutes, and once.", _SIGN_IN)
        return self._session(new.session, new.token), new

    def _session(self, session: WebSession, token: Token) -> BrowserSession:
        principal = self._tokens.use(token)
        return BrowserSession(session.id, principal, session.csrf_digest, session.token_digest, session.expires_at)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
