"""Origin guard, the outermost check: refuses requests for other host names and requests that web pages send.

A page in a browser can reach a server on loopback, under a name of its own (DNS rebinding) or across origins. It cannot
choose the Host, Origin and Sec-Fetch-Site that the browser sends with it.

Loopback's own names are accepted with any port: no other site can have them, and the end of an SSH tunnel has a port of
its own. A page on another port of them is foreign all the same: its Origin is not the Host of its request.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.core.errors import Denied, InvalidRequest
from windlass.server.http.errors import WrongMedia, error_response
from windlass.server.settings import Settings

_ONCE = (
    b"authorization", b"content-length", b"content-type", b"host", b"idempotency-key", b"origin", b"range",
    b"x-windlass-session",
)  # fmt: skip
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_TUNNELED = re.compile(r"(127\.0\.0\.1|localhost|\[::1\]):[0-9]{1,5}\Z")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class OriginGuard:
    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._public = urlsplit(settings.public_url) if settings.public_url else None
        self._hosts = lru_cache(maxsize=64)(self._allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            self._check(scope)
        except (InvalidRequest, Denied) as e:
            return await error_response(e)(scope, receive, _with_security_headers(send))
        await self._app(scope, receive, _with_security_headers(send))

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in headers and name in _ONCE:
                raise InvalidRequest(f"The header {name.decode()} may stand only once.")
            headers[name] = value
        port = scope["server"][1] if scope.get("server") else None
        hosts = self._hosts(port)
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if _TUNNELED.match(host):
            hosts = hosts | {host}
        if host not in hosts:
            raise Denied(
                f"This server is not called {host[:100]!r}.",
                "Use its own address, or add the name with its port to allowed_hosts in settings.json.",
            )
        self._check_origin(headers, scope, hosts)
        _check_characters(scope["raw_path"], scope["query_string"])
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise WrongMedia("Compressed bodies are not taken.", "Send it without Content-Encoding.")

    def _check_origin(self, headers: dict[bytes, bytes], scope: Scope, hosts: frozenset[str]) -> None:
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in self._origins(scope["scheme"], hosts):
            raise Denied("Requests from other web pages are not taken.")
        site = headers.get(b"sec-fetch-site", b"none").lower()
        navigates = scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == b"navigate"
        if site not in (b"same-origin", b"none") and not navigates:
            raise Denied("Requests from other web sites are not taken.")

    def _allowed_hosts(self, port: int | None) -> frozenset[str]:
        names = [*_LOOPBACK, self._settings.host]
        hosts = {f"{name}:{port}".lower() for name in names} | {host.lower() for host in self._settings.allowed_hosts}
        if self._public is not None:
            hosts.add(self._public.netloc.lower())
        return frozenset(hosts)

    def _origins(self, scheme: str, hosts: frozenset[str]) -> set[str]:
        origins = {f"{scheme}://{host}" for host in hosts}
        if self._public is not None:
            origins.add(f"{self._public.scheme}://{self._public.netloc}".lower())
        return origins


def _check_characters(*parts: bytes) -> None:
    """Refuse paths and queries that are not UTF-8: decoding them leniently would change a name."""
    for part in parts:
        if b"%" in part:
            try:
                unquote_to_bytes(part).decode("utf-8")
            except UnicodeDecodeError:
                raise InvalidRequest("The address is not UTF-8.") from None


def _with_security_headers(send: Send) -> Send:
    """Add the headers that keep a browser from sniffing, caching, framing or executing a response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"]
            present = {name for name, _ in headers}
            headers.extend(header for header in _HEADERS if header[0] not in present)
        await send(message)

    return send_with_headers
