"""The path below which a proxy serves this server. Proxies may remove it from requests or not: both are accepted."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class PathPrefix:
    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{self._prefix}/"):
            raw: bytes = scope["raw_path"]
            scope = {
                **scope,
                "path": scope["path"][len(self._prefix) :] or "/",
                "raw_path": raw.removeprefix(self._prefix.encode("ascii")) or b"/",
            }
        await self._app(scope, receive, send)
