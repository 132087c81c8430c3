"""HTTP session: connection reuse, idempotent retries, errors rebuilt by code."""

from __future__ import annotations

import os

import pytest

from tests.client.fake_server import FakeServer, answer, refusal, serving, unreachable_address
from windlass.client.http.connection import Url
from windlass.client.http.session import Address, Session
from windlass.core.errors import (
    Conflict,
    Denied,
    InternalError,
    InvalidRequest,
    NotFound,
    ServerUnavailable,
    SnapshotIncomplete,
    StorageFull,
    TooLarge,
    TooMany,
)


def session_for(server: FakeServer, patience: float = 60.0) -> Session:
    return Session(lambda: Address(server.url, "secret"), patience, patience)


def test_a_call_is_json_with_token_both_ways() -> None:
    with serving(answer({"a": 1})) as server:
        assert session_for(server).call("POST", "/x", {"b": [1]}, {"q": "a b", "n": None, "m": [1, 2]}) == {"a": 1}
    (request,) = server.requests
    assert (request.method, request.target, request.body) == ("POST", "/api/v1/x?q=a+b&m=1&m=2", b'{"b":[1]}')
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["host"] == server.url[len("http://") :]
    assert request.headers["content-type"] == "application/json"


def test_the_connection_is_kept() -> None:
    with serving(answer(1), answer(2), b"HTTP/1.1 204 X\r\n\r\n", answer(3)) as server:
        session = session_for(server)
        assert [session.call("GET", "/x") for _ in range(4)] == [1, 2, None, 3]
    assert [request.connection for request in server.requests] == [1, 1, 1, 1]


def test_an_idle_connection_that_was_closed_is_replaced_at_once() -> None:
    with serving(answer(1), b"", answer(2)) as server:
        session = session_for(server, patience=0.0)
        assert session.call("GET", "/a") == 1
        assert session.call("GET", "/b") == 2
    assert [request.connection for request in server.requests] == [1, 1, 2]


def test_a_lost_answer_is_asked_for_again_with_the_same_key() -> None:
    with serving(b"", b"", answer({"id": "r"}, 201)) as server:
        assert session_for(server).call("POST", "/runs", {"x": 1}, key="k1") == {"id": "r"}
    assert [request.headers["idempotency-key"] for request in server.requests] == ["k1"] * 3
    assert len({request.body for request in server.requests}) == 1


def test_a_busy_server_is_asked_again_when_it_says_so() -> None:
    with serving(
        refusal("too_many", 429, "Retry-After: 0\r\n"), refusal("server_unavailable", 503), answer(1)
    ) as server:
        assert session_for(server).call("GET", "/x") == 1
    assert len(server.requests) == 3


def test_patience_ends() -> None:
    with serving(*[refusal("too_many", 429)] * 50) as server, pytest.raises(TooMany):
        session_for(server, patience=0.2).call("GET", "/x")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refusal("not_found", 404), NotFound),
        (refusal("denied", 403), Denied),
        (refusal("conflict", 409), Conflict),
        (refusal("storage_full", 507), StorageFull),
        (refusal("internal_error", 500), InternalError),
        (b"HTTP/1.1 400 X\r\nContent-Length: 3\r\n\r\nbad", InvalidRequest),
        (b"HTTP/1.1 500 X\r\nContent-Length: 3\r\n\r\nbad", InternalError),
        (answer(["odd"], 404), NotFound),
        (answer({"error": "odd"}, 418), InvalidRequest),
    ],
)
def test_errors_are_rebuilt_and_not_tried_again(reply: bytes, kind: type[Exception]) -> None:
    with serving(reply, answer(1)) as server:
        session = session_for(server)
        with pytest.raises(kind):
            session.call("GET", "/x")
        assert session.call("GET", "/x") == 1
    assert len(server.requests) == 2


def test_an_error_keeps_its_hint_and_details() -> None:
    reply = refusal("snapshot_incomplete", 409, details={"missing": ["d"]})
    with serving(reply) as server, pytest.raises(SnapshotIncomplete) as caught:
        session_for(server).call("POST", "/x", {})
    assert (caught.value.message, caught.value.hint, caught.value.details) == ("m", "h", {"missing": ["d"]})


def test_nobody_there_is_said_in_two_lines() -> None:
    with unreachable_address() as url, pytest.raises(ServerUnavailable) as caught:
        Session(lambda: Address(url, "secret"), 0.0, 0.0).call("GET", "/x")
    assert url in caught.value.message
    assert len(str(caught.value).splitlines()) == 2


def test_who_cannot_find_a_server_is_asked_once() -> None:
    asked: list[int] = []

    def locate() -> Address:
        asked.append(1)
        raise ServerUnavailable("none can be started")

    with pytest.raises(ServerUnavailable, match="none can be started"):
        Session(locate, 60.0, 60.0).call("GET", "/x")
    assert len(asked) == 1


def test_a_server_that_moved_is_found_again() -> None:
    with unreachable_address() as gone, serving(answer(5)) as server:
        places = [Address(gone, "old"), Address(server.url, "new")]
        session = Session(lambda: places.pop(0), 60.0, 60.0)
        assert session.call("GET", "/x") == 5
    assert server.requests[0].headers["authorization"] == "Bearer new"


