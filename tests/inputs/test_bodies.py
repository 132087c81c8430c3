"""Group A: bodies and headers that are not what they should be, at every route that takes a body."""

from __future__ import annotations

import gzip
import json
import socket
import time

import pytest

from tests.inputs.operations import operations, taking_json
from tests.inputs.outside import API, JSON, WS, Outside, read_answer

DEEP = b'{"a":' * 10_000 + b"1" + b"}" * 10_000

# What is no JSON object at all, whichever route it is sent to.
NO_OBJECTS = {
    "A1 empty": b"",
    "A1 blank": b" \r\n\t ",
    "A2 null": b"null",
    "A3 list": b"[]",
    "A3 full list": b'[{"experiment": "inputs"}]',
    "A4 text": b'"x"',
    "A4 number": b"1",
    "A4 true": b"true",
    "A5 open": b"{",
    "A5 cut key": b'{"experim',
    "A5 cut value": b'{"experiment": "inp',
    "A5 cut end": b'{"experiment": "inputs"',
    "A5 comma": b'{"experiment": "inputs",}',
    "A5 more": b"{}{}",
    "A5 comment": b"{} // x",
    "A5 single quotes": b"{'experiment': 'inputs'}",
    "A6 same key": b'{"experiment": "inputs", "experiment": "other"}',
    "A6 same key by escape": b'{"name": "inputs", "n\\u0061me": "other"}',
    "A6 same key inside": b'{"spec": {"script": "a.py", "script": "b.py"}}',
    "A7 deep objects": DEEP,
    "A7 deep lists": b"[" * 100_000,
    "A7 deep in a field": b'{"name": ' + DEEP + b"}",
    "A12 not UTF-8": b'{"name": "\xff\xfe"}',
    "A12 cut character": b'{"name": "\xe2\x82"}',
    "A12 overlong": b'{"name": "\xc0\xaf"}',
    "A12 surrogate bytes": b'{"name": "\xed\xa0\x80"}',
    "A12 UTF-16": '{"name": "x"}'.encode("utf-16"),
    "A12 UTF-16 without mark": '{"name": "x"}'.encode("utf-16-le"),
    "A12 UTF-32": '{"name": "x"}'.encode("utf-32"),
    "A12 byte order mark": b'\xef\xbb\xbf{"name": "x"}',
    "A12 Latin-1": '{"name": "é"}'.encode("latin-1"),
    "A13 half a number": b'{"name": 1.}',
    "A13 hexadecimal": b'{"name": 0x10}',
    "A13 a million digits": b'{"name": ' + b"9" * 1_000_000 + b"}",
    "A13 minus": b'{"name": -}',
    "A14 unknown key": b'{"colour": "red"}',
    "A14 unknown key of Python": b'{"__class__": "Run", "__init__": {}}',
    "A14 prototype": b'{"__proto__": {"admin": true}}',
    "A12 NUL": b'{"name": "a\\u0000b", "experiment": "a\\u0000b"}',
    "A12 raw NUL": b'{"name": "a\0b"}',
    "A12 half a pair": b'{"name": "\\ud800", "experiment": "\\udfff"}',
}


@pytest.mark.parametrize("body", NO_OBJECTS.values(), ids=NO_OBJECTS)
def test_what_is_no_clear_object_is_refused_everywhere(server: Outside, body: bytes) -> None:
    with server.unchanged():
        for operation in taking_json():
            server.call(operation.method, operation.target(), raw=body, headers=JSON).refused()


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "-0", "9223372036854775808", "9007199254740993", "1e308"]


