"""A real server, spoken to from outside with whatever bytes one likes, and a look at what must not happen to it."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import re
import secrets
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tests.faults.world import World

API = "/api/v1"
WS = f"{API}/workspaces/default"
JSON = {"Content-Type": "application/json"}
# An answer that has not come by then will not come: the promise is 5 s, the rest is for machines that are busy.
PATIENCE_SECONDS = 60.0
# Payloads that try to write a file somewhere call it so.
ESCAPED = "windlass-escaped"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json["error"]
        return found

    def refused(self, *statuses: int) -> str:
        """It is a refusal that a person understands; returns its sentence."""
        assert 400 <= self.status < 500, self
        assert not statuses or self.status in statuses, self
        assert b"Traceback" not in self.raw and b'File "' not in self.raw, self
        error = self.error
        assert set(error) == {"code", "message", "hint", "transient", "details"}
        sentence = str(error["message"])
        assert len(sentence.split()) >= 3, f"no sentence: {sentence!r}"
        assert len(sentence) < 5000, "a refusal does not repeat all that was sent"
        assert not re.search("[\x00-\x1f\x7f-\x9f\u200b\u202e\u2028\ufeff]", sentence), f"not to be shown: {sentence!r}"
        return sentence

    def kept(self) -> Any:
        """It was taken; returns what was answered."""
        assert 200 <= self.status < 300, self
        return json.loads(self.raw) if self.raw else None


class Outside:
    """One server and everybody who talks to it."""

    def __init__(self, world: World, database: str) -> None:
        self.world = world
        self.database = database
        self.canary = world.ledger / "canary"
        self._read = 0

    @property
    def home(self) -> Path:
        return self.world.home

    @property
    def port(self) -> int:
        return urlsplit(str(json.loads((self.home / "server.json").read_text())["url"])).port or 0

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    # asking

    def call(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = "",
    ) -> Answer:
        """One request: JSON unless `raw`, with the owner's token unless another, or None, is given."""
        given: dict[str, str] = {}
        if token is not None:
            given["Authorization"] = f"Bearer {token or self.token}"
        if raw is None and body is not None:
            raw = json.dumps(body).encode()
            given |= JSON
        if raw is not None or method in ("POST", "PUT", "PATCH"):
            given["Content-Length"] = str(len(raw or b""))
        return self.say(method, target, {**given, **(headers or {})}.items(), raw or b"")

    def say(self, method: str, target: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b"") -> Answer:
        """A request as it is given: nothing is checked, nothing is added but what an answer needs."""
        given = list(headers)
        if not any(name.lower() == "host" for name, _ in given):
            given.insert(0, ("Host", f"127.0.0.1:{self.port}"))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given), "Connection: close"]
        return self.answer(("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape") + body, method)

    def answer(self, data: bytes, method: str = "GET") -> Answer:
        """What is answered to these bytes, which a server that has heard enough need not have read to their end."""
        with self.connect() as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for at in range(0, len(data), 1 << 16):
                    connection.sendall(data[at : at + (1 << 16)])
            return read_answer(connection, method)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)

    # runs

    def submission(self, text: str = "print('hi')\n", files: Mapping[str, bytes] | None = None, **spec: Any) -> Any:
        """The body of a submit: a script of that text as main.py, or these files."""
        manifest = []
        for path, data in ({"main.py": text.encode()} if files is None else files).items():
            digest = hashlib.sha256(data).hexdigest()
            self.call("PUT", f"{WS}/blobs/{digest}", raw=data).kept()
            manifest.append({"path": path, "digest": digest, "size": len(data), "executable": False})
        asked = {"script": "main.py", "environment": {"interpreter": sys.executable}, "grace_seconds": 1, **spec}
        return {"experiment": "inputs", "spec": asked, "files": manifest}

    def submit(self, text: str, *arguments: str, **spec: Any) -> str:
        body = self.submission(text, arguments=arguments, **spec)
        key = {"Idempotency-Key": secrets.token_hex(8)}
        return str(self.call("POST", f"{WS}/runs", body, headers=key).kept()["id"])

    def run(self, text: str, *arguments: str, **spec: Any) -> dict[str, Any]:
        """A script to its end."""
        return self.world.wait_final(self.submit(text, *arguments, **spec))

    def interactive(self, **more: Any) -> str:
        return str(
            self.call("POST", f"{WS}/runs", {"experiment": "inputs", "type": "interactive", **more}).kept()["id"]
        )

    def file(self, run_id: str, path: str = "user_logs/std_log.txt") -> bytes:
        answer = self.call("GET", f"{WS}/runs/{run_id}/files/{quote(path)}")
        return answer.raw if answer.status == 200 else b""

    # what must not happen

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Nothing is made, changed or removed in here."""
        self._hear_of_the_newest()
        before = self.inventory()
        yield
        assert self.inventory() == before

    def _hear_of_the_newest(self) -> None:
        """An interactive run that nobody has heard of for minutes changes by itself, whatever is sent meanwhile."""
        for run in self.call("GET", f"{WS}/runs?limit=1").kept()["runs"]:
            if run["type"] == "interactive" and run["state"] in ("Running", "NotResponding"):
                self.call("POST", f"{WS}/runs/{run['id']}/heartbeat").kept()

    def inventory(self) -> dict[str, Any]:
        asked = {
            "newest": f"{WS}/runs?limit=1",
            "experiments": f"{WS}/experiments",
            "workspaces": f"{API}/workspaces",
            "targets": f"{WS}/targets",
            "settings": f"{API}/settings",
        }
        return {name: self.call("GET", target).kept() for name, target in asked.items()}

    def check_unharmed(self) -> None:
        """It lives, has nothing to complain of, and nobody's command was run or file written where none belongs."""
        assert self.call("GET", f"{API}/health", token=None).kept()["status"] == "ok"
        assert not self.canary.exists()
        for folder in (self.home, self.home.parent, Path("/"), Path("/etc"), Path("/tmp"), Path.cwd()):
            assert not (folder / ESCAPED).exists(), folder
        complaints = self.complaints()
        assert not complaints, complaints

    def complaints(self) -> str:
        """What the log has of mistakes since it was last looked at."""
        log = (self.home / "server.log").read_bytes()
        fresh, self._read = log[self._read :].decode("utf-8", "replace"), len(log)
        return fresh if "Traceback" in fresh or " ERROR " in fresh or " CRITICAL " in fresh else ""


def read_answer(connection: socket.socket, method: str = "GET") -> Answer:
    with contextlib.closing(http.client.HTTPResponse(connection, method=method)) as response:
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())
