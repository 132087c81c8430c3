"""A disk that is nearly full takes in nothing new, and all that is there already goes on."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.serving import HOME, Server, serving

DATA = b"x" * 1000
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Server]:
    """A server whose disk, whatever it is, has less left than is to be kept; with a run from better days."""
    url = f"sqlite:///{tmp_path}/db.sqlite"
    with serving(url, tmp_path) as server:
        server.interactive(run_id="before")
    with serving(url, tmp_path, disk_reserve_bytes=shutil.disk_usage(tmp_path).free + (1 << 40)) as server:
        yield server


def test_new_runs_and_their_files_are_refused_with_a_way_out(short: Server) -> None:
    attempts: list[dict[str, Any]] = [
        {"method": "POST", "path": f"{HOME}/runs", "body": short.submission()},
        {"method": "POST", "path": f"{HOME}/runs", "body": {"experiment": "demo", "type": "interactive"}},
        {"method": "PUT", "path": f"{HOME}/blobs/{DIGEST}", "raw": DATA},
        {"method": "POST", "path": f"{HOME}/blobs", "raw": DIGEST.encode() + len(DATA).to_bytes(8, "big") + DATA},
    ]
    for attempt in attempts:
        answer = short.call(**attempt)
        assert (answer.status, answer.code) == (507, "storage_full"), attempt["path"]
        assert "nearly full" in answer.json["error"]["message"] and "windlass gc" in answer.json["error"]["hint"]
    assert [run["id"] for run in short.call("GET", f"{HOME}/runs").json["runs"]] == ["before"]
    assert short.store.blobs.missing([DIGEST]) == [DIGEST]


def test_what_is_there_goes_on(short: Server) -> None:
    run = f"{HOME}/runs/before"
    lines = {"writer": "w", "offset": 0, "lines": [{"n": "loss", "v": 1.0, "t": 1.0}]}
    assert short.call("POST", f"{run}/metrics", lines).status == 200
    assert short.call("PUT", f"{run}/files/outputs/model.bin", raw=DATA).status == 201
    assert short.call("PATCH", run, {"tags": {"a": "b"}}).status == 200
    assert short.call("POST", f"{HOME}/plan", short.submission()).status == 200
    assert short.call("POST", "/api/v1/gc", {"apply": True}).status == 200
    assert short.call("POST", f"{run}/end", {"state": "Completed"}).json["state"] == "Completed"
