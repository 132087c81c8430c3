"""A session with canned answers, in the shapes of docs/dev/api.md."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

from windlass.cli.context import CommandContext
from windlass.cli.root import run
from windlass.client.http.session import Session
from windlass.core.errors import NotFound

Answer = Any
W = "/workspaces/default"


def a_run(run_id: str = "demo_1763268000_3f9a1c2b", **changes: Any) -> dict[str, Any]:
    state = changes.get("state", "Completed")
    return {
        "id": run_id,
        "workspace": "default",
        "experiment": "demo",
        "number": 1,
        "type": "azureml.scriptrun",
        "state": state,
        "status": state,
        "state_at": "2026-01-31T12:00:03.000000Z",
        "reason": "exited",
        "message": "exit code 0",
        "intent": "run",
        "target": "local",
        "name": "",
        "description": "",
        "submitted_by": "owner",
        "parent": None,
        "root": None,
        "attempt": 1,
        "version": 4,
        "created_at": "2026-01-31T12:00:00.000000Z",
        "started_at": "2026-01-31T12:00:00.500000Z",
        "ended_at": "2026-01-31T12:00:03.000000Z",
        "exit_code": 0,
        "signal": None,
        "snapshot": "ab" * 32,
        "error": None,
        "usage": {"cpu_seconds": 2.9, "peak_rss_mb": 120},
        "tags": {},
        "properties": {},
        "url": f"http://127.0.0.1:1/workspaces/default/runs/{run_id}",
        **changes,
    }


class FakeSession:
    """Answers by method and path: a value, an error to raise, or a function of (body, query)."""

    def __init__(self, answers: dict[str, Answer] | None = None) -> None:
        self.answers: dict[str, Answer] = answers or {}
        self.asked: list[tuple[str, Any, Any]] = []

    def call(self, method: str, path: str, body: Any = None, query: Any = None, key: str = "") -> Any:
        self.asked.append((f"{method} {path}", body, query))
        answer = self.answers.get(f"{method} {path}", NotFound(f"There is no {path}."))
        if isinstance(answer, Exception):
            raise answer
        return answer(body, query) if isinstance(answer, Callable) else answer  # type: ignore[arg-type]

    def events(self, path: str, query: Any = None) -> Iterator[tuple[str, str]]:
        """Each connection takes the next list of events; an exception in it breaks the connection there."""
        self.asked.append((f"GET {path}", None, query))
        for event in self.answers[f"GET {path}"].pop(0):
            if isinstance(event, BaseException):
                raise event
            name, body = event
            yield name, json.dumps(body)

    def download(self, path: str, query: Any = None, expect: Any = None) -> Iterator[bytes]:
        self.asked.append((f"GET {path}", None, query))
        data = self.answers[f"GET {path}"]
        start = (query or {}).get("offset", 0)
        end = start + (query or {}).get("limit", len(data))
        yield data[start:end]

    def close(self) -> None:
        pass


def windlass(session: FakeSession, *arguments: str) -> int:
    """One call of the command line against that session."""
    return run(list(arguments), CommandContext(cast(Session, session)))


def log(data: bytes, offset: int = 0, path: str = "user_logs/std_log.txt") -> tuple[str, dict[str, Any]]:
    return "log", {"path": path, "offset": offset, "data": base64.b64encode(data).decode()}
