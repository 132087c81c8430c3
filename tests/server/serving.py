"""The real application on a real port, with a real store; only the reconciler and the targets are a stand-in."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import uvicorn
from pydantic import SecretStr

from tests.server.machines import Machines
from windlass import drivers
from windlass.core.entities import RunSpec, SnapshotFile, Target
from windlass.core.errors import SpecNotSupported
from windlass.drivers.base import ConnectionPool, Driver, DriverContext, EnvironmentCache, Health, Node
from windlass.drivers.kinds.local import LocalConfig, LocalDriver
from windlass.server.api.workspaces import ensure_default
from windlass.server.context import Context
from windlass.server.execution.reconciler import Reconciler
from windlass.server.execution.target_service import TargetService
from windlass.server.main import http_server
from windlass.server.security.key_file import KeyFile
from windlass.server.security.secret_store import SecretStore
from windlass.server.settings import Settings
from windlass.server.streaming.channels import ChannelTable
from windlass.server.streaming.event_bus import EventBus
from windlass.store import Capacity, Leased, NewRun, Store, open_store

KEY = b"k" * 32
API = "/api/v1"
HOME = f"{API}/workspaces/default"


@dataclass
class FakeExecution:
    """Stands in for the reconciler and the targets: remembers what it was asked. It refuses runs with GPUs."""

    store: Store
    machines: Machines
    home: Path
    connections: ConnectionPool
    owner: str = "server-under-test"
    dispatched: list[Leased] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)
    pulled: list[str] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    keeping: dict[str, EnvironmentCache] = field(default_factory=dict)
    planning: threading.Event = field(default_factory=threading.Event)
    may_plan: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_plan.set()

    def dispatch(self, leased: Leased) -> None:
        self.dispatched.append(leased)

    def wake(self, run_id: str) -> None:
        self.woken.append(run_id)

    def on_deleted(self) -> None:
        """Runs were deleted; there are no machines to clean up."""

    def capacity_of(self, workspace: str, target: Target) -> Capacity:
        return Capacity(target.slots)

    def read_now(self, run_id: str) -> None:
        """A stream follows it; nothing grows here."""

    def pull(self, run_id: str) -> None:
        self.pulled.append(run_id)

    def admit(self, workspace: str, target: str) -> None:
        self.admitted.append(target)

    def plan(self, workspace: str, new: NewRun, files: Sequence[SnapshotFile] | None = None) -> SimpleNamespace:
        assert new.spec is not None
        self.planning.set()
        self.may_plan.wait(60)
        self.store.targets.get(workspace, new.spec.target)
        if new.spec.resources.gpus:
            raise SpecNotSupported("There are no GPUs here.")
        return SimpleNamespace(text=f"python {new.spec.script}")

    def on_queued(self, workspace: str, target: str) -> None:
        """A run is queued; there are no nodes here."""

    scale = on_queued

    def check(self, workspace: str, target: str) -> Health:
        self.store.targets.get(workspace, target)
        return Health(True, "fine", {"cores": 2})

    def trial(
        self, workspace: str, target: Target, given: Mapping[str, SecretStr]
    ) -> AbstractContextManager[Driver[Any]]:
        return self.machines.trial(workspace, target, given)

    def own_environment_cache(self) -> EnvironmentCache:
        driver = LocalDriver(
            "local", LocalConfig(), self.machines.secret_store.of_target("default", "local"), self.connections
        )
        driver.context = DriverContext(folder=self.home)
        return driver

    def environment_caches(self) -> list[tuple[str, str, EnvironmentCache]]:
        return [("default", name, keeper) for name, keeper in self.keeping.items()]

    def is_prepared(self, workspace: str, spec: RunSpec, files: Sequence[SnapshotFile]) -> bool:
        self.store.targets.get(workspace, spec.target)
        return not spec.environment.is_built

    def forget(self, workspace: str, target: str) -> None:
        self.forgotten.append(target)

    def nodes(self, workspace: str, target: str) -> list[Node]:
        self.store.targets.get(workspace, target)
        raise SpecNotSupported("There are no nodes here.")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def code(self) -> str:
        """The code of the refusal, which always has a sentence."""
        error = self.json["error"]
        assert error["message"]
        assert set(error) == {"code", "message", "hint", "transient", "details"}
        return str(error["code"])


@dataclass
class Server:
    port: int
    context: Context
    reconciler: FakeExecution
    token: str

    @property
    def store(self) -> Store:
        return self.context.store

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
        head_only: bool = False,
    ) -> Answer:
        """One request: JSON unless `raw`, with the owner's token unless another, or None, is given."""
        given: dict[str, str] = {}
        if token is not None:
            given["Authorization"] = f"Bearer {token or self.token}"
        if raw is None and body is not None:
            raw = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, raw, {**given, **(headers or {})})
            response = connection.getresponse()
            content = b"" if head_only else response.read()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, content)
        finally:
            connection.close()

    def put_chunked(self, path: str, body: Iterable[bytes]) -> Answer:
        """An upload without a Content-Length. A refusal may come before the server has read all of it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):
                headers = {"Authorization": f"Bearer {self.token}"}
                connection.request("PUT", path, body, headers, encode_chunked=True)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def send(self, data: bytes) -> bytes:
        """Bytes as they are, and whatever comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))

    def make_token(self, role: str, workspace: str | None = "default", principal: str = "") -> str:
        return self.store.tokens.create(principal or role, role, workspace)[1]

    def submit(self, files: Mapping[str, bytes] | None = None, token: str = "", **changes: Any) -> dict[str, Any]:
        body = self.submission(files, **changes)
        answer = self.call("POST", f"{HOME}/runs", body, token=token)
        assert answer.status == 201, answer.raw
        return cast(dict[str, Any], answer.json)

    def submission(self, files: Mapping[str, bytes] | None = None, **changes: Any) -> dict[str, Any]:
        manifest = []
        for path, data in (files or {"train.py": b"print(1)\n"}).items():
            digest, size = self.store.blobs.put([data])
            manifest.append({"path": path, "digest": digest, "size": size, "executable": False})
        return {"experiment": "demo", "spec": {"script": "train.py"}, "files": manifest, **changes}

    def interactive(self, token: str = "", **changes: Any) -> dict[str, Any]:
        body = {"experiment": "demo", "type": "interactive", **changes}
        answer = self.call("POST", f"{HOME}/runs", body, token=token)
        assert answer.status == 201, answer.raw
        return cast(dict[str, Any], answer.json)

    @contextmanager
    def stream(self, path: str, token: str = "") -> Iterator[Iterator[Event]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token or self.token}"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield _events(response)
        finally:
            connection.close()


