"""Files go in once and come out whole, in parts, and never as a page."""

from __future__ import annotations

import hashlib
import http.client
import socket
from datetime import UTC, datetime

import pytest

from tests.server.serving import HOME, Server
from windlass.core.entities import Artifact
from windlass.core.states import Reason, RunState, Step
from windlass.store import Ending


def put(server: Server, run: str, path: str, data: bytes) -> int:
    return server.call("PUT", f"{HOME}/runs/{run}/files/{path}", raw=data).status


def test_a_file_is_kept_and_read_back(server: Server) -> None:
    run = server.interactive()["id"]
    content = bytes(range(256)) * 20_000
    answer = server.call("PUT", f"{HOME}/runs/{run}/files/outputs/model.pkl", raw=content)
    assert answer.status == 201
    assert answer.json["digest"] == hashlib.sha256(content).hexdigest() and answer.json["size"] == len(content)
    read = server.call("GET", f"{HOME}/runs/{run}/files/outputs/model.pkl")
    assert read.raw == content
    listed = server.call("GET", f"{HOME}/runs/{run}/files").json["files"]
    assert [(file["path"], file["size"], file["is_live"]) for file in listed] == [
        ("outputs/model.pkl", len(content), False)
    ]


def test_a_name_is_written_once(server: Server) -> None:
    run = server.interactive()["id"]
    assert put(server, run, "a.txt", b"one") == 201
    assert put(server, run, "a.txt", b"one") == 201
    assert put(server, run, "a.txt", b"two") == 409
    assert server.call("GET", f"{HOME}/runs/{run}/files/a.txt").raw == b"one"


def test_what_a_run_made_is_a_download_in_a_sandbox(shared: Server) -> None:
    run = shared.interactive()["id"]
    put(shared, run, "outputs/p%C3%A4ge.html", b"<script>alert(1)</script>")
    answer = shared.call("GET", f"{HOME}/runs/{run}/files/outputs/p%C3%A4ge.html")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''p%C3%A4ge.html"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("wanted", "status", "content", "place"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-4", 206, b"6789", "bytes 6-9/10"),
        ("bytes=-400", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=5-400", 206, b"56789", "bytes 5-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=5-2", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("bytes=a-b", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
    ],
)
def test_one_range_is_served(
    shared: Server, wanted: str, status: int, content: bytes | None, place: str | None
) -> None:
    run = shared.interactive()["id"]
    put(shared, run, "ten", b"0123456789")
    answer = shared.call("GET", f"{HOME}/runs/{run}/files/ten", headers={"Range": wanted})
    assert answer.status == status and answer.headers.get("content-range") == place
    assert answer.code == "invalid_request" if content is None else answer.raw == content


def test_a_large_file_is_streamed_in_ranges_too(shared: Server) -> None:
    run = shared.interactive()["id"]
    content = bytes(i % 253 for i in range(3_000_000))
    put(shared, run, "large", content)
    path = f"{HOME}/runs/{run}/files/large"
    assert shared.call("GET", path).raw == content
    part = shared.call("GET", path, headers={"Range": "bytes=100-2500000"})
    assert part.raw == content[100:2_500_001] and part.headers["content-length"] == str(2_500_001 - 100)


@pytest.mark.parametrize(
    ("query", "content"),
    [("offset=4", b"456789"), ("offset=4&limit=2", b"45"), ("limit=3", b"012"), ("offset=99", b""), ("limit=0", b"")],
)
def test_a_part_is_read_by_offset(shared: Server, query: str, content: bytes) -> None:
    run = shared.interactive()["id"]
    put(shared, run, "ten", b"0123456789")
    answer = shared.call("GET", f"{HOME}/runs/{run}/files/ten?{query}")
    assert answer.status == 200 and answer.raw == content


def test_a_log_is_a_file_while_it_grows_and_after(server: Server) -> None:
    run = server.submit()["id"]
    path = "user_logs/std_log.txt"
    server.store.logs.append(run, 1, path, 0, b"line 1\n")
    listed = server.call("GET", f"{HOME}/runs/{run}/files").json["files"]
    assert listed == [{"path": path, "size": 7, "is_live": True}]
    assert server.call("GET", f"{HOME}/runs/{run}").json["log_files"] == [path]
    assert server.call("GET", f"{HOME}/runs/{run}/files/{path}?offset=5").raw == b"1\n"
    digest, size = server.store.logs.seal(run, 1, path)
    step = Step(RunState.COMPLETED, Reason.EXITED, "", 0)
    ending = Ending(artifacts=[Artifact(path, digest, size, datetime.now(UTC), 3, 100)])
    server.store.runs.advance(run, expect=RunState.STARTING, step=step, fence=1, ending=ending)
    server.store.logs.drop(run, 1)
    [file] = server.call("GET", f"{HOME}/runs/{run}/files").json["files"]
    assert (file["is_live"], file["gap_offset"], file["gap_length"]) == (False, 3, 100)
    assert server.call("GET", f"{HOME}/runs/{run}/files/{path}").raw == b"line 1\n"


