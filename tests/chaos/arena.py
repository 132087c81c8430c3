"""The servers, machines and processes of a chaos run, and the client that talks to the servers."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import server_process
from tests.chaos import groups, processes
from tests.chaos.journal import Journal
from tests.chaos.plan import PlannedRun
from tests.chaos.processes import Process
from tests.faults.ssh_world import attach
from tests.faults.world import World, children
from tests.hosts.host import Host
from tests.hosts.network import Network
from windlass.core.codec import to_wire
from windlass.core.entities import EnvironmentSpec, RunSpec

SCRIPT = Path(__file__).with_name("actor.py")
SLOTS = 12
_SHELLS = ("sshd", "sshd-session", "sh", "bash", "dash")
Json = dict[str, Any]


class Refused(AssertionError):
    """A server said that a request is wrong: no test makes such a request."""


@dataclass
class Machine:
    """A machine with runs: this computer, or one that is reached by SSH."""

    target: str
    root: Path  # its folder, as it is seen from here
    inner_root: Path  # as its own processes name it
    python: str
    host: Host | None = None
    has_groups: bool = True  # runs have control groups of their own there

    def jobs(self) -> list[str]:
        try:
            return sorted(os.listdir(self.root / "runs"))
        except FileNotFoundError:
            return []

    def is_only_held(self, job: str) -> bool:
        """Whether a job was made ready and never started. If its server is killed then, its folder may stay a week."""
        try:
            return json.loads((self.root / "runs" / job / "run.json").read_text()).get("hold") is True
        except (OSError, ValueError):
            return False

    def named(self, job: str, name: str) -> Process | None:
        """The supervisor or the process of a job, as its folder names it, if it lives."""
        try:
            written = json.loads((self.root / "runs" / job / "claim" / f"{name}.json").read_text())
            pid = self.host.outer_pid(written["pid"]) if self.host else written["pid"]
        except (OSError, ValueError):
            return None
        process = Process(pid, written["starttime"])
        return process if processes.is_alive(process) else None

    def owns(self, pid: int) -> bool:
        """Whether it is a process of a run or of the runner here: by its variables or its command line."""
        mark = f"WINDLASS_RUN_FOLDER={self.inner_root}/".encode()
        return os.fsencode(self.inner_root) in processes.words_of(pid) or any(
            variable.startswith(mark) for variable in processes.variables_of(pid)
        )


class Arena:
    """`homes` are those of the servers. One database for all of them: SQLite in the first home, or PostgreSQL."""

    def __init__(self, folder: Path, journal: Journal, servers: int, database: str | None, network: Network | None):
        self.journal = journal
        # A number that no other `sleep` on this computer has.
        self.token = str(10**9 + secrets.randbelow(10**9))
        self.ledger = (network.folder if network else folder) / f"ledger-{secrets.token_hex(4)}"
        self.ledger.mkdir()
        self.ledger.chmod(0o777)
        self.homes = [folder / f"server-{number}" for number in range(servers)]
        self.world = World(self.homes[0], self.ledger, database, folder / "files" if database else None)
        self.world.environment = {
            "WINDLASS_LOCAL_SLOTS": str(SLOTS),
            "WINDLASS_KEY_FILE": str(folder / "secrets.key"),
            "WINDLASS_FAILPOINTS": "",
        }
        root = self.homes[0] / "machine"
        self.machines = [Machine("local", root, root, sys.executable, has_groups=groups.can_divide())]
        self.network = network
        self._group: Path | None = None
        if network is not None:
            self._add_host(network)
        self._servers: list[server_process.Process | None] = [None] * servers
        self._lock = threading.Lock()

    def _add_host(self, network: Network) -> None:
        host = network.host("box")
        self._group = groups.delegate(host, f"chaos-{self.token}")
        there = ".windlass/ssh"
        roots = host.home / there, host.inner_home / there
        self.machines.append(Machine("box", *roots, "python3", host, self._group is not None))

    # ---- servers ----

    def start(self) -> None:
        for number in range(len(self.homes)):
            self.start_server(number)
        if self.network is not None and (host := self.machines[1].host) is not None:
            attach(self.world, "box", host, self.network, slots=SLOTS)

    def start_server(self, number: int) -> None:
        with self._lock:
            started = self.world.start_server(self.homes[number])
            self._servers[number] = started
        self.journal.write(f"server {number} is up (pid {started.pid})")

    def server(self, number: int) -> Process | None:
        """The process of a server that is up."""
        server = self._servers[number]
        return processes.identify(server.pid) if server is not None and server.poll() is None else None

    def kill_server(self, number: int) -> None:
        server = self._servers[number]
        assert server is not None
        server.kill()
        server.wait()

    def close_servers(self) -> None:
        """As `windlass server stop` does, with SIGTERM."""
        for number, server in enumerate(self._servers):
            if server is not None and server.poll() is None:
                server.terminate()
                server.wait(120)
                self.journal.write(f"server {number} is closed")

    # ---- victims ----

    def hosts(self) -> Iterator[tuple[Process, str]]:
        """The hosts of all servers on all machines."""
        for machine in self.machines:
            for process in self._hosts(machine):
                yield process, machine.target

    def _hosts(self, machine: Machine) -> Iterator[Process]:
        mine = os.fsencode(machine.inner_root)
        if machine.host is None:
            pids = [pid for number in range(len(self.homes)) for pid in self._children(number)]
        else:
            by_pid = {one.pid: one for one in machine.host.processes()}
            pids = [pid for pid, one in by_pid.items() if one.parent in by_pid and by_pid[one.parent].name in _SHELLS]
        for pid in sorted(pids):
            words, process = processes.words_of(pid), processes.identify(pid)
            if process is not None and b"host" in words and mine in words:
                yield process

    def connections(self) -> list[Process]:
        """The `ssh` processes of the servers."""
        pids = [pid for number in range(len(self.homes)) for pid in self._children(number)]
        found = (processes.identify(pid) for pid in sorted(pids) if processes.words_of(pid)[:1] == [b"ssh"])
        return [process for process in found if process is not None]

    def _children(self, number: int) -> list[int]:
        server = self.server(number)
        try:
            return children(server.pid) if server is not None else []
        except OSError:
            return []

    def of_runs(self, name: str) -> list[tuple[Process, str]]:
        """The supervisors (or the scripts' processes) that live, with their run."""
        found = []
        for machine in self.machines:
            for job in machine.jobs():
                process = machine.named(job, name)
                if process is not None:
                    found.append((process, job.rpartition(".")[0]))
        return found

    def survivors(self) -> list[Process]:
        """All processes of runs, and of the runner."""
        token = self.token.encode()
        found = processes.find(
            lambda pid: token in processes.words_of(pid) or any(machine.owns(pid) for machine in self.machines)
        )
        return sorted(found)

    def key_of(self, process: Process) -> str:
        """The key of the run that a process belongs to; "" if nothing tells. A supervisor has the lock of its run."""
        words = [word.decode(errors="replace") for word in processes.words_of(process.pid)]
        if words[:2] == ["sleep", self.token]:
            return f"run-{words[2]}"
        if self.token in words:
            return next(word for word in words if word.startswith("run-"))
        locks = [path for path in processes.files_of(process.pid) if path.endswith("/claim/lock")]
        return next((Path(path).parts[-3] for path in locks), "")

    def end(self) -> None:
        """Leave nothing behind, whatever the outcome."""
        for server in self._servers:
            if server is not None and server.poll() is None:
                server.send_signal(signal.SIGCONT)
                server.kill()
                server.wait()
        deadline = time.monotonic() + 30
        while (left := self.survivors()) and time.monotonic() < deadline:
            for process in left:
                processes.send(process, signal.SIGKILL)
            time.sleep(0.05)
        if self.network is not None:
            self.network.clear()
        if self._group is not None:
            groups.remove(self._group)

    # ---- the client ----

    def call(
        self, method: str, path: str, body: Any = None, key: str = "", server: int = 0, seconds: float = 10.0
    ) -> Json:
        answer = self.fetch(method, f"/workspaces/default{path}", body, key, server, seconds)
        found: Json = json.loads(answer) if answer else {}
        return found

    def fetch(self, method: str, path: str, body: Any, key: str, server: int, seconds: float) -> bytes:
        """One request to one server. OSError: no answer, or one that says that later is better."""
        home = self.homes[server]
        try:
            url = json.loads((home / "server.json").read_text())["url"]
        except ValueError as e:
            raise OSError(str(e)) from e
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        headers = {"Authorization": f"Bearer {(home / 'token').read_text().strip()}"}
        headers |= {"Content-Type": kind} if body is not None else {}
        headers |= {"Idempotency-Key": key} if key else {}
        connection = http.client.HTTPConnection(url.split("//")[1], timeout=seconds)
        try:
            connection.request(method, f"/api/v1{path}", data, headers)
            response = connection.getresponse()
            answer = response.read()
        except http.client.HTTPException as e:
            raise OSError(str(e)) from e
        finally:
            connection.close()
        if response.status >= 500 or response.status == 429:
            raise OSError(f"{method} {path}: {response.status} {answer!r}")
        if response.status >= 400:
            raise Refused(f"{method} {path}: {response.status} {answer!r}")
        return answer

    def insist(self, act: Callable[[int], Json], first: int = 0, seconds: float = 600.0) -> Json:
        """Repeat a call as the SDK does, by turns at each server, until one answers."""
        deadline = time.monotonic() + seconds
        server = first
        while True:
            try:
                return act(server)
            except OSError as e:
                if time.monotonic() > deadline:
                    raise AssertionError(f"no server answered for {seconds:.0f} s: {e}") from e
                server = (server + 1) % len(self.homes)
                time.sleep(0.1)

    def submit(self, run: PlannedRun) -> Json:
        machine = self.machines[run.machine]
        script = SCRIPT.read_bytes()
        digest = hashlib.sha256(script).hexdigest()
        arguments = (self.ledger, run.key, run.lines, run.code, run.seconds, run.act.value, self.token)
        spec = RunSpec(
            script="actor.py",
            target=machine.target,
            arguments=tuple(map(str, arguments)),
            environment=EnvironmentSpec(interpreter=machine.python),
            grace_seconds=1,
        )
        file = {"path": "actor.py", "digest": digest, "size": len(script), "executable": False}
        body = {"experiment": "chaos", "spec": to_wire(spec), "files": [file]}
        self.insist(lambda server: self.call("PUT", f"/blobs/{digest}", script, server=server), run.server)
        return self.insist(lambda server: self.call("POST", "/runs", body, run.key, server), run.server)

    def get(self, path: str) -> Json:
        return self.insist(lambda server: self.call("GET", path, server=server))

    def cancel(self, run_id: str, first: int) -> Json:
        return self.insist(lambda server: self.call("POST", f"/runs/{run_id}/cancel", server=server), first)

    def file(self, run_id: str, path: str) -> bytes | None:
        """A file of a run's record; None if there is none."""
        found: list[bytes] = []

        def read(server: int) -> Json:
            found.append(self.fetch("GET", f"/workspaces/default/runs/{run_id}/files/{path}", None, "", server, 60))
            return {}

        try:
            self.insist(read)
        except Refused as e:
            if ": 404 " in str(e):
                return None
            raise
        return found[0]
