"""What is not one clear JSON object, or does not come in time, is refused with a sentence and without effect."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import migrated_sqlite
from tests.server.serving import API, HOME, Server, serving
from windlass.server.http import bodies, connection_limits

JSON = {"Content-Type": "application/json"}
DEEP = b'{"experiment": "deep", "spec": {"definition": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}}"

BODIES = [
    (b"", "empty"),
    (b"null", "null"),
    (b"[]", "list"),
    (b'"x"', "text"),
    (b"{", "truncated"),
    (b'{"name": "a"', "truncated later"),
    (b'{"name": "a", "name": "b"}', "repeated key"),
    (b'{"name": "\xff"}', "not UTF-8"),
    ('{"name": "a"}'.encode("utf-16"), "UTF-16"),
    (b'\xef\xbb\xbf{"name": "a"}', "byte order mark"),
    (b'{"name": NaN}', "NaN"),
    (b'{"name": Infinity}', "infinite"),
    (b'{"name": 1e400}', "too large a number"),
    (b'{"name": ' + b"9" * 10_000 + b"}", "too long a number"),
    (b'{"name": "a", "colour": "red"}', "unknown key"),
    (b'{"name": 1}', "wrong kind"),
    (b'{"name": null}', "null name"),
    (b'{"name": "\\ud800"}', "half a pair"),
    (b'{"name": "a\\u0000b"}', "NUL"),
    (b"[" * 100_000, "deep lists"),
    (DEEP, "deep objects"),
]


@pytest.mark.parametrize(("body", "why"), BODIES, ids=[why for _, why in BODIES])
def test_a_body_that_means_nothing_clear_is_refused(shared: Server, body: bytes, why: str) -> None:
    answer = shared.call("POST", f"{HOME}/experiments", raw=body, headers=JSON)
    assert answer.status == 400 and answer.code == "invalid_request"
    assert shared.call("GET", f"{HOME}/experiments").json["experiments"] == []


def test_depth_is_bounded_where_anything_may_stand(shared: Server) -> None:
    def nested(levels: int) -> bytes:
        inner = b'{"a":' * levels + b"1" + b"}" * levels
        body = json.dumps(shared.submission(spec={"script": "train.py", "definition": "HERE"})).encode()
        return body.replace(b'"HERE"', inner)

    assert shared.call("POST", f"{HOME}/runs", raw=nested(50), headers=JSON).status == 201
    assert shared.call("POST", f"{HOME}/runs", raw=nested(70), headers=JSON).status == 400


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/json", "application/jsonx"],
)
def test_other_media_are_refused(shared: Server, media: str) -> None:
    answer = shared.call("POST", f"{HOME}/experiments", raw=b'{"name": "x"}', headers={"Content-Type": media})
    assert answer.status == 415


def test_json_with_a_character_set_is_taken(tmp_path: Path) -> None:
    with serving(migrated_sqlite(tmp_path), tmp_path) as server:
        headers = {"Content-Type": "Application/JSON; charset=utf-8"}
        assert server.call("POST", f"{HOME}/experiments", raw=b'{"name": "x"}', headers=headers).status == 200


def test_compressed_bodies_are_refused(shared: Server) -> None:
    for coding in ("gzip", "deflate", "br", "zstd"):
        headers = {**JSON, "Content-Encoding": coding}
        assert shared.call("POST", f"{HOME}/experiments", raw=b"\x1f\x8b", headers=headers).status == 415


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Server]:
    with serving(migrated_sqlite(tmp_path), tmp_path, json_limit_bytes=10_000, manifest_limit_bytes=20_000) as server:
        yield server


def test_a_body_beyond_the_limit_is_refused_while_it_comes(small: Server) -> None:
    large = b'{"name": "' + b"x" * 15_000 + b'"}'
    answer = small.call("POST", f"{HOME}/experiments", raw=large, headers=JSON)
    assert answer.status == 413 and answer.code == "too_large"
    assert small.call("POST", f"{HOME}/blobs/missing", raw=large, headers=JSON).status == 400, "manifests may be larger"
    assert small.call("POST", f"{HOME}/blobs/missing", raw=large * 2, headers=JSON).status == 413


def test_a_body_without_an_end_is_cut_off_at_the_limit(small: Server) -> None:
    head = (
        f"POST {HOME}/experiments HTTP/1.1\r\nHost: 127.0.0.1:{small.port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {small.token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", small.port), timeout=20) as connection:
        connection.sendall(head.encode())
        for _ in range(20):
            connection.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")
        assert b" 413 " in connection.recv(100)


@pytest.mark.parametrize("length", ["-1", "abc", "1e3", "99999999999999999999999999", "5, 6"])
def test_a_length_that_cannot_be_is_refused(shared: Server, length: str) -> None:
    head = (
        f"POST {HOME}/experiments HTTP/1.1\r\nHost: 127.0.0.1:{shared.port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {shared.token}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{{}}"
    )
    assert b" 400 " in shared.send(head.encode()).split(b"\r\n")[0]


def test_a_body_that_never_comes_is_not_waited_for(shared: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.3)
    head = (
        f"POST {HOME}/experiments HTTP/1.1\r\nHost: 127.0.0.1:{shared.port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {shared.token}\r\nContent-Length: 100\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", shared.port), timeout=20) as connection:
        connection.sendall(head.encode() + b"{")
        assert b" 408 " in connection.recv(100)


def test_a_head_that_never_ends_is_not_waited_for(shared: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "HEAD_SECONDS", 0.3)
    for start in (b"", b"GET /api/v1/health HTTP/1.1\r\nHost: x"):
        with socket.create_connection(("127.0.0.1", shared.port), timeout=20) as connection:
            connection.sendall(start)
            assert connection.recv(100) == b""


def test_a_head_without_bound_is_refused(shared: Server) -> None:
    head = f"GET {API}/health HTTP/1.1\r\nHost: 127.0.0.1:{shared.port}\r\n" + "X-A: b\r\n" * 100_000
    with socket.create_connection(("127.0.0.1", shared.port), timeout=20) as connection:
        try:
            connection.sendall(head.encode())
            first = connection.recv(100)
        except ConnectionError:
            return
    assert b" 400 " in first


def test_kept_connections_go_on_after_a_refusal(shared: Server) -> None:
    """A refusal leaves the connection in order, however much of the body was read."""
    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=20)
    headers = {"Authorization": f"Bearer {shared.token}", **JSON}
    for body in (b"[]", b"{", b'{"name": "ok-name"}' + b" " * 1000, b'{"name": 3}'):
        connection.request("POST", f"{API}/workspaces/nowhere/experiments", body, headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 404
    connection.close()


def test_names_are_checked_at_the_edge(shared: Server) -> None:
    bad = [
        "", " ", "..", ".", "-rf", "a/b", "a\\b", "a\0b", "a\nb", "\u202ex", "\ufeffx", "é", "😀", "x" * 65_536,
        "<script>alert(1)</script>", "{{7*7}}", "${jndi:x}", "%s%n", "'; DROP TABLE runs;--", "=cmd|' /C calc'!A0",
    ]  # fmt: skip
    for name in bad:
        for path, body in ((f"{HOME}/experiments", {"name": name}), (f"{API}/workspaces", {"name": name})):
            answer = shared.call("POST", path, body)
            assert answer.status == 400 and answer.code == "invalid_request", (name, answer.raw)
    tags = ["", " ", "a\nb", "\u202e", "x" * 101, "a\0b"]
    run = shared.interactive()["id"]
    for key in tags:
        assert shared.call("PATCH", f"{HOME}/runs/{run}", {"tags": {key: "v"}}).status == 400, key
    assert shared.call("PATCH", f"{HOME}/runs/{run}", {"tags": {"k": "v" * 1001}}).status == 400
    assert shared.call("GET", f"{HOME}/runs/{run}").json["tags"] == {}


def test_markup_in_free_text_is_kept_as_it_is(shared: Server) -> None:
    text = "<script>alert(1)</script> {{7*7}} %s 'x' é 😀"
    run = shared.interactive(name=text, tags={"t": text})["id"]
    shown = shared.call("GET", f"{HOME}/runs/{run}").json
    assert shown["name"] == text and shown["tags"] == {"t": text}


@pytest.mark.parametrize("key", ["", "k" * 201, "é", "a\tb"])
def test_an_idempotency_key_has_bounds(shared: Server, key: str) -> None:
    before = len(shared.call("GET", f"{HOME}/runs").json["runs"])
    answer = shared.call("POST", f"{HOME}/runs", shared.submission(), headers={"Idempotency-Key": key})
    assert answer.status == 400
    assert len(shared.call("GET", f"{HOME}/runs").json["runs"]) == before


def test_without_a_token_the_body_is_not_even_looked_at(shared: Server) -> None:
    for body, _ in BODIES:
        assert shared.call("POST", f"{HOME}/runs", raw=body, token=None, headers=JSON).status == 401


def test_who_was_refused_cannot_go_on_sending(shared: Server) -> None:
    head = f"PUT {HOME}/blobs/{'0' * 64} HTTP/1.1\r\nHost: 127.0.0.1:{shared.port}\r\nContent-Length: {1 << 40}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", shared.port), timeout=20) as connection:
        connection.sendall(head.encode())
        assert b" 401 " in connection.recv(100)
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                connection.sendall(b"x" * (1 << 20))
