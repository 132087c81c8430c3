"""Registered environments, private wheels and whether something is prepared, over HTTP."""

from __future__ import annotations

import hashlib

import pytest

from tests.server.serving import HOME, Server

DEFINITION = {"python": {"condaDependencies": {"dependencies": ["numpy"]}}}
WHEEL = "a-1.0-py3-none-any.whl"


def register(server: Server, name: str, definition: object = DEFINITION) -> dict[str, object]:
    done = server.call("POST", f"{HOME}/environments", {"name": name, "definition": definition})
    assert done.status == 200, done.json
    found: dict[str, object] = done.json
    return found


def test_register_list_and_get(server: Server) -> None:
    first = register(server, "train")
    assert (first["name"], first["version"], first["definition"]) == ("train", "1", DEFINITION)
    assert register(server, "train") == first
    second = register(server, "train", {"python": {}})
    assert second["version"] == "2"
    assert server.call("GET", f"{HOME}/environments").json == {"environments": [second]}
    assert server.call("GET", f"{HOME}/environments/train").json == second
    assert server.call("GET", f"{HOME}/environments/train?version=1").json == first
    assert server.call("GET", f"{HOME}/environments/train/versions").json == {"environments": [second, first]}


@pytest.mark.parametrize("path", ["nothing", "train?version=7", "nothing/versions"])
def test_what_is_not_there(server: Server, path: str) -> None:
    register(server, "train")
    done = server.call("GET", f"{HOME}/environments/{path}")
    assert (done.status, done.code) == (404, "not_found")


@pytest.mark.parametrize(
    "body",
    [
        {"name": "AzureML-Mine", "definition": {}},
        {"name": "Microsoft-x", "definition": {}},
        {"name": "a b", "definition": {}},
        {"name": "a", "definition": []},
        {"name": "a"},
        {"name": "a", "definition": {}, "version": 3},
    ],
)
def test_what_cannot_be_registered(shared: Server, body: object) -> None:
    assert shared.call("POST", f"{HOME}/environments", body).code == "invalid_request"


def test_a_version_is_chosen_once(server: Server) -> None:
    body = {"name": "train", "definition": DEFINITION, "version": "2.0"}
    assert server.call("POST", f"{HOME}/environments", body).json["version"] == "2.0"
    assert server.call("GET", f"{HOME}/environments/train?version=2.0").json["definition"] == DEFINITION
    assert server.call("POST", f"{HOME}/environments", {**body, "definition": {}}).code == "conflict"


def test_versions_that_cannot_be(shared: Server) -> None:
    for version in ("-1", "a%20b", "..", "1%2F2", "9" * 51):
        assert shared.call("GET", f"{HOME}/environments/train?version={version}").code == "invalid_request"


def test_a_wheel_is_kept_when_its_bytes_are_there(server: Server) -> None:
    digest = hashlib.sha256(b"wheel").hexdigest()
    body = {"name": WHEEL, "digest": digest}
    lacking = server.call("POST", f"{HOME}/wheels", body)
    assert (lacking.code, lacking.json["error"]["details"]) == ("snapshot_incomplete", {"missing": [digest]})
    server.store.blobs.put([b"wheel"])
    assert server.call("POST", f"{HOME}/wheels", body).json == {"name": WHEEL, "digest": digest, "size": 5}
    assert server.call("POST", f"{HOME}/wheels", body).code == "already_exists"
    assert server.call("POST", f"{HOME}/wheels", {**body, "exist_ok": True}).status == 200
    server.store.blobs.put([b"other"])
    other = {**body, "digest": hashlib.sha256(b"other").hexdigest(), "exist_ok": True}
    assert server.call("POST", f"{HOME}/wheels", other).code == "conflict"
    assert server.call("POST", f"{HOME}/wheels", {**body, "name": "../x.whl"}).code == "invalid_request"


def test_whether_it_is_prepared_is_asked_of_the_target(shared: Server) -> None:
    there = {"spec": {"environment": {"interpreter": "python3"}}}
    built = {"spec": {"environment": {"interpreter": None, "pip": ["numpy"]}}}
    assert shared.call("POST", f"{HOME}/prepared", there).json == {"prepared": True}
    assert shared.call("POST", f"{HOME}/prepared", built).json == {"prepared": False}
    assert shared.call("POST", f"{HOME}/prepared", {"spec": {"target": "nowhere"}}).code == "not_found"
    assert shared.call("POST", f"{HOME}/prepared", {"spec": {"target": "a b"}}).code == "invalid_request"