@pytest.mark.parametrize("number", NUMBERS)
def test_a13_odd_numbers_in_any_place_do_no_harm(server: Outside, number: str) -> None:
    """Every place of a submit that takes a number, and some that do not."""
    body = json.dumps(server.submission(environment_variables={"A": "HERE"}, definition={"x": "HERE"}))
    places = [
        '"max_run_duration_seconds": HERE', '"grace_seconds": HERE', '"priority": HERE', '"resources": {"nodes": HERE}',
        '"resources": {"cpus": HERE}', '"resources": {"gpus": HERE}', '"resources": {"memory_mb": HERE}',
        '"target": HERE', '"arguments": [HERE]', '"environment": {"python_version": HERE}',
    ]  # fmt: skip
    with server.unchanged():
        for place in places:
            text = body.replace('"grace_seconds": 1', place.replace("HERE", number))
            if place.startswith(('"grace', '"priority')) and number == "-0":
                continue  # that is zero, and a good value
            answer = server.call("POST", f"{WS}/plan", raw=text.encode(), headers=JSON)
            assert answer.status < 500, (place, answer)
            if answer.status >= 400:
                answer.refused()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400"])
def test_a13_what_is_no_number_cannot_be_stored_in_settings(server: Outside, number: str) -> None:
    with server.unchanged():
        for name in ("keep_runs_days", "log_cap_bytes", "local_slots"):
            body = f'{{"{name}": {number}}}'.encode()
            server.call("PATCH", f"{API}/settings", raw=body, headers=JSON).refused(400)


def test_a14_an_unknown_field_is_named(server: Outside) -> None:
    with server.unchanged():
        body = {**server.submission(), "colour": "red"}
        assert "colour" in server.call("POST", f"{WS}/runs", body).refused(400)
        body = server.submission(shape="round")
        assert "shape" in server.call("POST", f"{WS}/runs", body).refused(400)


def test_a8_a_body_of_100_mb_is_refused(sqlite: Outside) -> None:
    with sqlite.unchanged():
        large = b'{"name": "' + b"x" * 100_000_000 + b'"}'
        for path in (f"{WS}/experiments", f"{WS}/runs", f"{API}/gc"):
            try:
                sqlite.call("POST", path, raw=large, headers=JSON).refused(413)
            except ConnectionResetError:
                pass  # it hung up on us, which is an answer too


def test_a8_a_body_of_millions_of_values_is_refused_before_it_is_read(sqlite: Outside) -> None:
    with sqlite.unchanged():
        crowded = b"[" + b"[]," * 1_000_000 + b"[]]"
        for path in (f"{WS}/experiments", f"{WS}/runs", f"{WS}/blobs/missing"):
            assert "million values" in sqlite.call("POST", path, raw=crowded, headers=JSON).refused(413)


LENGTHS = ["-1", "abc", "", "1e3", "0x10", "+5", "5, 5", "5 5", "99999999999999999999", "\u0665", "5;q=1"]


@pytest.mark.parametrize("length", LENGTHS)
def test_a9_a_length_that_is_no_number_is_refused(sqlite: Outside, length: str) -> None:
    headers = [*JSON.items(), ("Authorization", f"Bearer {sqlite.token}"), ("Content-Length", length)]
    with sqlite.unchanged():
        assert sqlite.say("POST", f"{WS}/experiments", headers, b'{"name": "made"}').status == 400


def test_a9_two_lengths_are_refused(sqlite: Outside) -> None:
    """What two readers understand differently is how requests are smuggled."""
    common = [*JSON.items(), ("Authorization", f"Bearer {sqlite.token}")]
    with sqlite.unchanged():
        for more in (
            [("Content-Length", "16"), ("Content-Length", "5")],
            [("Content-Length", "16"), ("Transfer-Encoding", "chunked")],
            [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "identity")],
            [("Transfer-Encoding", "chunked, identity")],
            [("Transfer-Encoding", "xchunked")],
        ):
            answer = sqlite.say("POST", f"{WS}/experiments", [*common, *more], b'{"name": "made"}')
            assert 400 <= answer.status < 500, more


def test_a9_a_body_shorter_than_promised_has_no_effect(sqlite: Outside) -> None:
    with sqlite.unchanged():
        for operation in operations():
            if not operation.takes:
                continue
            head = _head(sqlite, operation.method, operation.target(), "Content-Length: 1000")
            with sqlite.connect() as connection:
                connection.sendall(head + b'{"name": "made"}')
                connection.shutdown(socket.SHUT_WR)
                said = connection.recv(1 << 16)
            assert not said or 400 <= int(said.split()[1]) < 500, said


