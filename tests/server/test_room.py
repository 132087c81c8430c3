"""A disk that is nearly full takes in nothing new, and all that is there already goes on."""

from __future__ import annotations

import hashlib
import http.client
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import disks
from tests.server.serving import HOME, Answer, Server, serving
from windlass.core.errors import StorageFull
from windlass.store.files.disk_reserve import DiskReserve

MB = 1 << 20
DATA = b"x" * 1000
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Server]:
    """A server whose disk has less free space than the reserve and more than half of it; with a run from before."""
    url = f"sqlite:///{tmp_path}/db.sqlite"
    with serving(url, tmp_path) as server:
        server.interactive(run_id="before")
    with serving(url, tmp_path, disk_reserve_bytes=shutil.disk_usage(tmp_path).free * 3 // 2) as server:
        yield server


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Server | None]:
    """A server on a disk of 64 MB, 32 MB of which are the reserve; None where the tests may not mount disks."""
    if not disks.may_mount():
        yield None
        return
    with (
        disks.small_disk(tmp_path, 64) as disk,
        serving(f"sqlite:///{disk}/db.sqlite", disk, disk_reserve_bytes=32 * MB) as server,
    ):
        server.interactive(run_id="before")
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


def begin_upload(server: Server, method: str, path: str, length: int) -> Answer:
    """The answer to an upload of `length` bytes of which only the first 300 KB are sent."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.putrequest(method, path)
        connection.putheader("Authorization", f"Bearer {server.token}")
        connection.putheader("Content-Length", str(length))
        connection.endheaders(bytes(300_000))
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", f"{HOME}/blobs/{DIGEST}"),
        ("POST", f"{HOME}/blobs"),
        ("PUT", f"{HOME}/runs/before/files/outputs/model.bin"),
    ],
)
def test_an_upload_larger_than_the_free_space_is_refused_by_its_length(shared: Server, method: str, path: str) -> None:
    if not shared.call("GET", f"{HOME}/runs").json["runs"]:
        shared.interactive(run_id="before")
    length = shutil.disk_usage(shared.context.settings.files).total
    answer = begin_upload(shared, method, path, length)
    assert (answer.status, answer.code) == (507, "storage_full")
    assert "no room for" in answer.json["error"]["message"]
    assert not list(shared.store.blobs.aside.iterdir())


def body(pieces: int) -> Iterator[bytes]:
    for _ in range(pieces):
        yield bytes(MB)


@pytest.mark.parametrize("kept_free", [32, 16])
def test_an_upload_without_a_length_is_stopped_at_the_reserve(small_disk: Server | None, kept_free: int) -> None:
    """New files leave the whole reserve free, files of a run that exists leave half of it."""
    if small_disk is None:
        return
    digest = hashlib.sha256(bytes(60 * MB)).hexdigest()
    path = f"{HOME}/blobs/{digest}" if kept_free == 32 else f"{HOME}/runs/before/files/outputs/model.bin"
    reserve = DiskReserve(small_disk.context.settings.files, kept_free * MB)
    before = reserve.free_bytes()
    lowest = [before]

    def watched() -> Iterator[bytes]:
        for piece in body(60):
            lowest.append(reserve.free_bytes())
            yield piece

    answer = small_disk.put_chunked(path, watched())
    assert (answer.status, answer.code) == (507, "storage_full")
    assert min(lowest) >= kept_free * MB
    assert not list(small_disk.store.blobs.aside.iterdir())
    assert before - reserve.free_bytes() < MB
    small = small_disk.put_chunked(f"{HOME}/runs/before/files/outputs/small.bin", body(4))
    assert (small.status, small.json["size"]) == (201, 4 * MB)


def test_a_stream_is_stopped_before_it_uses_the_reserve(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path, 0)
    assert list(reserve.guard([b"a", b"b"])) == [b"a", b"b"]
    full = DiskReserve(tmp_path, shutil.disk_usage(tmp_path).total + MB)
    with pytest.raises(StorageFull, match="nearly full"):
        next(full.guard([b"a"]))
