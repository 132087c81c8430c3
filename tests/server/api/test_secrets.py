"""Secrets over HTTP: they can be set and used, and no route has them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.server.serving import API, HOME, KEY, Answer, Server
from windlass.server.http.routing import ROUTES
from windlass.server.security.log_redaction import encodings_of
from windlass.server.security.run_tokens import run_token
from windlass.store.access.secrets import Sealed

CANARY = "the-canary-sings"
SECRETS = f"{HOME}/secrets"


def put(server: Server, name: str, value: str = CANARY, **more: Any) -> Answer:
    return server.call("PUT", f"{SECRETS}/{name}", {"value": value, **more})


def listed(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call("GET", SECRETS).json["secrets"]
    return found


def acts(server: Server) -> list[tuple[str, str]]:
    entries = server.call("GET", f"{HOME}/audit").json["entries"]
    return [(entry["act"], entry["object"]) for entry in reversed(entries)]


def test_a_secret_is_set_listed_granted_and_deleted(server: Server) -> None:
    first = put(server, "db-password")
    assert first.status == 200 and first.json["is_masked"] is True
    assert (first.json["version"], first.json["granted_to"], first.json["created_by"]) == (1, "runs", "owner")
    assert put(server, "db-password", "new", granted_to="named runs").json["version"] == 2
    assert put(server, "PIN_1", "123").json["is_masked"] is False
    changed = server.call("PATCH", f"{SECRETS}/PIN_1", {"granted_to": "nobody"})
    assert changed.status == 200 and changed.json["version"] == 1
    assert [(s["name"], s["version"], s["granted_to"]) for s in listed(server)] == [
        ("PIN_1", 1, "nobody"),
        ("db-password", 2, "named runs"),
    ]
    told = {"name", "version", "granted_to", "created_by", "created_at", "changed_at", "content_type"}
    assert set(listed(server)[0]) == told
    assert server.call("DELETE", f"{SECRETS}/PIN_1").status == 204
    assert server.call("DELETE", f"{SECRETS}/PIN_1").status == 404
    assert [s["name"] for s in listed(server)] == ["db-password"]
    assert acts(server) == [
        ("secret.set", "db-password"),
        ("secret.set", "db-password"),
        ("secret.set", "PIN_1"),
        ("secret.grant", "PIN_1"),
        ("secret.delete", "PIN_1"),
    ]


BAD_BODIES: dict[str, Any] = {
    "no value": {},
    "empty": {"value": ""},
    "number": {"value": 5},
    "null": {"value": None},
    "list": {"value": [CANARY]},
    "object": {"value": {"value": CANARY}},
    "more": {"value": CANARY, "note": CANARY},
    "other grant": {"value": CANARY, "granted_to": CANARY},
    "grant of another kind": {"value": CANARY, "granted_to": ["runs"]},
    "half a pair": {"value": CANARY + "\ud800"},
    "NUL": {"value": CANARY + "\0"},
    "too long": {"value": CANARY * 5000},
    "too many bytes": {"value": CANARY + "é" * 40_000},
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_what_cannot_be_a_secret_is_refused_and_not_repeated(shared: Server, body: dict[str, Any]) -> None:
    answer = shared.call("PUT", f"{SECRETS}/bad", body)
    assert answer.status in (400, 413) and answer.code in ("invalid_request", "too_large")
    assert CANARY.encode() not in answer.raw
    assert "bad" not in [secret["name"] for secret in listed(shared)]


@pytest.mark.parametrize(
    "name",
    ["a%2Fb", "target%2Fgpu%2Fpassword", "run%2Fdemo.1", "x" * 128, "a.b", "a%20b", "%C3%A9", "a%00b", "..", "%2e%2e"],
)
def test_only_names_that_people_may_give_can_be_named(shared: Server, name: str) -> None:
    """What belongs to the server itself has a '/' in its name."""
    for method, path, body in (
        ("PUT", f"{SECRETS}/{name}", {"value": CANARY}),
        ("PATCH", f"{SECRETS}/{name}", {"granted_to": "runs"}),
        ("DELETE", f"{SECRETS}/{name}", None),
        ("POST", f"{SECRETS}/{name}/sealed", None),
    ):
        assert shared.call(method, path, body).status in (400, 404, 405)


def test_who_sets_what_is_not_there_learns_so(shared: Server) -> None:
    for method, path, body in (
        ("PATCH", f"{SECRETS}/nothing", {"granted_to": "runs"}),
        ("DELETE", f"{SECRETS}/nothing", None),
        ("POST", f"{SECRETS}/nothing/sealed", None),
    ):
        answer = shared.call(method, path, body)
        assert answer.status == 404 and "no secret nothing" in answer.json["error"]["message"]
    assert shared.call("PUT", f"{API}/workspaces/nowhere/secrets/x", {"value": "abcd"}).status == 404


def test_no_route_shows_a_value_to_anybody(server: Server) -> None:
    """Every route, as every kind of caller, however the value may be written."""
    contributor = server.make_token("contributor")
    run = server.submit(token=contributor, spec={"script": "train.py", "secrets": ["thing"]})["id"]
    put(server, "thing")
    server.context.secret_store.use("default", "thing", "owner", {})
    callers = [
        "",
        contributor,
        server.make_token("reader"),
        server.make_token("owner"),
        server.make_token("admin", None),
    ]
    callers.append(run_token(KEY, run, 1))
    values = {
        "workspace": "default",
        "id": run,
        "kind": "ssh",
        "name": "thing",
        "path": "train.py",
        "digest": "0" * 64,
        "version": "1",
    }
    answered = 0
    for spec in ROUTES.values():
        # One ends the server, the others what is looked for, or never.
        if spec.permission == "server.stop" or spec.method == "DELETE" or spec.path.endswith("/stream"):
            continue
        path = spec.template.format(**values)
        for token in callers:
            answer = server.call(spec.method, path, {} if spec.body_type else None, token=token)
            answered += answer.status < 300
            assert not any(form in answer.raw for form in encodings_of(CANARY)), (spec.method, path)
    assert answered > 50, "too few routes were really answered"
    assert [secret["name"] for secret in listed(server)] == ["thing"]


def test_what_is_handed_out_sealed_opens_only_with_the_key_file(server: Server, tmp_path: Path) -> None:
    put(server, "db-password", "swörd\nfish")
    envelope = server.call("POST", f"{SECRETS}/db-password/sealed").json
    key_file = Path(envelope.pop("key_file"))
    assert b"fish" not in base64.b64decode(envelope["sealed"])
    assert unseal(key_file, envelope) == (0, "swörd\nfish")
    for change in ({"version": 2}, {"name": "other"}, {"workspace": "other"}, {"sealed": "AAAA"}, {"key_id": "0" * 16}):
        code, said = unseal(key_file, {**envelope, **change})
        assert code == 1 and said.startswith("error: ") and "Traceback" not in said
    code, said = unseal(tmp_path / "nothing.key", envelope)
    assert code == 1 and "cannot be read" in said
    shapeless: list[Any] = [{}, {"sealed": 5}, [], "x"]
    for nonsense in shapeless:
        assert unseal(key_file, nonsense)[0] == 2
    assert acts(server) == [("secret.set", "db-password"), ("secret.fetch", "db-password")]


def unseal(key_file: Path, envelope: Any) -> tuple[int, str]:
    command = [sys.executable, "-m", "windlass.server.unseal", "--key-file", str(key_file)]
    done = subprocess.run(command, input=json.dumps(envelope).encode(), capture_output=True, check=False)
    shown = base64.b64decode(done.stdout) if done.returncode == 0 else done.stderr
    return done.returncode, shown.decode()


def test_rotation_is_for_who_runs_the_server(server: Server) -> None:
    """It seals the secrets of all workspaces, so that the owner of one may not."""
    put(server, "a")
    put(server, "b")
    for token in ("", server.make_token("admin", None), server.make_token("admin")):
        done = server.call("POST", f"{HOME}/keys/rotate", token=token)
        assert done.status == 200 and (done.json["resealed"], done.json["refused"]) == (2, [])
    for role in ("contributor", "owner"):
        assert server.call("POST", f"{HOME}/keys/rotate", token=server.make_token(role)).status == 403


def test_a_rotation_names_what_does_not_open_to_who_may_see_it(server: Server) -> None:
    server.store.workspaces.create("other")
    damaged = Sealed(b"nonsense", server.context.secret_store.rotate("default", "owner").key_id)
    for workspace in ("default", "other"):
        server.store.secrets.put(workspace, "thing", 1, damaged, "runs", "owner")
    limited, all_of_them = (
        server.call("POST", f"{HOME}/keys/rotate", token=server.make_token("admin", workspace)).json
        for workspace in ("default", None)
    )
    assert (limited["refused"], limited["refused_elsewhere"]) == (["default/thing"], 1)
    assert (all_of_them["refused"], all_of_them["refused_elsewhere"]) == (["default/thing", "other/thing"], 0)


def test_a_run_gives_its_children_no_more_than_it_has(server: Server) -> None:
    put(server, "own", granted_to="named runs")
    put(server, "other", granted_to="named runs")
    put(server, "all")
    run = server.submit(spec={"script": "train.py", "secrets": ["own"]})["id"]
    token = run_token(KEY, run, 1)

    def child(*names: str) -> int:
        body = server.submission(parent=run, spec={"script": "train.py", "secrets": names})
        return server.call("POST", f"{HOME}/runs", body, token=token).status

    assert [child(), child("own"), child("all"), child("own", "all")] == [201] * 4
    assert [child("other"), child("own", "other"), child("nothing")] == [403] * 3


@pytest.mark.parametrize(
    "names, status",
    [(["a/b"], 400), ([""], 400), (["x" * 128], 400), (["a"] * 1001, 413), ("a", 400), ([5], 400), ([None], 400)],
)
def test_a_submit_that_names_what_is_no_secret_is_refused(shared: Server, names: Any, status: int) -> None:
    body = shared.submission(spec={"script": "train.py", "secrets": names})
    for path in (f"{HOME}/runs", f"{HOME}/plan"):
        assert shared.call("POST", path, body).status == status


def test_the_audit_is_read_in_pages_and_proved(server: Server) -> None:
    for number in range(5):
        put(server, f"s{number}")
    first = server.call("GET", f"{HOME}/audit?limit=3").json
    assert [entry["object"] for entry in first["entries"]] == ["s4", "s3", "s2"]
    assert set(first["entries"][0]) == {"number", "at", "principal", "act", "object", "details", "digest"}
    rest = server.call("GET", f"{HOME}/audit?limit=3&before={first['next']}").json
    assert [entry["object"] for entry in rest["entries"]] == ["s1", "s0"] and rest["next"] is None
    chain = server.call("GET", f"{HOME}/audit/chain").json
    assert chain == {"is_whole": True, "count": 5, "digest": first["entries"][0]["digest"], "broken_at": None}
    for query in ("limit=0", "limit=1001", "limit=x", "before=0", "before=-1", "before=x", "after=1"):
        assert server.call("GET", f"{HOME}/audit?{query}").status == 400
    server.store.workspaces.create("other")
    assert server.call("GET", f"{API}/workspaces/other/audit").json == {"entries": [], "next": None}
