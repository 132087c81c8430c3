"""The OpenAPI document, generated from the declarations of routes and the signatures of their functions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from windlass import _version
from windlass.server.api.views import Refusal
from windlass.server.http.parameters import Parameter, Signature
from windlass.server.http.routing import ROUTES, RouteSpec
from windlass.server.security.principals import OPEN

_REFERENCE = "#/components/schemas/{model}"
_BINARY = {"type": "string", "format": "binary"}
_DESCRIPTIONS = {
    400: "The request is invalid.",
    401: "There is no valid token.",
    403: "The token does not allow this, or the request is not meant for this server.",
    404: "There is no such thing, or the token is not for it.",
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


@dataclass(frozen=True)
class Operation:
    function: Callable[..., Any]
    spec: RouteSpec
    signature: Signature

    @property
    def name(self) -> str:
        return f"{self.tag}_{self.function.__name__}"

    @property
    def tag(self) -> str:
        """TAG of the route's module: operation ids begin with it, so it stays when the module gets another name."""
        tag: str = sys.modules[self.function.__module__].TAG
        return tag

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or self.function.__name__.replace("_", " ").capitalize() + "."


@lru_cache(maxsize=1)
def describe() -> dict[str, Any]:
    """Generated at the first request, since it takes longer than the server's start."""
    spec = (Operation(function, each, Signature(function, each.path)) for function, each in ROUTES.items())
    operations = sorted(spec, key=lambda operation: operation.tag)  # not in the order of imports
    schemas, definitions = _schemas(operations)
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.spec.template, {})[operation.spec.method.lower()] = _operation(operation, schemas)
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


def _schemas(operations: Sequence[Operation]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """The schemas of all bodies and responses, generated together so that they share definitions."""
    inputs: list[Any] = [("refusal", "serialization", TypeAdapter(Refusal))]
    for operation in operations:
        body, answers = operation.signature.body, operation.spec.answers
        if body is not None:
            inputs.append((operation.name, "validation", TypeAdapter(body)))
        if answers is not None and not isinstance(answers, str):
            inputs.append((operation.name, "serialization", TypeAdapter(answers)))
    schemas, document = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
    return dict(schemas), document.get("$defs", {})


def _operation(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    spec, signature = operation.spec, operation.signature
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.description.partition("\n")[0],
        "parameters": [_parameter(parameter) for parameter in signature.parameters.values()],
        "responses": {str(status): _answer(operation, schemas) for status in _good(spec)},
        "x-permission": spec.permission,
    }
    for status in sorted(_errors(spec)):
        content = {"application/json": {"schema": schemas["refusal", "serialization"]}}
        described["responses"][str(status)] = {"description": _DESCRIPTIONS[status], "content": content}
    if spec.permission == OPEN:
        described["security"] = []
    if signature.body is not None:
        content = {"application/json": {"schema": schemas[operation.name, "validation"]}}
        described["requestBody"] = {"required": True, "content": content}
    elif spec.body_type == "bytes":
        described["requestBody"] = {"content": {"application/octet-stream": {"schema": _BINARY}}}
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = TypeAdapter(parameter.kind).json_schema(ref_template=_REFERENCE)
    if not parameter.is_required:
        # An optional parameter is left out; null cannot be sent.
        schema = next((s for s in schema.get("anyOf", ()) if s.get("type") != "null"), schema)
    return {
        "name": parameter.wire_name,
        "in": parameter.source,
        "required": parameter.is_required,
        "schema": schema,
    }


def _answer(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    answers = operation.spec.answers
    if answers is None:
        return {"description": operation.description}
    if isinstance(answers, str):
        return {"description": operation.description, "content": {answers: {"schema": _BINARY}}}
    schema = schemas[operation.name, "serialization"]
    return {"description": operation.description, "content": {"application/json": {"schema": schema}}}


def _good(spec: RouteSpec) -> tuple[int, ...]:
    if spec.path.endswith("/runs") and spec.method == "POST":
        return (200, 201)  # 200: the key was seen before
    return (200, 206) if 416 in spec.errors else (spec.status,)


def _errors(spec: RouteSpec) -> set[int]:
    found = {400, 403, 500, *spec.errors}
    if spec.permission != OPEN:
        found |= {401, 429, 503}
    if "{workspace}" in spec.path:
        found.add(404)
    if spec.body_type:
        found |= {408, 415}
    if spec.body_type in ("json", "metrics"):
        found.add(413)
    return found
