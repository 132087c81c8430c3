"""The OpenAPI document is valid, and says of every route what it takes, answers and refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.server.serving import API, Server
from windlass.server.http.openapi import describe
from windlass.server.http.routing import ROUTES
from windlass.server.security.principals import OPEN


@pytest.fixture(scope="module")
def document(shared: Server) -> dict[str, Any]:
    found: dict[str, Any] = shared.call("GET", f"{API}/openapi.json").json
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, found) for path, methods in document["paths"].items() for method, found in methods.items()]


def test_it_is_what_the_code_describes(document: dict[str, Any]) -> None:
    assert document == describe()
    assert document["openapi"].startswith("3.1")


def test_every_route_stands_in_it(document: dict[str, Any]) -> None:
    spec = {(d.template, d.method.lower(), d.permission) for d in ROUTES.values()}
    assert {(path, method, found["x-permission"]) for path, method, found in operations(document)} == spec


def test_names_of_operations_are_different(document: dict[str, Any]) -> None:
    names = [found["operationId"] for _, _, found in operations(document)]
    assert len(set(names)) == len(names)


def test_every_part_of_a_path_is_described(document: dict[str, Any]) -> None:
    for path, _, found in operations(document):
        parts = [p["name"] for p in found["parameters"] if p["in"] == "path"]
        assert sorted(parts) == sorted(re.findall(r"{(\w+)}", path))


def test_every_route_says_how_it_refuses(document: dict[str, Any]) -> None:
    for path, _, found in operations(document):
        answers = set(found["responses"])
        assert {"400", "403", "500"} <= answers
        signs_in = found["operationId"] == "sessions_begin"  # open, and refuses wrong codes and tokens
        assert ("401" in answers) == (found["x-permission"] != OPEN or signs_in)
        assert ("404" in answers) or "{" not in path


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [found for item in value.values() for found in references(item)]
        return [found for item in value for found in references(item)] if isinstance(value, list) else []

    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= known


def test_schemathesis_can_read_it(document: dict[str, Any]) -> None:
    import schemathesis

    schema = schemathesis.openapi.from_dict(document)
    assert sum(1 for _ in schema.get_all_operations()) == len(ROUTES)
