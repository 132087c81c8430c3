"""The ASGI application: the origin guard, and behind it the routes and the studio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.routing import Router
from starlette.types import ASGIApp

from windlass.server.api import (
    audit,
    blobs,
    channels,
    environments,
    experiments,
    models,
    retention,
    secrets,
    server,
    sessions,
    summary,
    tokens,
    workspaces,
)
from windlass.server.api.compute import attachments, clusters, connections, cost, events, kinds, quotas, targets
from windlass.server.api.runs import (
    columns,
    deletion,
    files,
    history,
    lines,
    metrics,
    run_configurations,
    submit,
)
from windlass.server.http.origin_guard import OriginGuard
from windlass.server.http.path_prefix import PathPrefix
from windlass.server.http.routing import check_permissions, make_routes
from windlass.server.security.authentication import Authenticator
from windlass.server.streaming import run_stream, workspace_stream
from windlass.server.web.studio import Studio

if TYPE_CHECKING:
    from windlass.server.context import Context

# Imported for the routes that they declare.
ROUTE_MODULES = (
    attachments, audit, blobs, channels, clusters, columns, connections, cost, deletion, environments, events,
    experiments, files, retention, tokens, server, kinds, lines, metrics, models, quotas, history, run_configurations,
    secrets, run_stream, submit, summary, targets, workspaces, workspace_stream, sessions,
)  # fmt: skip


def build_app(context: Context) -> ASGIApp:
    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        context.event_bus.attach(asyncio.get_running_loop())
        yield
        context.event_bus.close()
        await asyncio.to_thread(context.channels.close_all)
        await asyncio.to_thread(authenticator.threads.close)  # the loop still reads for uploads

    authenticator = Authenticator(context)
    prefix = context.settings.path_prefix
    # The studio is static and needs no token: it serves what no route matches.
    studio = Studio(prefix, authenticator.threads)
    router = Router(make_routes(authenticator), redirect_slashes=False, default=studio, lifespan=lifespan)
    check_permissions(router.routes)
    return OriginGuard(PathPrefix(router, prefix) if prefix else router, context.settings)
