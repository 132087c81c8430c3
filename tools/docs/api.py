"""docs/reference/api.md: every route of the OpenAPI document, and the shapes that it takes and answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.docs.markdown import code, document, table
from windlass.server import app
from windlass.server.http.openapi import describe as describe_api

INTRODUCTION = """\
The same as `GET /api/v1/openapi.json` of a running server, for people. [The HTTP API, explained](../dev/api.md) says
what it means: submitting, lists, streams. Every route but `/health` wants `Authorization: Bearer TOKEN`; errors are
[these](errors.md)."""

Schema = dict[str, Any]
# Errors of every route, so not listed at each.
_USUAL = {"400", "401", "403", "408", "413", "415", "429", "500", "503"}


def page() -> str:
    api = describe()
    # Sorted: the order of the document is that in which modules with routes were imported.
    operations = sorted(
        ((path, method, operation) for path, methods in api["paths"].items() for method, operation in methods.items()),
        key=lambda found: found[:2],
    )
    parts = []
    for tag in sorted({operation["tags"][0] for _, _, operation in operations}):
        parts.append(f"## Routes: {tag}")
        parts += [_operation(*found) for found in operations if found[2]["tags"][0] == tag]
    shapes = api["components"]["schemas"]
    return document(
        "HTTP API", INTRODUCTION, *parts, "## Shapes", *(_shape(name, shapes[name]) for name in sorted(shapes))
    )


def describe() -> dict[str, Any]:
    assert app.ROUTE_MODULES  # imported for the routes that they declare
    return describe_api()


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = [
        (
            code(p["name"]),
            p["in"],
            _type(p["schema"]),
            _needed(p["schema"], p.get("required", False)),
            p.get("description", ""),
        )
        for p in operation.get("parameters", [])
        if p["name"] != "workspace"
    ]
    lines = [
        f"### {method.upper()} {path.removeprefix('/api/v1')}",
        operation.get("description", ""),
        "\n".join(_facts(operation)),
        table(["parameter", "in", "value", "default", "meaning"], rows),
    ]
    return "\n\n".join(line for line in lines if line)


def _facts(operation: dict[str, Any]) -> Iterator[str]:
    yield f"- permission: `{operation['x-permission']}`"
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"- takes: {_type(content['schema'])} as `{media}`"
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            shapes = [
                f"{_type(content['schema'])} as `{media}`" for media, content in answer.get("content", {}).items()
            ]
            yield f"- answers {status}" + (f": {', '.join(shapes)}" if shapes else "")
    errors = [status for status in operation["responses"] if not status.startswith("2") and status not in _USUAL]
    if errors:
        yield f"- errors beside the usual: {', '.join(errors)}"


def _shape(name: str, schema: Schema) -> str:
    required = schema.get("required", [])
    rows = [
        (code(field), _type(inner), _needed(inner, field in required), inner.get("description", ""))
        for field, inner in schema.get("properties", {}).items()
    ]
    words = [f"### {name}", schema.get("description", "")]
    words.append(table(["field", "value", "default", "meaning"], rows) if rows else _type(schema))
    return "\n\n".join(word for word in words if word)


def _needed(schema: Schema, is_required: bool) -> str:
    if is_required:
        return "required"
    return code(json.dumps(schema["default"])) if schema.get("default") not in (None, "", [], {}) else ""


def _type(schema: Schema) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for joined in ("anyOf", "oneOf"):
        if joined in schema:
            return " or ".join(dict.fromkeys(_type(option) for option in schema[joined]))
    if "allOf" in schema:
        return _type(schema["allOf"][0])
    if "enum" in schema:
        return ", ".join(code(str(word)) for word in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    return _plain(schema)


def _plain(schema: Schema) -> str:
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"object of {_type(schema['additionalProperties'])}"
        case "string" if schema.get("format") == "binary":
            return "bytes"
        case "string":
            return "text"
        case "integer":
            return "whole number"
        case "boolean":
            return "true or false"
        case None:
            return "any"
        case other:
            return str(other)
