"""Models over HTTP."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any

import pytest

from tests.server.serving import HOME, KEY, Server
from windlass.server.security.run_tokens import run_token

WEIGHTS = b"0123456789"
DIGEST = hashlib.sha256(WEIGHTS).hexdigest()
MODELS = f"{HOME}/models"


def of_files(name: str = "risk", path: str = "model.pkl", **said: Any) -> dict[str, Any]:
    return {"name": name, "files": [{"path": path, "digest": DIGEST, "size": len(WEIGHTS)}], **said}


def register(server: Server, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    done = server.call("POST", MODELS, body, **more)
    assert done.status == 201, done.json
    found: dict[str, Any] = done.json
    return found


def test_files_that_were_put_before(server: Server) -> None:
    refused = server.call("POST", MODELS, of_files())
    assert (refused.status, refused.json["error"]["details"]) == (409, {"missing": [DIGEST]})
    server.call("PUT", f"{HOME}/blobs/{DIGEST}", raw=WEIGHTS)
    made = register(server, of_files(description="d", tags={"a": "1"}, properties={"p": "2"}, framework="Onnx"))
    assert (made["id"], made["version"], made["tags"], made["properties"]) == ("risk:1", 1, {"a": "1"}, {"p": "2"})
    assert (made["framework"], made["run"]) == ("Onnx", None)
    assert server.call("GET", f"{MODELS}/risk").json == made
    assert server.call("GET", f"{MODELS}/risk?version=1").json == made
    assert server.call("GET", MODELS).json == {"models": [made]}
    assert server.call("GET", f"{MODELS}/risk/1/files/model.pkl").raw == WEIGHTS
    part = server.call("GET", f"{MODELS}/risk/1/files/model.pkl", headers={"Range": "bytes=2-4"})
    assert (part.status, part.raw) == (206, WEIGHTS[2:5])


def test_a_file_and_a_folder_of_a_run(server: Server) -> None:
    run = server.interactive()["id"]
    for path in ("outputs/model/a.bin", "outputs/model/deep/b.bin", "outputs/modelling.txt"):
        assert server.call("PUT", f"{HOME}/runs/{run}/files/{path}", raw=WEIGHTS).status == 201
    one = register(server, {"name": "one", "run": run, "path": "outputs/modelling.txt"})
    assert ([file["path"] for file in one["files"]], one["run"], one["experiment"]) == (["modelling.txt"], run, "demo")
    whole = register(server, {"name": "whole", "run": run, "path": "outputs/model"})
    assert [file["path"] for file in whole["files"]] == ["model/a.bin", "model/deep/b.bin"]
    assert server.call("GET", f"{MODELS}?run={run}&name=one").json == {"models": [one]}
    lost = server.call("POST", MODELS, {"name": "lost", "run": run, "path": "outputs/nothing"})
    assert (lost.status, lost.code) == (404, "not_found")
    assert "Could not locate the provided model_path outputs/nothing" in lost.json["error"]["message"]
    assert "outputs/modelling.txt" in lost.json["error"]["message"]


def test_bytes_of_a_runs_record_are_young_before_the_model_refers_to_them(server: Server) -> None:
    """Retention may remove the run at the same time; it removes only bytes that are old."""
    run = server.interactive()["id"]
    assert server.call("PUT", f"{HOME}/runs/{run}/files/outputs/model.bin", raw=WEIGHTS).status == 201
    kept = server.store.blobs.path(DIGEST)
    os.utime(kept, (0, 0))
    register(server, {"name": "risk", "run": run, "path": "outputs/model.bin"})
    assert kept.stat().st_mtime > time.time() - 3600
    kept.unlink()
    refused = server.call("POST", MODELS, {"name": "risk", "run": run, "path": "outputs/model.bin"})
    assert (refused.status, refused.json["error"]["details"]) == (409, {"missing": [DIGEST]})


def test_what_is_said_of_it_changes_and_it_can_be_deleted(server: Server) -> None:
    server.call("PUT", f"{HOME}/blobs/{DIGEST}", raw=WEIGHTS)
    register(server, of_files(tags={"a": "1"}))
    changed = server.call("PATCH", f"{MODELS}/risk/1", {"description": "better", "tags": {"a": None, "b": "2"}}).json
    assert (changed["description"], changed["tags"]) == ("better", {"b": "2"})
    assert server.call("DELETE", f"{MODELS}/risk/1").json == changed
    assert server.call("GET", f"{MODELS}/risk").status == 404
    assert server.call("GET", f"{MODELS}/risk/1/files/model.pkl").status == 404
    assert register(server, of_files())["version"] == 2


@pytest.mark.parametrize(
    "body",
    [
        {"name": "risk"},
        {"name": "risk", "path": "outputs/a"},
        {"name": "risk", "files": []},
        of_files("-risk"),
        of_files("a/b"),
        of_files(path="../a"),
        of_files(path="/a"),
        {**of_files(), "path": "outputs/a", "run": "r"},
        of_files(tags={"": "x"}),
        of_files(tags={"a": None}),
        of_files(version=7),
        of_files(framework="a\x00b"),
    ],
)
def test_what_makes_no_sense_is_refused(server: Server, body: dict[str, Any]) -> None:
    server.call("PUT", f"{HOME}/blobs/{DIGEST}", raw=WEIGHTS)
    done = server.call("POST", MODELS, body)
    assert (done.status, done.code) == (400, "invalid_request"), done.json


def test_a_runs_script_registers_and_speaks_only_of_its_own(server: Server) -> None:
    mine, other = server.submit()["id"], server.submit()["id"]
    token = run_token(KEY, mine, 1)
    server.call("PUT", f"{HOME}/blobs/{DIGEST}", raw=WEIGHTS, token=token)
    made = register(server, of_files(), token=token)
    assert (made["run"], made["created_by"]) == (mine, made["created_by"])
    foreign = register(server, of_files("foreign"))
    assert server.call("GET", f"{MODELS}/foreign", token=token).json == foreign
    assert server.call("PATCH", f"{MODELS}/risk/1", {"tags": {"a": "1"}}, token=token).json["tags"] == {"a": "1"}
    assert server.call("PATCH", f"{MODELS}/foreign/1", {"tags": {"a": "1"}}, token=token).status == 403
    assert server.call("DELETE", f"{MODELS}/risk/1", token=token).status == 403
    assert server.call("POST", MODELS, of_files(run=other), token=token).status == 404