@pytest.mark.parametrize(
    "path",
    [
        "../x", "%2e%2e%2fx", "%2e%2e/%2e%2e/etc/passwd", "..%5cx", "a/../../x", "%2fetc%2fpasswd", "/etc/passwd",
        "file:%2f%2f%2fetc%2fpasswd", "C:/x", "a%00b", "a%0ab", "a//b", "a/./b", "a/", "x" * 256, "..%c0%af..%c0%afx",
        "a%5c..%5cb",
    ],
)  # fmt: skip
def test_a_path_that_leads_out_is_refused(shared: Server, path: str) -> None:
    run = shared.interactive()["id"]
    for method in ("GET", "PUT"):
        answer = shared.call(method, f"{HOME}/runs/{run}/files/{path}", raw=b"x" if method == "PUT" else None)
        assert answer.status in (400, 404), (method, path, answer.raw)
    assert shared.call("GET", f"{HOME}/runs/{run}/files").json["files"] == []


def test_a_snapshot_is_read_file_by_file(server: Server) -> None:
    run = server.submit({"train.py": b"print(1)\n", "data/a.csv": b"1,2\n"})
    shown = server.call("GET", f"{HOME}/runs/{run['id']}/snapshot").json
    assert shown["digest"] == run["snapshot"]
    assert {file["path"] for file in shown["files"]} == {"train.py", "data/a.csv"}
    assert server.call("GET", f"{HOME}/runs/{run['id']}/snapshot/data/a.csv").raw == b"1,2\n"
    assert server.call("GET", f"{HOME}/runs/{run['id']}/snapshot/nothing").status == 404
    bare = server.interactive()["id"]
    assert server.call("GET", f"{HOME}/runs/{bare}/snapshot").status == 404


def test_an_interactive_run_gets_its_snapshot_once(server: Server) -> None:
    run = server.interactive()["id"]
    files = server.submission()["files"]
    path = f"{HOME}/runs/{run}/snapshot"
    assert server.call("POST", path, {"files": files}).status == 201
    assert server.call("POST", path, {"files": files}).status == 201
    other = server.submission({"train.py": b"print(2)\n"})["files"]
    assert server.call("POST", path, {"files": other}).status == 409
    submitted = server.submit()["id"]
    assert server.call("POST", f"{HOME}/runs/{submitted}/snapshot", {"files": files}).status == 409


def test_blobs_are_checked_against_their_digest(server: Server) -> None:
    content = b"some bytes"
    digest = hashlib.sha256(content).hexdigest()
    for _ in range(2):
        answer = server.call("PUT", f"{HOME}/blobs/{digest}", raw=content)
        assert answer.status == 201 and answer.json == {"digest": digest, "size": len(content)}
    wrong = hashlib.sha256(b"others").hexdigest()
    assert server.call("PUT", f"{HOME}/blobs/{wrong}", raw=content).status == 400
    missing = server.call("POST", f"{HOME}/blobs/missing", {"digests": [digest, wrong]}).json
    assert missing == {"missing": [wrong]}


def packed(*contents: bytes) -> bytes:
    return b"".join(
        hashlib.sha256(data).hexdigest().encode() + len(data).to_bytes(8, "big") + data for data in contents
    )


def test_many_blobs_come_in_one_body(server: Server) -> None:
    contents = [b"", b"x", b"y" * 70_000, b"z" * 500_000, *(str(i).encode() for i in range(500))]
    answer = server.call("POST", f"{HOME}/blobs", raw=packed(*contents))
    assert answer.status == 201 and answer.json == {"stored": len(contents)}
    digests = [hashlib.sha256(data).hexdigest() for data in contents]
    assert server.store.blobs.missing(digests) == []
    again = server.call("POST", f"{HOME}/blobs", raw=packed(*contents[:3]))
    assert again.json == {"stored": 3}
    assert server.call("POST", f"{HOME}/blobs", raw=b"").json == {"stored": 0}


@pytest.mark.parametrize(
    "body",
    [
        packed(b"data")[:-1],
        packed(b"data")[:40],
        packed(b"data") + b"rest",
        b"g" * 64 + (1).to_bytes(8, "big") + b"x",
        b"\xff" * 72,
        b"0" * 64 + (1 << 62).to_bytes(8, "big") + b"x",
        b"0" * 64 + (1).to_bytes(8, "big") + b"x",
    ],
)
def test_a_body_that_is_not_blobs_is_refused(shared: Server, body: bytes) -> None:
    answer = shared.call("POST", f"{HOME}/blobs", raw=body)
    assert answer.status == 400 and answer.code == "invalid_request"


def test_an_upload_that_breaks_off_leaves_nothing(shared: Server) -> None:
    content = b"x" * 1_000_000
    digest = hashlib.sha256(content).hexdigest()
    head = (
        f"PUT {HOME}/blobs/{digest} HTTP/1.1\r\nHost: 127.0.0.1:{shared.port}\r\n"
        f"Authorization: Bearer {shared.token}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", shared.port)) as connection:
        connection.sendall(head.encode() + content[:500_000])
    answer = shared.call("PUT", f"{HOME}/blobs/{digest}", raw=content)
    assert answer.status == 201
    assert shared.store.blobs.size(digest) == len(content)


def test_a_refused_upload_hears_why(shared: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=20)
    connection.request("PUT", f"{HOME}/blobs/{'0' * 64}", b"x" * 100_000)
    assert connection.getresponse().status == 401
    connection.close()