def test_a9_more_than_was_promised_is_not_another_request(sqlite: Outside) -> None:
    """The rest is read as the next request, finds no right to be one, and changes nothing."""
    body = b'{"apply": false}'
    more = b"DELETE /api/v1/workspaces/default/experiments/x HTTP/1.1\r\nConnection: close\r\n\r\n"
    with sqlite.unchanged():
        head = _head(sqlite, "POST", f"{API}/gc", f"Content-Length: {len(body)}")
        with sqlite.connect() as connection:
            connection.sendall(head + body + more)
            said = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    statuses = [line.split()[1] for line in said.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert statuses[0] == b"200" and statuses[1:] in ([], [b"403"])


BAD_CHUNKS = [b"ZZ\r\n", b"-5\r\n{}\r\n", b"FFFFFFFFFFFFFFFFFF\r\n", b"2\r\n{}X\r\n0\r\n\r\n", b"\r\n"]


@pytest.mark.parametrize("chunks", BAD_CHUNKS, ids=range(len(BAD_CHUNKS)))
def test_a10_chunks_that_cannot_be_are_refused(sqlite: Outside, chunks: bytes) -> None:
    with sqlite.unchanged(), sqlite.connect() as connection:
        connection.sendall(_head(sqlite, "POST", f"{API}/gc", "Transfer-Encoding: chunked") + chunks)
        assert 400 <= read_answer(connection).status < 500


def test_a10_slow_callers_hold_up_nobody(sqlite: Outside) -> None:
    """Two hundred of them, each in the middle of something: the head, a length, a chunk, an upload."""
    beginnings = [
        b"POST /api/v1/gc HT",
        _head(sqlite, "POST", f"{API}/gc", "Content-Length: 100") + b"{",
        _head(sqlite, "POST", f"{API}/gc", "Transfer-Encoding: chunked") + b"5\r\n{",
        _head(sqlite, "PUT", f"{WS}/blobs/{'0' * 64}", "Content-Length: 100") + b"x",
        _head(sqlite, "POST", f"{WS}/blobs", "Transfer-Encoding: chunked") + b"1\r\n0\r\n",
    ]
    slow = [sqlite.connect() for _ in range(200)]
    try:
        for number, connection in enumerate(slow):
            connection.sendall(beginnings[number % len(beginnings)])
        assert sqlite.call("GET", f"{WS}/runs").status == 200
        assert sqlite.call("POST", f"{WS}/experiments", {"name": "inputs"}).status == 200
        assert sqlite.run("print('quick')")["state"] == "Completed"
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.slow
def test_a10_what_never_ends_is_cut_off(sqlite: Outside) -> None:
    """A byte now and then keeps nobody's place for ever."""
    never = {
        "head": b"POST /api/v1/gc HTTP/1.1\r\nX: ",
        "body": _head(sqlite, "POST", f"{API}/gc", "Content-Length: 1000"),
        "chunks": _head(sqlite, "POST", f"{API}/gc", "Transfer-Encoding: chunked"),
        "upload": _head(sqlite, "PUT", f"{WS}/blobs/{'0' * 64}", "Content-Length: 1000"),
    }
    drip = {"head": b"x", "body": b" ", "chunks": b"1\r\n \r\n", "upload": b"x"}
    waiting = {name: sqlite.connect() for name in never}
    with sqlite.unchanged():
        for name, connection in waiting.items():
            connection.sendall(never[name])
        deadline = time.monotonic() + 60
        while waiting and time.monotonic() < deadline:
            time.sleep(1)
            for name, connection in list(waiting.items()):
                connection.setblocking(False)
                try:
                    connection.send(drip[name])
                    said = connection.recv(1 << 16)
                except BlockingIOError:
                    continue
                except (BrokenPipeError, ConnectionResetError):
                    said = b""
                assert not said or b" 408 " in said or b" 400 " in said, (name, said)
                waiting.pop(name).close()
        assert not waiting, f"{sorted(waiting)} is still waited for"


MEDIA = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json", "*/*"]


@pytest.mark.parametrize("media", MEDIA)
def test_a11_other_media_are_refused_everywhere(sqlite: Outside, media: str) -> None:
    """Also because a page of a browser may send the first three without asking."""
    with sqlite.unchanged():
        for operation in taking_json():
            headers = {"Content-Type": media}
            sqlite.call(operation.method, operation.target(), raw=b"{}", headers=headers).refused(415)
        headers = {"Authorization": f"Bearer {sqlite.token}", "Content-Length": "2"}
        sqlite.say("POST", f"{API}/gc", headers.items(), b"{}").refused(415)


def test_a15_a_bomb_stays_packed(sqlite: Outside) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    with sqlite.unchanged():
        for coding in ("gzip", "x-gzip", "deflate", "br", "zstd", "gzip, gzip", "GZIP"):
            headers = {**JSON, "Content-Encoding": coding}
            sqlite.call("POST", f"{WS}/runs", raw=bomb, headers=headers).refused(415)
        head = _head(sqlite, "POST", f"{API}/gc", "Transfer-Encoding: gzip, chunked")
        said = sqlite.answer(head + f"{len(bomb):x}\r\n".encode() + bomb + b"\r\n0\r\n\r\n")
        assert 400 <= said.status < 500


HEADS = {
    "a long header": b"X-Long: " + b"x" * 1_000_000,
    "many headers": b"\r\n".join(b"X-%d: y" % i for i in range(50_000)),
    "no colon": b"nonsense",
    "a name with a space": b"X Y: z",
    "a folded header": b"X-A: b\r\n c",
    "a NUL": b"X-A: b\0c",
    "a bare line feed": b"X-A: b\nAuthorization: Bearer x",
    "a bare carriage return": b"X-A: b\rX-B: c",
    "an empty name": b": x",
}


@pytest.mark.parametrize("header", HEADS.values(), ids=HEADS)
def test_heads_that_are_not_http_are_refused_or_harmless(sqlite: Outside, header: bytes) -> None:
    head = _head(sqlite, "GET", f"{API}/status", "Connection: close").removesuffix(b"\r\n")
    with sqlite.unchanged():
        try:
            said = sqlite.answer(head + header + b"\r\n\r\n")
        except ConnectionResetError:
            return
        assert said.status == 200 or 400 <= said.status < 500


NOT_HTTP = [
    b"GET",
    b"\r\n\r\n",
    b"GET /\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n",
    b"\0" * 100,
    b"G" * 1_000_000,
    b"GET /" + b"a" * 1_000_000,
    b"GET /%zz HTTP/1.0\r\n\r\n",
]


@pytest.mark.parametrize("line", NOT_HTTP, ids=range(len(NOT_HTTP)))
def test_what_is_not_http_is_not_served(sqlite: Outside, line: bytes) -> None:
    with sqlite.connect() as connection:
        try:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            said = connection.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError, OSError) as e:
            assert not isinstance(e, TimeoutError)
            return
    assert not said or 400 <= int(said.split()[1]) < 500, said


def test_a_connection_that_breaks_at_any_point_does_no_harm(sqlite: Outside) -> None:
    """After every tenth byte of a submit, and right after its last."""
    body = json.dumps(sqlite.submission("print('never')")).encode()
    whole = _head(sqlite, "POST", f"{WS}/runs", f"Content-Length: {len(body)}") + body
    with sqlite.unchanged():
        for length in range(0, len(whole), 10):
            with sqlite.connect() as connection:
                connection.sendall(whole[:length])
    with sqlite.connect() as connection:
        connection.sendall(whole)
        sqlite.world.wait_final(read_answer(connection, "POST").kept()["id"])


def _head(server: Outside, method: str, target: str, *headers: str) -> bytes:
    media = "application/octet-stream" if "/blobs" in target else "application/json"
    lines = [
        f"{method} {target} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: Bearer {server.token}",
        f"Content-Type: {media}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
