"""A real server with its home, its database and its failpoints, and everybody who may be killed."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import server_process
from windlass.core.codec import to_wire
from windlass.core.entities import Container, EnvironmentSpec, RunSpec

SCRIPT = Path(__file__).with_name("truth.py")
LEASE_SECONDS = 2.0
Json = dict[str, Any]


class Gone(OSError):
    """No server answered."""


def wait_for(what: str, holds: Callable[[], Any], seconds: float = 30.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = holds()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go while its file is open
        return False


@dataclass
class World:
    home: Path
    ledger: Path
    database: str | None = None
    files: Path | None = None
    servers: list[server_process.Process] = field(default_factory=list)
    connections: list[http.client.HTTPConnection] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()  # words before the server's command
    # Where runs go: a target, and the Python there.
    target = "local"
    python = sys.executable
    container: Container | None = None

    @property
    def points(self) -> Path:
        return self.ledger

    @property
    def machine(self) -> Path:
        """The folder of the machine that runs, as it is seen from here."""
        return self.home / "machine"

    @property
    def machine_there(self) -> Path:
        """The same folder, as the machine itself names it."""
        return self.machine

    # the server

    def start_server(self, home: Path | None = None) -> server_process.Process:
        home = home or self.home
        environment = {
            **os.environ,
            "WINDLASS_HOME": str(home),
            "WINDLASS_FAILPOINTS": str(self.points),
            "WINDLASS_LEASE_SECONDS": str(LEASE_SECONDS),
            **self.environment,
        }
        if self.database:
            environment["WINDLASS_DATABASE"] = self.database
        if self.files:
            environment["WINDLASS_FILES"] = str(self.files)
        server = server_process.start(home, environment, self.wrapper)
        self.servers.append(server)
        return server

    @property
    def server(self) -> server_process.Process:
        return self.servers[-1]

    def kill_server(self) -> None:
        self.server.kill()
        self.server.wait()

    def close(self) -> None:
        """Stop every server and every process of a run, by their own ids."""
        for point in self.points.glob("F*.reached"):
            point.with_suffix(".go").touch()
        for server in self.servers:
            if server.poll() is None:
                server.send_signal(signal.SIGCONT)
                server.kill()
                server.wait()
        for pid in self.processes_of_runs():
            with tolerant():
                os.kill(pid, signal.SIGKILL)

    # asking

    def ask(
        self, method: str, path: str, body: Any = None, headers: Json | None = None, home: Path | None = None
    ) -> Json:
        home = home or self.home
        status, answer = self.raw(method, path, body, headers, home)
        if status >= 400:
            raise AssertionError(f"{method} {path}: {status} {answer!r}")
        return json.loads(answer) if answer else {}

    def raw(
        self, method: str, path: str, body: Any = None, headers: Json | None = None, home: Path | None = None
    ) -> tuple[int, bytes]:
        home = home or self.home
        connection = self.connect(home)
        sent = {"Authorization": f"Bearer {(home / 'token').read_text().strip()}", **(headers or {})}
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        elif body is not None:
            sent.setdefault("Content-Type", "application/octet-stream")
        try:
            connection.request(method, f"/api/v1{path}", data, sent)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as e:
            raise Gone(str(e)) from e
        finally:
            connection.close()

    def connect(self, home: Path | None = None) -> http.client.HTTPConnection:
        try:
            url = json.loads(((home or self.home) / "server.json").read_text())["url"]
        except (OSError, ValueError) as e:
            raise Gone(str(e)) from e
        connection = http.client.HTTPConnection(url.split("//")[1], timeout=60)
        self.connections.append(connection)
        return connection

    def cut_connections(self) -> None:
        """Hang up on the server, whatever was being said."""
        for connection in self.connections:
            if connection.sock is not None:
                with tolerant():
                    connection.sock.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def insist(self, act: Callable[[], Json], seconds: float = 60.0) -> Json:
        """Repeat a call as the SDK does: while no server answers, or it says that later is better."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return act()
            except (Gone, AssertionError) as e:
                if time.monotonic() > deadline or (isinstance(e, AssertionError) and " 50" not in str(e)):
                    raise
                time.sleep(0.05)

    # runs

    def submit(self, key: str, lines: int, code: int, mode: str) -> Json:
        return self.submit_script(key, SCRIPT.read_bytes(), str(self.ledger), str(lines), str(code), mode)

    def submit_script(self, key: str, script: bytes, *arguments: str) -> Json:
        digest = hashlib.sha256(script).hexdigest()
        spec = RunSpec(
            script="truth.py",
            target=self.target,
            arguments=arguments,
            environment=EnvironmentSpec(interpreter=self.python),
            container=self.container,
            grace_seconds=1,
        )
        body = {
            "experiment": "faults",
            "spec": to_wire(spec),
            "files": [{"path": "truth.py", "digest": digest, "size": len(script), "executable": False}],
        }
        self.insist(lambda: self.ask("PUT", f"/workspaces/default/blobs/{digest}", script))
        return self.insist(lambda: self.ask("POST", "/workspaces/default/runs", body, {"Idempotency-Key": key}))

    def run(self, run_id: str) -> Json:
        return self.insist(lambda: self.ask("GET", f"/workspaces/default/runs/{run_id}"))

    def cancel(self, run_id: str) -> Json:
        return self.insist(lambda: self.ask("POST", f"/workspaces/default/runs/{run_id}/cancel"))

    def evict(self, run_id: str) -> Json:
        """Request it once: a repeated request would evict the next attempt. It may be accepted without an answer."""
        with suppress(Gone):
            self.ask("POST", f"/workspaces/default/runs/{run_id}/evict")
        return {"id": run_id}

    def wait_final(self, run_id: str, seconds: float = 60.0) -> Json:
        def final() -> Json | None:
            run = self.run(run_id)
            return run if run["state"] in ("Completed", "Failed", "Canceled") else None

        found: Json = wait_for(f"the end of {run_id}", final, seconds)
        return found

    def file(self, run_id: str, path: str) -> bytes:
        status, data = self.raw("GET", f"/workspaces/default/runs/{run_id}/files/{path}")
        return data if status == 200 else b""

    def follow(self, run_id: str, offset: int = 0, home: Path | None = None) -> Iterator[tuple[str, int, bytes]]:
        """The script's log as a follower sees it: (event, offset, bytes); a gap's length stands in place of bytes."""
        connection = self.connect(home)
        token = ((home or self.home) / "token").read_text().strip()
        path = f"/api/v1/workspaces/default/runs/{run_id}/stream?log=user_logs/std_log.txt&offset={offset}"
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        event = ""
        try:
            for line in response:
                name, _, value = line.rstrip(b"\n").partition(b": ")
                if name == b"event":
                    event = value.decode()
                elif name == b"data" and event in ("log", "gap"):
                    body = json.loads(value)
                    data = base64.b64decode(body["data"]) if event == "log" else str(body["length"]).encode()
                    yield event, body["offset"], data
                elif name == b"data" and event == "end":
                    yield event, 0, b""
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()

    # failpoints

    def arm(self, point: str) -> None:
        (self.points / point).touch()

    def reached(self, point: str) -> int:
        path = self.points / f"{point}.reached"
        wait_for(f"{point} to be reached", path.exists)
        return int(path.read_text() or 0)

    def go(self, point: str, error: str = "") -> None:
        aside = self.points / f"{point}.go.aside"
        aside.write_text(error)
        aside.rename(self.points / f"{point}.go")

    # victims

    def folder(self, run_id: str) -> Path:
        return self.machine / "runs" / f"{run_id}.1"

    def pid_of(self, run_id: str, who: str) -> int:
        path = self.folder(run_id) / "claim" / f"{who}.json"
        pid: int = json.loads(wait_for(str(path), lambda: path.exists() and path.read_text()))["pid"]
        assert pid > 1, f"{path} names nobody who could be killed"
        return pid

    def host_pid(self) -> int:
        def find() -> int | None:
            for pid in children(self.server.pid):
                with tolerant():
                    if b"host" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                        return pid
            return None

        pid: int = wait_for("the host", find)
        return pid

    def processes_of_runs(self) -> list[int]:
        """Every process that belongs to a run of this world, by the folder in its environment."""
        found = []
        mark = f"WINDLASS_RUN_FOLDER={self.machine_there}/".encode()
        for entry in os.listdir("/proc"):
            with tolerant():
                if entry.isdigit() and mark in Path(f"/proc/{entry}/environ").read_bytes() and is_alive(int(entry)):
                    found.append(int(entry))
        return found

    def told(self) -> list[str]:
        path = self.ledger / "ledger.txt"
        return path.read_text().splitlines() if path.exists() else []


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with tolerant():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


@contextmanager
def tolerant() -> Iterator[None]:
    """Processes come and go while we look."""
    try:
        yield
    except OSError:
        pass
