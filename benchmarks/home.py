"""Temporary home with a server of its own for a benchmark; everything is ended and removed afterwards."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

API = "/api/v1"
STOP_SECONDS = 10.0


class Home:
    """A temporary WINDLASS_HOME. The SDK and CLI find it through the environment of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def start(self) -> float:
        """Start the server; milliseconds from spawn until it answers."""
        self._log = (self.folder / "benchmark-server.log").open("ab")
        start = time.perf_counter()
        command = [sys.executable, "-m", "windlass.server", "--home", str(self.folder)]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        while not self._answers():
            if self.process.poll() is not None:
                raise RuntimeError(f"the server did not start: {self._said()}")
            time.sleep(0.002)
        return (time.perf_counter() - start) * 1e3

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
        if self._log is not None:
            self._log.close()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def api(self) -> Api:
        token = (self.folder / "token").read_text(encoding="ascii").strip()
        return Api(self._url(), token)

    def end_runs(self) -> None:
        """End what still runs, by the ids in the run folders: supervisors first, so that none reacts."""
        for receipt in self.receipts("supervisor") + self.receipts("process"):
            _end(receipt)

    def receipts(self, name: str) -> list[dict[str, Any]]:
        """The process ids of all supervisors, or of all scripts."""
        found = (self.folder / "machine" / "runs").glob(f"*/claim/{name}.json")
        return [json.loads(path.read_text(encoding="utf-8")) for path in found]

    def _answers(self) -> bool:
        try:
            # As a client does it: first the address, then the request.
            connection = http.client.HTTPConnection(urlsplit(self._url()).netloc, timeout=5)
            connection.request("GET", f"{API}/health")
            return connection.getresponse().status == 200
        except (OSError, ValueError):
            return False

    def _url(self) -> str:
        return cast(str, json.loads((self.folder / "server.json").read_text(encoding="utf-8"))["url"])

    def _said(self) -> str:
        return (self.folder / "benchmark-server.log").read_text(encoding="utf-8", errors="replace")[-2000:]


class Api:
    """One kept-alive connection to the server with little code around it, so that the server is measured."""

    def __init__(self, url: str, token: str) -> None:
        self.netloc = urlsplit(url).netloc
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.connection = http.client.HTTPConnection(self.netloc, timeout=60)
        self.workspace = ""
        self.workspace = f"/workspaces/{self.call('GET', '/workspaces')['workspaces'][0]['name']}"

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """`path` below the workspace, unless there is none yet; the answer's JSON."""
        return json.loads(self.raw(method, path, body, **headers))

    def raw(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        data = None if body is None else json.dumps(body)
        self.connection.request(method, f"{API}{self.workspace}{path}", data, {**self.headers, **headers})
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:500].decode(errors='replace')}")
        return content

    def submit(self, command: list[str]) -> str:
        """A run of a command without a snapshot; its id."""
        return self.submit_to("local", command)

    def submit_to(self, target: str, command: list[str]) -> str:
        """The same, to another target than `local`."""
        body = run_body(command, target)
        return str(self.call("POST", "/runs", body, **{"Idempotency-Key": secrets.token_hex(16)})["id"])

    def set_slots(self, slots: int) -> None:
        self.call("PATCH", "/targets/local", {"slots": slots})


def run_body(command: list[str], target: str = "local") -> dict[str, Any]:
    spec = {"command": command, "target": target, "environment": {"interpreter": sys.executable}}
    return {"experiment": "benchmark", "type": "azureml.scriptrun", "spec": spec, "files": []}


@contextmanager
def temporary_home(start: bool = True, disk: Path | None = None) -> Iterator[Home]:
    before = os.environ.get("WINDLASS_HOME")
    home = Home(Path(tempfile.mkdtemp(prefix="windlass-benchmark-", dir=disk)))
    os.environ["WINDLASS_HOME"] = str(home.folder)
    try:
        if start:
            home.start()
        yield home
    finally:
        home.stop()
        home.end_runs()
        if before is None:
            del os.environ["WINDLASS_HOME"]
        else:
            os.environ["WINDLASS_HOME"] = before
        shutil.rmtree(home.folder, ignore_errors=True)


def _end(process: dict[str, Any]) -> None:
    """Kill it if it is still the process that the receipt names."""
    try:
        fields = Path(f"/proc/{process['pid']}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        if int(fields[19]) == process["starttime"]:
            os.kill(process["pid"], signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass
