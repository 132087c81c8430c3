"""A team on one server: each does what their role says, on a machine that the owner attached, until it is revoked."""

from __future__ import annotations

import hashlib
import json
import secrets
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.ssh_world import TARGET, SshWorld
from tests.faults.world import wait_for

W = "/workspaces/default"
LOG = "user_logs/std_log.txt"
SCRIPT = b"""
from windlass import Run
run = Run.get_context()
run.log("loss", 0.5)
print("secret of", len(run.get_secret("shared")), "letters")
"""
SLEEPER = b"import time; print('up', flush=True); time.sleep(600)"


@dataclass(frozen=True)
class Member:
    world: SshWorld
    token: str

    def raw(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        given = {"Authorization": f"Bearer {self.token}", **headers}
        return self.world.raw(method, path, body, given)

    def status(self, method: str, path: str, body: Any = None) -> int:
        return self.raw(method, path, body)[0]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, answer = self.raw(method, path, body, **headers)
        assert status < 400, (method, path, answer)
        return json.loads(answer)

    def submission(self, script: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(script).hexdigest()
        spec = {"script": "main.py", "target": TARGET, "environment": {"interpreter": "python3"}}
        files = [{"path": "main.py", "digest": digest, "size": len(script), "executable": False}]
        return {"experiment": "team", "spec": spec, "files": files}

    def submit(self, script: bytes) -> str:
        body = self.submission(script)
        self.raw("PUT", f"{W}/blobs/{body['files'][0]['digest']}", script)
        run = self.ask("POST", f"{W}/runs", body, **{"Idempotency-Key": secrets.token_hex(8)})
        return str(run["id"])


@pytest.fixture
def world(ssh_world: SshWorld) -> SshWorld:
    ssh_world.start_server()
    ssh_world.ask("PUT", f"{W}/secrets/shared", {"value": "the-canary-sings"})
    return ssh_world


def member(world: SshWorld, name: str, role: str) -> Member:
    return Member(world, world.ask("POST", f"{W}/tokens", {"name": name, "role": role})["token"])


def test_a_contributor_submits_where_the_owner_attached_and_changes_nothing_else(world: SshWorld) -> None:
    ann = member(world, "ann", "contributor")
    run = world.wait_final(ann.submit(SCRIPT))
    assert (run["state"], run["submitted_by"], run["target"]) == ("Completed", "ann", TARGET)
    assert ann.raw("GET", f"{W}/runs/{run['id']}/files/{LOG}")[1] == b"secret of 16 letters\n"
    assert [s["name"] for s in ann.ask("GET", f"{W}/secrets")["secrets"]] == ["shared"]
    refused = [
        ("DELETE", f"{W}/targets/{TARGET}", None),
        ("PATCH", f"{W}/targets/{TARGET}", {"slots": 9}),
        ("POST", f"{W}/targets", {"name": "mine", "kind": "ssh", "config": {}}),
        ("PUT", f"{W}/secrets/shared", {"value": "another"}),
        ("PATCH", f"{W}/secrets/shared", {"granted_to": "nobody"}),
        ("DELETE", f"{W}/secrets/shared", None),
        ("POST", f"{W}/secrets/shared/sealed", None),
        ("GET", f"{W}/audit", None),
        ("GET", f"{W}/tokens", None),
        ("POST", f"{W}/tokens", {"name": "eve", "role": "owner"}),
        ("POST", "/shutdown", None),
    ]
    assert [(path, ann.status(method, path, body)) for method, path, body in refused] == [
        (path, 403) for _, path, _ in refused
    ]
    assert world.ask("GET", f"{W}/targets/{TARGET}")["name"] == TARGET
    used = [e for e in world.ask("GET", f"{W}/audit")["entries"] if e["act"] == "secret.use" and "run" in e["details"]]
    assert [(e["principal"], e["details"]["run"]) for e in used] == [("ann", run["id"])]


def test_a_reader_sees_and_does_not_submit(world: SshWorld) -> None:
    run = world.wait_final(member(world, "ann", "contributor").submit(SCRIPT))["id"]
    bob = member(world, "bob", "reader")
    assert bob.ask("GET", f"{W}/runs/{run}")["submitted_by"] == "ann"
    assert bob.raw("GET", f"{W}/runs/{run}/files/{LOG}")[0] == 200
    refused = [
        ("POST", f"{W}/runs", bob.submission(SCRIPT)),
        ("POST", f"{W}/runs", {"experiment": "team", "type": "interactive"}),
        ("PUT", f"{W}/blobs/{'0' * 64}", b"x"),
        ("POST", f"{W}/runs/{run}/cancel", None),
        ("PATCH", f"{W}/runs/{run}", {"name": "mine"}),
        ("GET", f"{W}/secrets", None),
        ("DELETE", f"{W}/targets/{TARGET}", None),
    ]
    assert [bob.status(*each) for each in refused] == [403] * len(refused)
    assert len(world.ask("GET", f"{W}/runs")["runs"]) == 1


def test_after_the_revocation_nothing_works_and_runs_go_on(world: SshWorld) -> None:
    """Also when the server is another one."""
    ann = member(world, "ann", "contributor")
    run = ann.submit(SLEEPER)
    wait_for("its first word", lambda: world.file(run, LOG))
    with closing(world.connect()) as connection:
        connection.request("GET", f"/api/v1{W}/runs/{run}/stream", headers={"Authorization": f"Bearer {ann.token}"})
        with connection.getresponse() as stream:
            assert stream.status == 200
            world.ask("DELETE", f"{W}/tokens/ann")
            assert b"event: end" not in stream.read()  # it is closed, and the run has not ended
    asked = [
        ("GET", f"{W}/runs", None),
        ("GET", f"{W}/runs/{run}", None),
        ("POST", f"{W}/runs/{run}/cancel", None),
        ("POST", f"{W}/runs", ann.submission(SCRIPT)),
        ("GET", "/workspaces", None),
    ]
    for _ in range(2):
        assert [ann.status(*each) for each in asked] == [401] * len(asked)
        assert world.ask("GET", f"{W}/runs/{run}")["state"] == "Running"
        world.kill_server()
        world.start_server()
    world.ask("POST", f"{W}/runs/{run}/cancel")
    assert world.wait_final(run)["state"] == "Canceled"
    assert world.ask("GET", f"{W}/tokens")["tokens"] == []
