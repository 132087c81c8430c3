"""A server that answers what it likes: what a client must be proof against."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from windlass._version import __version__

WORKSPACE = {
    "name": "default",
    "subscription_id": "",
    "resource_group": "",
    "location": "",
    "created_at": "2026-01-01T00:00:00.000000Z",
    "tags": {},
}
EXPERIMENT = {"name": "inputs", "id": "1", "created_at": WORKSPACE["created_at"], "archived_at": None, "tags": {}}
HEALTH = {"status": "ok", "version": __version__, "api": 1}


@contextmanager
def lying(answers: Mapping[str, Any]) -> Iterator[str]:
    """Its address. `answers` are by the end of the path; bytes are sent as they are, all else as JSON; functions
    are called for what to send."""
    usual = {"/workspaces/default": WORKSPACE, "/experiments": EXPERIMENT, "/health": HEALTH}
    known: dict[str, Any] = {**usual, **answers}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            found = next((value for end, value in known.items() if path.endswith(end)), b"evil")
            found = found() if callable(found) else found
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_PATCH = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
