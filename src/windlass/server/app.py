"""The ASGI application: gate, routes, one error handler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from windlass.core.errors import InternalError, InvalidRequest, NotFound, WindlassError
from windlass.server import blobs, experiments, files, gc, meta, metrics, runs, streams, submit, targets, workspaces
from windlass.server.auth import Doorkeeper
from windlass.server.gate import Gate
from windlass.server.refusals import MethodNotAllowed, refuse
from windlass.server.routes import add_routes, check_declared

if TYPE_CHECKING:
    from windlass.server.context import Context

log = logging.getLogger(__name__)

# Imported for the routes that they declare.
MODULES = (blobs, experiments, files, gc, meta, metrics, runs, streams, submit, targets, workspaces)
THREADS = 40
# Nothing is sent to anybody, whatever the environment says; no pages that load scripts from elsewhere.
_OPTIONS: dict[str, Any] = {
    "openapi_url": None,
    "docs_url": None,
    "redoc_url": None,
    "redirect_slashes": False,
    "telemetry": {"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False},
}


def build_app(context: Context) -> ASGIApp:
    app = FastAPI(title="Windlass", lifespan=_lifespan, **_OPTIONS)
    app.state.context = context
    app.state.doorkeeper = Doorkeeper(context)
    app.state.workspaces = set()
    app.add_exception_handler(WindlassError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_body)
    app.add_exception_handler(HTTPException, _refuse_route)
    app.add_exception_handler(Exception, _confess)
    add_routes(app)
    check_declared(app)
    return Gate(app, context.settings)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: Context = app.state.context
    context.hub.attach(asyncio.get_running_loop())
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield
    context.hub.close()


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, WindlassError)
    if isinstance(error, InternalError):
        log.error("%s %s failed: %s", request.method, request.url.path, error)
    return refuse(error)


async def _refuse_body(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return refuse(InvalidRequest(_sentence(error)))


async def _refuse_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        refusal = refuse(MethodNotAllowed(f"{request.url.path} does not take {request.method}."))
        refusal.headers["allow"] = (error.headers or {}).get("Allow", "")
        return refusal
    if error.status_code == 404:
        return refuse(NotFound(f"There is nothing at {request.url.path}.", "The routes stand in /api/v1/openapi.json."))
    return refuse(InvalidRequest(str(error.detail)))


async def _confess(request: Request, error: Exception) -> Response:
    """A bug of ours: the log has it, the caller only learns that."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return refuse(InternalError("The server made a mistake.", "Its log has the details: server.log in its home."))


def _sentence(error: RequestValidationError) -> str:
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part not in ("body", "query", "path", "header")]
    what = ".".join(place) or "The body"
    message = str(first["msg"])
    more = len(error.errors()) - 1
    return f"{what}: {message[0].lower()}{message[1:]}." + (f" ({more} more problems.)" if more else "")
