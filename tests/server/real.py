"""A whole server in this process, as `windlass server run` starts it: for kinds that are defined in a test."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from windlass.server.main import serve
from windlass.server.settings import Settings

PATIENCE = 60.0
API = "/api/v1"
HOME = f"{API}/workspaces/default"


@dataclass(frozen=True)
class RealServer:
    url: str
    token: str
    home: Path

    def ask(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """The answer to a request below the workspace; it must have that status."""
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            whole = path if path.startswith(API) else HOME + path
            connection.request(method, whole, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            raw = response.read()
        finally:
            connection.close()
        assert response.status == status, raw
        return json.loads(raw)

    def refused(self, method: str, path: str, body: Any = None, status: int = 409) -> dict[str, Any]:
        error: dict[str, Any] = self.ask(method, path, body, status)["error"]
        return error

    def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not holds(found := self.ask("GET", path)):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return found

    def audit(self) -> list[str]:
        """The acts on targets, oldest first."""
        entries = reversed(self.ask("GET", "/audit")["entries"])
        return [f"{each['principal']} {each['act']}" for each in entries if each["act"].startswith("target.")]


@contextmanager
def real_server(home: Path, **settings: Any) -> Iterator[RealServer]:
    """Started on what an earlier one left in the folder, and shut down at the end."""
    chosen = Settings.load({}, home=home, **settings)
    interval = sys.getswitchinterval()
    thread = threading.Thread(target=serve, args=(chosen,), name="server under test", daemon=True)
    thread.start()
    running = _find(home, thread)
    try:
        yield running
    finally:
        running.ask("POST", f"{API}/shutdown", status=202)
        thread.join(PATIENCE)
        sys.setswitchinterval(interval)
        assert not thread.is_alive()


def _find(home: Path, thread: threading.Thread) -> RealServer:
    deadline = time.monotonic() + PATIENCE
    while not (home / "server.json").exists():
        assert thread.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    url = json.loads((home / "server.json").read_text())["url"]
    return RealServer(url, (home / "token").read_text().strip(), home)
