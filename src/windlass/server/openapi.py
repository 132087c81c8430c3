"""The OpenAPI document: parameters and bodies as FastAPI sees them, answers and errors as the routes declare them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from windlass import _version
from windlass.server.auth import OPEN
from windlass.server.routes import Declared, Route
from windlass.server.views import Refusal

_WORDS = {
    400: "What was asked cannot be.",
    401: "There is no valid token.",
    403: "The token does not allow this, or the request is not meant for this server.",
    404: "There is no such thing, or not for you.",
    405: "There is no such method here.",
    408: "The body came too slowly.",
    409: "It exists already, or is not in the state that this needs.",
    413: "The body is larger than the limit.",
    415: "The body is not of the kind that this takes.",
    416: "The file has no bytes in that range.",
    422: "The target cannot do that.",
    429: "Too many wrong tokens; slow down.",
    500: "A bug; the server's log has the details.",
    502: "The target refused.",
    503: "The target or the database does not answer; try again.",
    507: "The server's disk is full.",
}


def describe_api(app: FastAPI) -> dict[str, Any]:
    """Made when first asked for, since it takes longer than starting the server."""
    if not hasattr(app.state, "document"):
        app.state.document = _describe(app)
    document: dict[str, Any] = app.state.document
    return document


def _describe(app: FastAPI) -> dict[str, Any]:
    routes = [route for route in app.routes if isinstance(route, Route)]
    document = get_openapi(title="Windlass", version=_version.__version__, routes=routes)
    schemas, answers = _schemas([route.declared for route in routes])
    components = document.setdefault("components", {})
    known = components.setdefault("schemas", {})
    for left_over in ("HTTPValidationError", "ValidationError"):
        known.pop(left_over, None)
    known.update(schemas)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for route in routes:
        operation = document["paths"][route.path_format][route.declared.method.lower()]
        _complete(operation, route.declared, answers)
    return document


def _complete(operation: dict[str, Any], declared: Declared, answers: dict[Declared, Any]) -> None:
    words = operation.get("description") or operation["summary"]
    operation["responses"] = {str(code): _answer(declared, words, answers) for code in _good(declared)}
    for status in sorted(_errors(declared)):
        operation["responses"][str(status)] = {
            "description": _WORDS[status],
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
        }
    operation["x-permission"] = declared.permission
    if declared.permission == OPEN:
        operation["security"] = []
    if declared.takes == "bytes":
        schema = {"type": "string", "format": "binary"}
        operation["requestBody"] = {"content": {"application/octet-stream": {"schema": schema}}}


def _good(declared: Declared) -> tuple[int, ...]:
    if declared.path.endswith("/runs") and declared.method == "POST":
        return (200, 201)  # 200: the key was seen before
    return (200, 206) if 416 in declared.errors else (declared.status,)


def _answer(declared: Declared, words: str, answers: dict[Declared, Any]) -> dict[str, Any]:
    if declared.answers is None:
        return {"description": words}
    if isinstance(declared.answers, str):
        schema: Any = {"type": "string", "format": "binary"}
        return {"description": words, "content": {declared.answers: {"schema": schema}}}
    return {"description": words, "content": {"application/json": {"schema": answers[declared]}}}


def _errors(declared: Declared) -> set[int]:
    found = {400, 403, 500, *declared.errors}
    if declared.permission != OPEN:
        found |= {401, 429, 503}
    if "{workspace}" in declared.path:
        found.add(404)
    if declared.takes:
        found |= {408, 415}
    if declared.takes in ("json", "metrics"):
        found.add(413)
    return found


def _schemas(routes: list[Declared]) -> tuple[dict[str, Any], dict[Declared, Any]]:
    typed = [declared for declared in routes if declared.answers is not None and not isinstance(declared.answers, str)]
    keys: list[Any] = [*typed, "refusal"]
    adapters = [TypeAdapter(declared.answers) for declared in typed] + [TypeAdapter(Refusal)]
    inputs = [(key, "serialization", adapter) for key, adapter in zip(keys, adapters, strict=True)]
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    return definitions["$defs"], {declared: found[declared, "serialization"] for declared in typed}
