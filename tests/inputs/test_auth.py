"""Group H: no token, a wrong one, one in the wrong place; callers that are not who they say."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.faults.world import wait_for
from tests.inputs.operations import Operation, operations
from tests.inputs.outside import API, JSON, WS, Answer, Outside, read_answer
from windlass.store import Store, open_store

OPEN = f"{API}/health"
# Signing in needs no token in a header; tests/server/security/test_sessions.py has what it refuses.
OPEN_OPERATIONS = {("GET", OPEN), ("GET", f"{API}/sign-in"), ("POST", f"{API}/session")}
CLOSED = [operation for operation in operations() if (operation.method, operation.path) not in OPEN_OPERATIONS]


def ask(server: Outside, operation: Operation, *headers: tuple[str, str]) -> Answer:
    """With a body that would do, so that nothing but the token is missing."""
    body = b'{"name": "made"}' if operation.takes == "application/json" else b""
    common = [("Content-Type", operation.takes)] if operation.takes else []
    return server.say(
        operation.method, operation.target(), [*common, *headers, ("Content-Length", str(len(body)))], body
    )


TOKENS = {
    "H1 none": [],
    "H2 empty": [("Authorization", "")],
    "H2 only the scheme": [("Authorization", "Bearer")],
    "H2 blank": [("Authorization", "Bearer    ")],
    "H2 wrong": [("Authorization", "Bearer wrong")],
    "H2 other scheme": [("Authorization", "Basic OWNERTOKEN")],
    "H2 no scheme": [("Authorization", "OWNERTOKEN")],
    "H2 quoted": [("Authorization", 'Bearer "OWNERTOKEN"')],
    "H2 comma": [("Authorization", "Bearer OWNERTOKEN,")],
    "H2 more": [("Authorization", "Bearer OWNERTOKENx")],
    "H2 twice in one": [("Authorization", "Bearer OWNERTOKEN OWNERTOKEN")],
    "H2 long": [("Authorization", "Bearer " + "x" * 50_000)],
    "H2 not ASCII": [("Authorization", "Bearer é")],
    "H2 SQL": [("Authorization", "Bearer ' OR '1'='1")],
    "H2 None": [("Authorization", "Bearer None")],
    "H8 cookie": [("Cookie", "token=OWNERTOKEN; Authorization=Bearer OWNERTOKEN")],
    "H8 other header": [
        ("X-Token", "OWNERTOKEN"),
        ("X-Api-Key", "OWNERTOKEN"),
        ("Proxy-Authorization", "Bearer OWNERTOKEN"),
    ],
    "H12 forwarded": [("X-Forwarded-User", "owner"), ("X-Remote-User", "owner"), ("X-Forwarded-For", "127.0.0.1")],
    "H12 override": [("X-Original-URL", OPEN), ("X-Rewrite-URL", OPEN)],
}


@pytest.mark.parametrize("headers", TOKENS.values(), ids=TOKENS)
def test_without_a_good_token_nothing_is_answered(sqlite: Outside, headers: list[tuple[str, str]]) -> None:
    given = [(name, value.replace("OWNERTOKEN", sqlite.token)) for name, value in headers]
    with sqlite.unchanged():
        for operation in CLOSED:
            answer = ask(sqlite, operation, *given)
            while answer.status == 429:
                time.sleep(0.2)
                answer = ask(sqlite, operation, *given)
            answer.refused(401)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert sqlite.token.encode() not in answer.raw


def test_a_token_is_judged_before_anything_else_is(sqlite: Outside) -> None:
    """Nobody learns by a refusal what there is, or has a large body read."""
    for target in (f"{WS}/runs/nothing", f"{API}/workspaces/nothing/runs", f"{WS}/runs?limit=x"):
        assert sqlite.call("GET", target, token=None).refused(401)
    assert sqlite.call("POST", f"{WS}/runs", raw=b"{", headers=JSON, token=None).refused(401)


def test_h7_two_tokens(sqlite: Outside) -> None:
    right, wrong = ("Authorization", f"Bearer {sqlite.token}"), ("Authorization", "Bearer wrong")
    for headers in ((right, wrong), (wrong, right), (right, right), (right, ("authorization", "x"))):
        sqlite.say("GET", f"{API}/status", headers).refused(400)


def test_h8_a_token_in_the_address(sqlite: Outside) -> None:
    for name in ("token", "access_token", "authorization", "api_key", "bearer"):
        for target in (f"{API}/status?{name}={sqlite.token}", f"{WS}/runs?{name}={sqlite.token}"):
            sqlite.call("GET", target, token=None).refused(401)
            sqlite.call("GET", target).refused(400)


@contextlib.contextmanager
def store_of(server: Outside) -> Iterator[Store]:
    """Where servers share a database, one may be beside them."""
    assert server.world.database
    store = open_store(server.world.database, server.home / "files")
    try:
        yield store
    finally:
        store.close()


@pytest.mark.slow
def test_h3_h4_a_token_that_is_over_ends_all_that_it_opened(on_postgresql: Outside) -> None:
    server = on_postgresql
    run_id = server.interactive()
    with store_of(server) as store:
        past = datetime.now(UTC) - timedelta(seconds=1)
        expired = store.tokens.create("somebody", "owner", None, past)[1]
        assert "expired" in server.call("GET", f"{API}/status", token=expired).refused(401)
        secret = store.tokens.issue("default", "guest", "reader", "owner")[1]
        with server.connect() as connection:
            head = f"GET {WS}/runs/{run_id}/stream HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            connection.sendall(f"{head}Authorization: Bearer {secret}\r\n\r\n".encode())
            assert b" 200 " in connection.recv(1 << 16)
            store.tokens.revoke("default", "guest", "owner")
            connection.settimeout(40)
            while connection.recv(1 << 16):
                pass  # until it is closed
        wait_for("the end of trust", lambda: server.call("GET", f"{WS}/runs", token=secret).status == 401, 30)
    server.check_unharmed()


def test_h6_a_runs_token_opens_that_run_only(server: Outside, tmp_path: Path) -> None:
    """It reads and writes its own run; all the rest is denied, or is not there."""
    text = "import os, sys; open(sys.argv[1], 'w').write(os.environ['WINDLASS_RUN_TOKEN'])"
    run = server.run(text, str(tmp_path / "token"))
    token = (tmp_path / "token").read_text()
    other = server.interactive()
    assert server.call("GET", f"{WS}/runs/{run['id']}", token=token).status == 200
    with server.unchanged():
        for operation in CLOSED:
            if (
                operation.path in (f"{API}/openapi.json", f"{API}/workspaces/{{workspace}}")
                or "/blobs" in operation.path
                or (operation.method == "GET" and operation.path.endswith(("/environments", "/models")))
            ):
                continue  # what every run may do
            target = operation.target(id=other, workspace="default")
            body = {"application/json": b"{}"}.get(operation.takes)
            headers = {"Content-Type": operation.takes} if operation.takes else {}
            answer = server.call(operation.method, target, raw=body, headers=headers, token=token)
            assert answer.status in (400, 403, 404), (operation, answer)
            answer.refused()
        body = server.submission("print('never')")
        server.call("POST", f"{WS}/runs", body, token=token).refused(403)
        server.call("GET", f"{WS}/runs", token=token).refused(403)
        server.call("POST", f"{API}/shutdown", token=token).refused(403)


def test_h9_many_wrong_tokens_are_slowed_down(sqlite: Outside) -> None:
    """Whoever tries them one after another is told to wait; who has the right one is not."""
    statuses: list[int] = []

    def guess() -> None:
        statuses.extend(sqlite.call("GET", f"{API}/status", token=f"guess{i}").status for i in range(100))

    deadline = time.monotonic() + 30
    while 429 not in statuses and time.monotonic() < deadline:
        threads = [threading.Thread(target=guess) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert sqlite.call("GET", f"{API}/status").status == 200
        for thread in threads:
            thread.join()
    assert set(statuses) == {401, 429}
    wait_for("the end of the punishment", lambda: sqlite.call("GET", f"{API}/status", token="x").status == 401)


HOSTS = [
    "evil.com",
    "127.0.0.1.evil.com:PORT",
    "evil.com:PORT",
    "localhost:9999",
    "127.0.0.1",
    "localhost",
    "",
    "127.0.0.1:PORT@evil.com",
    "evil.com#127.0.0.1:PORT",
    "127.0.0.1:PORT.evil.com",
    "127.0.0.1:0PORT",
    "127.1:PORT",
    "2130706433:PORT",
    "0.0.0.0:PORT",
    "[::]:PORT",
    "127.0.0.1:PORT, evil.com",
    "http://127.0.0.1:PORT",
    "127.0.0.1:PORT/",
    "*",
    "[::ffff:127.0.0.1]:PORT",
    "localhost.:PORT",
    "é:PORT",
]


@pytest.mark.parametrize("host", HOSTS)
def test_h10_another_host(sqlite: Outside, host: str) -> None:
    headers = [("Host", host.replace("PORT", str(sqlite.port))), ("Authorization", f"Bearer {sqlite.token}")]
    for target in (f"{API}/status", OPEN, "/"):
        sqlite.say("GET", target, headers).refused(400, 403)
    with sqlite.unchanged():
        body = b'{"name": "made"}'
        more = [*headers, *JSON.items(), ("Content-Length", str(len(body)))]
        sqlite.say("POST", f"{WS}/experiments", more, body).refused(400, 403)


def test_h10_no_host_or_two(sqlite: Outside) -> None:
    token = f"Authorization: Bearer {sqlite.token}\r\nConnection: close\r\n"
    for hosts in ("", f"Host: 127.0.0.1:{sqlite.port}\r\nHost: evil.com\r\n", "Host : 127.0.0.1\r\n"):
        for version in ("1.1", "1.0"):
            data = f"GET {API}/status HTTP/{version}\r\n{hosts}{token}\r\n".encode()
            assert 400 <= sqlite.answer(data).status < 500


def test_h10_an_address_that_names_another_host(sqlite: Outside) -> None:
    """The whole address in the first line, as a proxy would get it."""
    head = f"Host: 127.0.0.1:{sqlite.port}\r\nAuthorization: Bearer {sqlite.token}\r\nConnection: close\r\n\r\n"
    for target in ("http://evil.com/api/v1/status", "http://169.254.169.254/latest", "*", "evil.com:443"):
        for method in ("GET", "CONNECT"):
            answer = sqlite.answer(f"{method} {target} HTTP/1.1\r\n{head}".encode(), "GET")
            assert answer.status == 200 or 400 <= answer.status < 500
            assert answer.status != 200 or target.startswith("http://evil.com/api")


ORIGINS = [
    "null",
    "http://evil.com",
    "http://127.0.0.1:1",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1",
    "http://localhost",
    "file://",
    "",
    "http://127.0.0.1:PORT.evil.com",
    "http://127.0.0.1:PORT/",
    "http://user@127.0.0.1:PORT",
    "chrome-extension://x",
    "*",
]


@pytest.mark.parametrize("origin", ORIGINS)
def test_h11_another_origin(sqlite: Outside, origin: str) -> None:
    headers = {"Origin": origin.replace("PORT", str(sqlite.port))}
    with sqlite.unchanged():
        for method, target, body in (
            ("GET", f"{WS}/runs", None),
            ("POST", f"{WS}/experiments", {"name": "made"}),
            ("POST", f"{API}/shutdown", None),
        ):
            answer = sqlite.call(method, target, body, headers=headers)
            answer.refused(403)
            assert "access-control-allow-origin" not in answer.headers
        preflight = sqlite.call("OPTIONS", f"{WS}/runs", headers={**headers, "Access-Control-Request-Method": "POST"})
        assert preflight.status >= 400 and "access-control-allow-origin" not in preflight.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site", "CROSS-SITE", "nonsense"])
def test_h11_another_site(sqlite: Outside, site: str) -> None:
    with sqlite.unchanged():
        body = {"name": "made"}
        sqlite.call("POST", f"{WS}/experiments", body, headers={"Sec-Fetch-Site": site}).refused(403)


def test_h11_there_are_no_web_sockets(sqlite: Outside) -> None:
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "x" * 22 + "==",
        "Sec-WebSocket-Version": "13",
    }
    for target in (f"{WS}/runs", "/", OPEN):
        data = [
            f"GET {target} HTTP/1.1",
            f"Host: 127.0.0.1:{sqlite.port}",
            *(f"{k}: {v}" for k, v in headers.items()),
            "",
            "",
        ]
        with sqlite.connect() as connection:
            connection.sendall("\r\n".join(data).encode())
            assert read_answer(connection).status in (200, 400, 401, 404)


METHODS = [
    "TRACE",
    "TRACK",
    "CONNECT",
    "OPTIONS",
    "PROPFIND",
    "COPY",
    "LOCK",
    "PURGE",
    "DELETE",
    "PUT",
    "PATCH",
    "get",
    "Get",
    "FOO",
    "G" * 500,
]


@pytest.mark.parametrize("method", METHODS)
def test_h12_methods(sqlite: Outside, method: str) -> None:
    with sqlite.unchanged():
        for target in (f"{WS}/runs", f"{API}/status", OPEN, "/"):
            if method == "CONNECT" and target == "/":
                continue
            headers = [("Authorization", f"Bearer {sqlite.token}")]
            assert 400 <= sqlite.say(method, target, headers).status < 500


def test_h12_overrides_change_nothing(sqlite: Outside) -> None:
    name = "not-deleted"
    sqlite.call("POST", f"{WS}/experiments", {"name": name}).kept()
    with sqlite.unchanged():
        for header in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
            assert sqlite.call("GET", f"{WS}/experiments/{name}", headers={header: "DELETE"}).status == 200
        sqlite.call("POST", f"{WS}/experiments/{name}?_method=DELETE", raw=b"").refused()
        for header in ("X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "Forwarded", "X-Original-URL"):
            run = sqlite.call("GET", f"{API}/status", headers={header: "evil.com"}).kept()
            assert "evil" not in json.dumps(run)


SPELLINGS = [
    "//api/v1/status",
    "/api//v1/status",
    "/api/v1//status",
    "/API/v1/status",
    "/api/V1/STATUS",
    "/api/v1/status/",
    "/api/v1/status%2f",
    "/api/..;/api/v1/status",
    "/api/v1/;/status",
    "/api/v1/status;x=y",
    "/api/v1/./status",
    "/api/v1/x/../status",
    "/api/v1/status%20",
    "/api/v1/status%00",
    "/api/v1/status.json",
    "/%2e/api/v1/status",
    "/api%2fv1%2fstatus",
    "/api/v1/%73tatus/",
    "/api/v1/statu\u017f",
    "/api/v2/status",
    "/api/v1/health/../status",
    "/api/v1/health%2f..%2fstatus",
    "/api/v1/health;/../status",
    "\\api\\v1\\status",
]


@pytest.mark.parametrize("target", SPELLINGS)
def test_h12_other_spellings_of_an_address(sqlite: Outside, target: str) -> None:
    """None of them is a way round the token; most of them are nothing."""
    assert sqlite.call("GET", target, token=None).status in (400, 401, 403, 404)
    # An encoded slash is a slash to every server of this kind, and with a token that is no secret.
    assert sqlite.call("GET", target).status in ((200,) if target.startswith("/api%2f") else (400, 404))
