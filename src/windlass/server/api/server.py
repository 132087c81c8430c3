"""Health, status, settings and shutdown of the server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import create_model
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass import _version
from windlass.core.codec import format_time
from windlass.core.errors import InvalidRequest
from windlass.server.http.parameters import Body
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.settings import Tunable

TAG = "meta"

API_VERSION = 1


class Health(TypedDict):
    status: str
    version: str
    api: int


class Status(TypedDict):
    pid: int
    url: str
    home: str
    version: str
    started_at: str
    database: str
    active_runs: int
    queued_runs: int


class Stopping(TypedDict):
    status: str


def _change(name: str) -> Any:
    """Settings to change: null restores the default."""
    field = Tunable.model_fields[name]
    kind: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return kind | None, None


if TYPE_CHECKING:
    SettingsChange = Body
else:
    SettingsChange = create_model(
        "SettingsChange", __base__=Body, **{name: _change(name) for name in Tunable.model_fields}
    )


@route("GET", "/health", "open", answers=Health)
def health(request: ApiRequest) -> Response:
    return json_response({"status": "ok", "version": _version.__version__, "api": API_VERSION})


@route("GET", "/openapi.json", "api.read", answers=dict[str, Any])
def openapi(request: ApiRequest) -> Response:
    """This document."""
    from windlass.server.http.openapi import describe

    return json_response(describe())


@route("GET", "/status", "server.read", answers=Status)
def status(request: ApiRequest) -> Response:
    context = request.context
    counts = [context.store.targets.counts(w.name).values() for w in context.store.workspaces.list()]
    return json_response(
        {
            "pid": os.getpid(),
            "url": context.url,
            "home": str(context.settings.home),
            "version": _version.__version__,
            "started_at": format_time(context.started_at),
            "database": context.settings.database.partition(":")[0],
            "active_runs": sum(active for here in counts for active, _ in here),
            "queued_runs": sum(queued for here in counts for _, queued in here),
        }
    )


@route("POST", "/shutdown", "server.stop", status=202, answers=Stopping)
def shutdown(request: ApiRequest) -> Response:
    """Stop the server. Runs go on, and the next server takes them over."""
    request.context.event_bus.close()
    request.context.request_shutdown()
    return json_response({"status": "stopping"}, 202)


@route("GET", "/settings", "settings.read", answers=Tunable)
def show_settings(request: ApiRequest) -> Response:
    return json_response(_tuned(request))


@route("PATCH", "/settings", "settings.write", answers=Tunable, errors=(413,), body_type="json")
def change_settings(request: ApiRequest, body: SettingsChange) -> Response:
    if not body.model_fields_set:
        raise InvalidRequest(f"Nothing to set; known settings are {', '.join(Tunable.model_fields)}.")
    request.context.store.settings.set({name: getattr(body, name) for name in body.model_fields_set})
    return json_response(_tuned(request))


def _tuned(request: ApiRequest) -> dict[str, Any]:
    return request.context.settings.tuned(request.context.store).model_dump(include=set(Tunable.model_fields))
