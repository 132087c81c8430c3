"""The ASGI application: the gate, and behind it the routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.core.errors import NotFound
from windlass.server import (
    audit,
    blobs,
    environments,
    experiments,
    files,
    gc,
    members,
    meta,
    metrics,
    models,
    runs,
    secrets,
    streams,
    workspaces,
)
from windlass.server.api import attachments, clusters, connections, cost, quotas, submit, targets
from windlass.server.door import Door
from windlass.server.gate import Gate
from windlass.server.page import make_pages
from windlass.server.refusals import refuse
from windlass.server.routes import check_declared, make_routes

if TYPE_CHECKING:
    from windlass.server.context import Context

# Imported for the routes that they declare.
NOUNS = (
    attachments, audit, blobs, clusters, connections, cost, environments, experiments, files, gc, members, meta,
    metrics, models, quotas, runs, secrets, streams, submit, targets, workspaces,
)  # fmt: skip


def build_app(context: Context) -> ASGIApp:
    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        context.hub.attach(asyncio.get_running_loop())
        yield
        context.hub.close()
        await asyncio.to_thread(door.threads.close)  # the loop still reads for uploads

    door = Door(context)
    router = Router(
        [*make_routes(door), *make_pages()], redirect_slashes=False, default=_nothing_here, lifespan=lifespan
    )
    check_declared(router.routes)
    return Gate(router, context.settings)


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    error = NotFound(
        f"There is nothing at {ascii(scope['path'][:100])[1:-1]}.", "The routes stand in /api/v1/openapi.json."
    )
    await refuse(error)(scope, receive, send)