@dataclass(frozen=True)
class Event:
    name: str
    id: str
    data: Any


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    name, id = "", ""
    for line in iter(response.readline, b""):
        field_name, _, value = line.decode().rstrip("\n").partition(": ")
        if field_name == "event":
            name, id = value, ""
        elif field_name == "id":
            id = value
        elif field_name == "data":
            yield Event(name, id, json.loads(value))


@contextmanager
def serving(url: str, home: Path, key: bytes = KEY, **changes: Any) -> Iterator[Server]:
    settings = Settings(**{"home": home, "files": home / "files", "database": url, "local_slots": 1000, **changes})
    store = open_store(url, settings.files)
    ensure_default(store, settings)
    secret_store = SecretStore(store, KeyFile(settings.key_file))
    connections = drivers.open_pool()
    reconciler = FakeExecution(store, Machines(secret_store, store.is_shared), home, connections)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        port = listening.getsockname()[1]
        event_bus = EventBus()
        running: list[uvicorn.Server] = []
        context = Context(
            settings,
            store,
            event_bus,
            cast(Reconciler, reconciler),
            cast(TargetService, reconciler),
            key,
            f"http://127.0.0.1:{port}",
            datetime.now(UTC),
            lambda: setattr(running[0], "should_exit", True),
            secret_store,
            ChannelTable(store, event_bus),
        )
        running.append(http_server(context))
        thread = threading.Thread(target=running[0].run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            _wait_for(running[0])
            yield Server(port, context, reconciler, store.tokens.create("owner", "owner", None)[1])
        finally:
            event_bus.close()
            running[0].should_exit = True
            thread.join()
            connections.close()
            store.close()


def _wait_for(server: uvicorn.Server) -> None:
    deadline = time.monotonic() + 60
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def states(events: Sequence[Event]) -> list[str]:
    return [event.data["state"] for event in events if event.name == "state"]
