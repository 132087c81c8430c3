"""Every operation of the API, from the document that the server itself gives, with a path that leads somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.inputs.outside import API
from windlass.server import app
from windlass.server.http.openapi import describe

# Stops the server, which all others need.
SHUTDOWN = f"{API}/shutdown"


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    takes: str  # the media type of its body, or ""
    name: str

    def target(self, **parts: str) -> str:
        """Its path, with something that exists in each place unless told otherwise."""
        known = {"workspace": "default", "id": "nothing", "name": "local", "path": "a.txt", "digest": "0" * 64, **parts}
        target = self.path
        for part, value in known.items():
            target = target.replace(f"{{{part}}}", value)
        return target


@lru_cache(maxsize=1)
def operations() -> tuple[Operation, ...]:
    assert app.ROUTE_MODULES  # whose import declares the routes
    found = []
    for path, methods in describe()["paths"].items():
        for method, described in methods.items():
            content: dict[str, Any] = described.get("requestBody", {}).get("content", {})
            found.append(Operation(method.upper(), path, next(iter(content), ""), described["operationId"]))
    return tuple(operation for operation in found if operation.path != SHUTDOWN)


def taking_json() -> tuple[Operation, ...]:
    return tuple(operation for operation in operations() if operation.takes == "application/json")
