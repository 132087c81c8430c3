"""The state of a run, its message and its log agree while files are sent and an environment is built."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.shell import COMMAND
from tests.e2e.submitting import submit_script
from tests.faults.ssh_world import SshWorld
from tests.faults.world import World, wait_for
from tests.runner.environments.test_broken_builds import Gate, make_sdist
from windlass.core.codec import to_wire
from windlass.core.entities import EnvironmentSpec, RunSpec

WAITING = ("NotStarted", "Queued", "Starting")


def stream(world: World, run: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a follower is told, until the run has ended."""
    connection = world.connect()
    token = (world.home / "token").read_text().strip()
    path = f"/api/v1/workspaces/default/runs/{run}/stream?log=auto"
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    name = ""
    with contextlib.closing(connection), connection.getresponse() as response:
        for line in response:
            key, _, value = line.rstrip(b"\n").partition(b": ")
            if key == b"event":
                name = value.decode()
            elif key == b"data":
                yield name, json.loads(value)


class Follower(threading.Thread):
    """Writes down state, message and log in the order in which they come."""

    def __init__(self, world: World, run: str) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[str, str]] = []
        self._stream = stream(world, run)
        self.start()

    def run(self) -> None:
        for name, body in self._stream:
            if name == "state":
                self.seen.append((body["state"], body["message"]))
            elif name == "log":
                self.seen.append(("log " + body["path"].partition("/")[0], base64.b64decode(body["data"]).decode()))

    @property
    def kinds(self) -> list[str]:
        found = [kind for kind, _ in self.seen]
        return [kind for at, kind in enumerate(found) if at == 0 or kind != found[at - 1]]


class Door(Gate):
    """Where a build waits until it is opened."""

    def words(self, *more: str) -> list[str]:
        (self.folder / "wait.sh").write_text('cd "$1"; echo > hanging; while [ ! -e go ]; do sleep 0.05; done')
        return ["/bin/sh", str(self.folder / "wait.sh"), str(self.folder)]


def check_build(world: World, gate: Gate) -> None:
    source = make_sdist(gate.folder, "tiny", "1.0", gate)
    spec = EnvironmentSpec(pip=(f"tiny @ file://{source}",), pip_options=("--no-index",))
    run = submit_script(world, "import tiny; print('ran')", environment=spec)["id"]
    follower = Follower(world, run)
    gate.wait()
    wait_for("its log", lambda: "log azureml-logs" in follower.kinds)
    [now, *_] = [state for state in reversed(follower.seen) if not state[0].startswith("log")]
    assert now[0] == "Preparing" and now[1].startswith("building the environment"), follower.seen
    gate.open()
    world.wait_final(run, 120)
    follower.join(60)
    kinds = [kind for kind in follower.kinds if kind not in WAITING]
    first, *_ = kinds
    assert first == "Preparing", f"the log came before its state: {follower.seen}"
    # The stream tells the newest state: on a busy machine a short script may have ended before "Running" is told.
    built = next(at for at, kind in enumerate(kinds) if kind not in {"Preparing", "log azureml-logs"})
    assert set(kinds[:built]) == {"Preparing", "log azureml-logs"}
    assert "Preparing" not in kinds[built:], follower.seen
    again = submit_script(world, "import tiny; print('ran')", environment=spec)["id"]
    follower = Follower(world, again)
    world.wait_final(again, 120)
    follower.join(60)
    assert "Preparing" not in follower.kinds, "it is prepared already"
    events = world.ask("GET", f"/workspaces/default/runs/{again}/events")["events"]
    assert "Preparing" not in [event["state"] for event in events]


def test_a_build_on_this_machine(world: World, tmp_path: Path) -> None:
    world.start_server()
    check_build(world, Door(tmp_path))


def test_a_build_on_a_machine_by_ssh(ssh_world: SshWorld) -> None:
    ssh_world.start_server()
    check_build(ssh_world, Door(ssh_world.ledger))


def test_files_that_are_sent_to_a_machine_are_counted_and_it_answers_meanwhile(ssh_world: SshWorld) -> None:
    """On a slow line. At first nothing is known of the machine, so that only one run is tried there."""
    world = ssh_world
    world.start_server()
    data = os.urandom(12 << 20)
    digest = hashlib.sha256(data).hexdigest()
    world.ask("PUT", f"/workspaces/default/blobs/{digest}", data)
    spec = RunSpec(command=("true",), target=world.target, environment=EnvironmentSpec(interpreter=world.python))
    files = [{"path": "data.bin", "digest": digest, "size": len(data), "executable": False}]
    world.host.bandwidth(8000)
    try:
        body = {"experiment": "e2e", "spec": to_wire(spec), "files": files}
        run = world.ask("POST", "/workspaces/default/runs", body, {"Idempotency-Key": "large"})["id"]

        def sent() -> float | None:
            now = world.run(run)
            assert now["state"] in ("Starting", "Running", "Finalizing", "Completed"), now
            found = re.fullmatch(r"sending files to box: ([\d.]+) of ([\d.]+) MB", now["message"] or "")
            assert found is None or float(found[2]) >= len(data) / 1e6
            return float(found[1]) if found else None

        first = wait_for("progress", sent, 120)
        shown = subprocess.Popen(
            [*COMMAND, "logs", "-f", run],
            env={**os.environ, "WINDLASS_HOME": str(world.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert world.ask("POST", "/workspaces/default/targets/box/check")["ok"] is True, "it is busy, and answers"
        wait_for("more progress", lambda: (sent() or 0) > first, 120)
    finally:
        world.host.heal()
    assert world.wait_final(run, 120)["state"] == "Completed"
    _, said = shown.communicate(timeout=60)
    assert b"aiting for box" not in said
    events = world.ask("GET", f"/workspaces/default/runs/{run}/events")["events"]
    assert not [event for event in events if "sending" in event["message"]], "progress is no event"
