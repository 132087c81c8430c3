"""The ASGI application: the origin guard, and behind it the routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.core.errors import NotFound
from windlass.server.api import (
    audit,
    blobs,
    environments,
    experiments,
    models,
    retention,
    secrets,
    server,
    tokens,
    workspaces,
)
from windlass.server.api.compute import attachments, clusters, connections, cost, quotas, targets
from windlass.server.api.runs import files, history, metrics, submit
from windlass.server.http.errors import error_response
from windlass.server.http.origin_guard import OriginGuard
from windlass.server.http.routing import check_permissions, make_routes
from windlass.server.security.authentication import Authenticator
from windlass.server.streaming import run_stream
from windlass.server.web.run_page import make_pages

if TYPE_CHECKING:
    from windlass.server.context import Context

# Imported for the routes that they declare.
ROUTE_MODULES = (
    attachments, audit, blobs, clusters, connections, cost, environments, experiments, files, retention, tokens, server,
    metrics, models, quotas, history, secrets, run_stream, submit, targets, workspaces,
)  # fmt: skip


def build_app(context: Context) -> ASGIApp:
    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        context.event_bus.attach(asyncio.get_running_loop())
        yield
        context.event_bus.close()
        await asyncio.to_thread(authenticator.threads.close)  # the loop still reads for uploads

    authenticator = Authenticator(context)
    router = Router(
        [*make_routes(authenticator), *make_pages()], redirect_slashes=False, default=_not_found, lifespan=lifespan
    )
    check_permissions(router.routes)
    return OriginGuard(router, context.settings)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    error = NotFound(
        f"There is nothing at {ascii(scope['path'][:100])[1:-1]}.", "/api/v1/openapi.json lists the routes."
    )
    await error_response(error)(scope, receive, send)