CHUNKED = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_chunks_interim_answers_and_bodies_until_the_end() -> None:
    interim = b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
    with serving(
        interim + CHUNKED + b"3;x=y\r\n[1,\r\n2\r\n2]\r\n0\r\nTrailer: x\r\n\r\n",
        answer(2),
        b"HTTP/1.1 200 X\r\n\r\n[3]",
    ) as server:
        session = session_for(server)
        assert [session.call("GET", "/x") for _ in range(3)] == [[1, 2], 2, [3]]


@pytest.mark.parametrize(
    "reply",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 abc X\r\n\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: many\r\n\r\n",
        CHUNKED + b"zz\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nshort",
    ],
)
def test_what_is_not_http_is_an_error_of_the_connection(reply: bytes) -> None:
    with serving(*[reply] * 20) as server, pytest.raises(ServerUnavailable):
        session_for(server, patience=0.0).call("GET", "/x")


def test_bytes_are_sent_from_an_iterator_and_again_if_need_be() -> None:
    made: list[int] = []

    def pieces() -> list[bytes]:
        made.append(1)
        return [b"ab", b"c"]

    with serving(b"", answer({}, 201)) as server:
        session_for(server).transfer("PUT", "/blob", pieces, 3)
    assert [request.body for request in server.requests] == [b"abc", b"abc"]
    assert len(made) == 2


def part(body: bytes, length: int, status: int = 200) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n".encode() + body


@pytest.mark.parametrize("second", [part(b"cdef", 4, 206), part(b"abcdef", 6)], ids=["range", "server-without-ranges"])
def test_a_download_goes_on_where_it_broke(second: bytes) -> None:
    with serving(part(b"ab", 6), second) as server:
        assert b"".join(session_for(server).download("/file")) == b"abcdef"
    assert server.requests[1].headers["range"] == "bytes=2-"


def test_a_download_that_breaks_often_goes_on_as_long_as_something_comes() -> None:
    """A user who pages through a log by hand reads so slowly that the server closes the connection again and again."""
    content = b"abcdefghij"
    parts = [part(content[i : i + 1], len(content) - i, 206 if i else 200) for i in range(len(content))]
    with serving(*parts) as server:
        assert b"".join(session_for(server).download("/file")) == content


EVENTS = (
    b': welcome\n\nevent: log\nid: a:1\ndata: {"x":1}\n\n'
    b"data: two\ndata: lines\n\nevent: end\r\ndata: {}\r\n\r\nevent: half\ndata: cut"
)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_server_sent_events_in_any_cuts(size: int) -> None:
    cuts = [EVENTS[i : i + size] for i in range(0, len(EVENTS), size)]
    body = b"".join(f"{len(cut):x}\r\n".encode() + cut + b"\r\n" for cut in cuts) + b"0\r\n\r\n"
    with serving(CHUNKED + body) as server:
        found = list(session_for(server).events("/stream", {"log": "auto"}))
    assert found == [("log", '{"x":1}'), ("message", "two\nlines"), ("end", "{}")]
    assert server.requests[0].target == "/api/v1/stream?log=auto"


def test_a_stream_that_breaks_is_told() -> None:
    with serving(CHUNKED + b"9\r\ndata: 1\n\n\r\n") as server:
        stream = session_for(server).events("/stream")
        assert next(stream) == ("message", "1")
        with pytest.raises(OSError, match="closed the connection"):
            next(stream)


def test_a_forked_process_uses_its_own_connection() -> None:
    with serving(*[answer(i) for i in range(3)]) as server:
        session = session_for(server)
        session.call("GET", "/parent")
        child = os.fork()
        if child == 0:
            session.call("GET", "/child")
            os._exit(0)
        os.waitpid(child, 0)
        session.call("GET", "/parent")
    connections = {request.target.rpartition("/")[2]: request.connection for request in server.requests}
    assert connections["child"] != connections["parent"]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("http://127.0.0.1:8080", ("127.0.0.1", 8080, "", "127.0.0.1:8080")),
        ("https://example.org/windlass/", ("example.org", 443, "/windlass", "example.org")),
        ("http://[::1]:80", ("::1", 80, "", "[::1]:80")),
    ],
)
def test_addresses(text: str, seen: tuple[str, int, str, str]) -> None:
    url = Url(text)
    assert (url.host, url.port, url.prefix, url.authority) == seen


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1:80", "ftp://x", "http://user@host", "http://h\r\nX: y", "http://h:99999999"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InvalidRequest, match="Not the address of a server"):
        Url(text)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/\u00e9", "/\0"])
def test_nothing_can_be_smuggled_into_the_head(path: str) -> None:
    with serving(answer(1), answer(1)) as server:
        with pytest.raises(InvalidRequest, match="Not a path"):
            session_for(server).call("GET", path)
        with pytest.raises(InvalidRequest, match="Authorization header cannot have this value"):
            Session(lambda: Address(server.url, f"token{path}\n")).call("GET", "/x")
    assert server.requests == []


def test_a_body_is_refused_before_it_was_read() -> None:
    """The server answers and closes; the answer counts, not the broken pipe."""
    with serving(refusal("too_large", 413, "Connection: close\r\n")) as server, pytest.raises(TooLarge):
        session_for(server).transfer("PUT", "/blob", b"x" * 200_000, 200_000)


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    with serving(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nshort", answer({"a": 1})) as server:
        assert session_for(server).call("GET", "/x") == {"a": 1}
