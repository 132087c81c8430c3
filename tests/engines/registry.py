"""A real registry of images, on a port of its own, with or without a password."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

USER, PASSWORD = "ada", "c4n4ry-of-a-registry"
# What bcrypt makes of the password, which is all that the registry knows.
_HASHED = "$2b$12$rm60IVx8uETrWCo6pmRpNu0gxDKgZ0OpD7XobxXtCyWsdfUPfBcsK"
_LISTENING = re.compile(r"listening on (127\.0\.0\.1:\d+)")


@contextlib.contextmanager
def registry(folder: Path, is_private: bool = False) -> Iterator[str]:
    """Its address, as it stands in the names of images. A private one is for who has the password."""
    folder.mkdir()
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "info"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": "127.0.0.1:0"},
    }
    if is_private:
        (folder / "htpasswd").write_text(f"{USER}:{_HASHED}\n")
        config["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
    (folder / "config.yml").write_text(json.dumps(config))  # which is YAML too
    log = str(folder / "log.txt")
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawnp(
        "docker-registry", ["docker-registry", "serve", str(folder / "config.yml")], os.environ, file_actions=actions
    )
    try:
        yield _wait(log)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _wait(log: str) -> str:
    """Its address, once it answers there. It says itself which port it was given, so that nobody else has it."""
    deadline = time.monotonic() + 60
    while not (found := _LISTENING.search(Path(log).read_text())):
        assert time.monotonic() < deadline, Path(log).read_text()
        time.sleep(0.02)
    address = found[1]
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
            return address
        except urllib.error.HTTPError as e:
            e.close()
            if e.code == 401:
                return address
        except OSError:
            pass
        assert time.monotonic() < deadline, Path(log).read_text()
        time.sleep(0.02)


@contextlib.contextmanager
def gated(address: str) -> Iterator[tuple[str, threading.Event]]:
    """Another way to a registry, by which the content of images comes only once it is let through."""
    gate = threading.Event()

    class Way(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "/blobs/" in self.path:
                gate.wait(120)
            asked = urllib.request.Request(f"http://{address}{self.path}", method=self.command)
            asked.add_header("Accept", ", ".join(self.headers.get_all("Accept") or ["*/*"]))
            with urllib.request.urlopen(asked, timeout=30) as answer:
                self.send_response(answer.status)
                for name in ("Content-Type", "Content-Length", "Docker-Content-Digest"):
                    if answer.headers[name]:
                        self.send_header(name, answer.headers[name])
                self.end_headers()
                self.wfile.write(answer.read())

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

        def handle(self) -> None:
            with contextlib.suppress(OSError):  # who asked is gone
                super().handle()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Way) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", gate
        gate.set()
        server.shutdown()
