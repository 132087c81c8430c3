"""The OpenAPI document, made from what the routes declare and their functions ask for."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from windlass import _version
from windlass.server.auth import OPEN
from windlass.server.parameters import Parameter
from windlass.server.views import Refusal

if TYPE_CHECKING:
    from windlass.server.routes import Declared, Route

_REFERENCE = "#/components/schemas/{model}"
_BINARY = {"type": "string", "format": "binary"}
_WORDS = {
    400: "What was asked cannot be.",
    401: "There is no valid token.",
    403: "The token does not allow this, or the request is not meant for this server.",
    404: "There is no such thing, or not for you.",
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


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    schemas, definitions = _schemas(routes)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path_format, {})[route.declared.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Windlass", "version": _version.__version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(routes: Sequence[Route]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """The schemas of all bodies and answers at once, so that what they share stands in one place."""
    inputs: list[Any] = [("refusal", "serialization", TypeAdapter(Refusal))]
    for route in routes:
        if route.signature.body is not None:
            inputs.append((_name(route), "validation", TypeAdapter(route.signature.body)))
        if route.declared.answers is not None and not isinstance(route.declared.answers, str):
            inputs.append((_name(route), "serialization", TypeAdapter(route.declared.answers)))
    schemas, document = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
    return dict(schemas), document.get("$defs", {})


def _name(route: Route) -> str:
    return f"{route.function.__module__.rpartition('.')[2]}_{route.function.__name__}"


def _operation(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    declared = route.declared
    words = inspect.getdoc(route.function) or route.function.__name__.replace("_", " ").capitalize()
    operation: dict[str, Any] = {
        "operationId": _name(route),
        "tags": [_name(route).partition("_")[0]],
        "summary": words.partition("\n")[0],
        "parameters": [_parameter(parameter) for parameter in route.signature.parameters.values()],
        "responses": {str(status): _answer(route, words, schemas) for status in _good(declared)},
        "x-permission": declared.permission,
    }
    for status in sorted(_errors(declared)):
        content = {"application/json": {"schema": schemas["refusal", "serialization"]}}
        operation["responses"][str(status)] = {"description": _WORDS[status], "content": content}
    if declared.permission == OPEN:
        operation["security"] = []
    if route.signature.body is not None:
        content = {"application/json": {"schema": schemas[_name(route), "validation"]}}
        operation["requestBody"] = {"required": True, "content": content}
    elif declared.takes == "bytes":
        operation["requestBody"] = {"content": {"application/octet-stream": {"schema": _BINARY}}}
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = TypeAdapter(parameter.kind).json_schema(ref_template=_REFERENCE)
    if not parameter.is_required:
        # A parameter that is not there is simply not sent: null cannot be.
        schema = next((s for s in schema.get("anyOf", ()) if s.get("type") != "null"), schema)
    return {
        "name": parameter.wire_name,
        "in": parameter.source,
        "required": parameter.is_required,
        "schema": schema,
    }


def _answer(route: Route, words: str, schemas: dict[Any, Any]) -> dict[str, Any]:
    answers = route.declared.answers
    if answers is None:
        return {"description": words}
    if isinstance(answers, str):
        return {"description": words, "content": {answers: {"schema": _BINARY}}}
    return {"description": words, "content": {"application/json": {"schema": schemas[_name(route), "serialization"]}}}


def _good(declared: Declared) -> tuple[int, ...]:
    if declared.path.endswith("/runs") and declared.method == "POST":
        return (200, 201)  # 200: the key was seen before
    return (200, 206) if 416 in declared.errors else (declared.status,)


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
