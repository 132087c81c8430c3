"""Sessions of browsers: how they begin and end, and that a cookie alone opens nothing."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.databases import migrated_sqlite
from tests.server.serving import API, HOME, KEY, Answer, Server, serving
from windlass.server.security.run_tokens import run_token
from windlass.server.security.sessions import CODE_LIFETIME

SESSION = f"{API}/session"
MAKE = f"{HOME}/experiments"


@dataclass
class Visitor:
    """A browser that has signed in."""

    server: Server
    cookie: str
    csrf: str

    @property
    def own(self) -> dict[str, str]:
        """The headers that the studio's page sends."""
        origin = f"http://127.0.0.1:{self.server.port}"
        site = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
        return {"Cookie": self.cookie, "X-Windlass-Session": self.csrf, **site}

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        given = self.own if headers is None else headers
        return self.server.call(method, path, body, token=None, headers=given)


def code_of(server: Server, token: str = "") -> str:
    answer = server.call("POST", f"{API}/session-codes", token=token)
    assert answer.status == 201, answer.raw
    assert answer.json["url"].endswith(f"/signin#code={answer.json['code']}")
    return str(answer.json["code"])


def begin(server: Server, **proof: str) -> Answer:
    return server.call("POST", SESSION, proof, token=None)


def visitor(server: Server, token: str = "") -> Visitor:
    answer = begin(server, code=code_of(server, token))
    assert answer.status == 201, answer.raw
    return Visitor(server, answer.headers["set-cookie"].partition(";")[0], answer.json["csrf"])


def acts(server: Server) -> list[tuple[str, str]]:
    entries = server.call("GET", f"{HOME}/audit").json["entries"]
    return [(entry["act"], entry["principal"]) for entry in entries]


# beginning


def test_a_code_begins_a_session_once(server: Server) -> None:
    code = code_of(server)
    answer = begin(server, code=code)
    assert answer.status == 201 and answer.json["role"] == "owner"
    cookie = answer.headers["set-cookie"]
    assert re.match(rf"windlass_{answer.json['server']}=[\w-]{{43}};", cookie)
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; ")) and "Secure" not in cookie
    assert begin(server, code=code).status == 401
    assert ("session.begin", "owner") in acts(server)


def test_a_code_is_good_for_two_minutes(server: Server) -> None:
    assert timedelta(minutes=2) == CODE_LIFETIME
    over, _ = server.store.sessions.create_code(server.token, timedelta(seconds=-1))
    assert begin(server, code=over).status == 401


def test_a_token_begins_a_session_and_the_token_of_a_run_does_not(server: Server) -> None:
    assert begin(server, token=server.token).status == 201
    run = server.interactive()
    of_run = run_token(KEY, run["id"], 1)
    assert begin(server, token=of_run).status == 403
    assert server.call("POST", f"{API}/session-codes", token=of_run).status == 403
    assert begin(server, token="wrong").status == 401


def test_a_session_creates_no_codes_and_no_sessions(shared: Server) -> None:
    here = visitor(shared)
    assert here.call("POST", f"{API}/session-codes").status == 403


def test_wrong_codes_are_slowed_down(shared: Server) -> None:
    deadline = time.monotonic() + 60
    while begin(shared, code="wrong").status != 429:
        assert time.monotonic() < deadline
    assert begin(shared, code=code_of(shared)).status == 201, "a right one is taken all the same"


@pytest.mark.parametrize("body", [{}, {"code": "a", "token": "b"}, {"code": ""}, {"code": 1}, {"token": "x" * 601}])
def test_a_proof_is_one_code_or_one_token(shared: Server, body: dict[str, Any]) -> None:
    assert shared.call("POST", SESSION, body, token=None).status == 400


def test_a_form_of_another_page_cannot_sign_in(shared: Server) -> None:
    """Otherwise it could sign the user in as somebody else."""
    raw = json.dumps({"token": shared.token}).encode()
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert shared.call("POST", SESSION, raw=raw, token=None, headers={"Content-Type": media}).status == 415


def test_a_session_may_what_its_token_may(shared: Server) -> None:
    reader = visitor(shared, shared.make_token("reader", principal="rita"))
    seen = reader.call("GET", SESSION).json
    assert (seen["name"], seen["role"], seen["workspace"]) == ("rita", "reader", "default")
    assert reader.call("GET", f"{HOME}/runs").status == 200
    assert reader.call("POST", MAKE, {"name": "x"}).status == 403


# cross-site request forgery

CSRF = ("none", "right", "wrong", "other's")
ORIGINS = ("none", "own", "null", "foreign", "other port")
SITES = ("none", "same-origin", "same-site", "cross-site")


def _combinations() -> Iterator[tuple[str, str, str]]:
    for csrf, origin, site in itertools.product(CSRF, ORIGINS, SITES):
        came_from_here = origin == "own" or (origin == "none" and site == "same-origin")
        if not (csrf == "right" and came_from_here and site in ("none", "same-origin")):
            yield csrf, origin, site


@pytest.fixture(scope="module")
def visitors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Visitor, Visitor]]:
    home = tmp_path_factory.mktemp("home")
    with serving(migrated_sqlite(home), home) as running:
        yield visitor(running), visitor(running)


def test_the_own_page_may_write(visitors: tuple[Visitor, Visitor]) -> None:
    here, _ = visitors
    assert here.call("POST", MAKE, {"name": "own"}).status == 200


def test_no_other_combination_of_headers_writes(visitors: tuple[Visitor, Visitor]) -> None:
    here, other = visitors
    tokens = {"right": here.csrf, "wrong": "x" * 43, "other's": other.csrf}
    origins = {
        "own": f"http://127.0.0.1:{here.server.port}",
        "null": "null",
        "foreign": "https://evil.example",
        "other port": "http://127.0.0.1:1",
    }
    combinations = list(_combinations())
    assert len(combinations) >= 25
    for csrf, origin, site in combinations:
        headers = {"Cookie": here.cookie, "Content-Type": "application/json"}
        if csrf in tokens:
            headers["X-Windlass-Session"] = tokens[csrf]
        if origin in origins:
            headers["Origin"] = origins[origin]
        if site != "none":
            headers["Sec-Fetch-Site"] = site
        answer = here.call("POST", MAKE, {"name": "forged"}, headers)
        assert answer.status in (401, 403), (csrf, origin, site)
        assert "access-control-allow-origin" not in answer.headers
    names = [found["name"] for found in here.call("GET", MAKE).json["experiments"]]
    assert "forged" not in names


def test_the_cookie_alone_reads_nothing(visitors: tuple[Visitor, Visitor]) -> None:
    here, other = visitors
    for headers in ({}, {"X-Windlass-Session": ""}, {"X-Windlass-Session": other.csrf}):
        for path in (SESSION, f"{HOME}/runs", f"{API}/workspaces"):
            assert here.call("GET", path, headers={"Cookie": here.cookie, **headers}).status == 401
    assert here.call("GET", SESSION, headers={"X-Windlass-Session": here.csrf}).status == 401


# links


def test_a_link_opens_its_own_path_for_its_own_session(visitors: tuple[Visitor, Visitor]) -> None:
    here, other = visitors
    run = here.server.interactive()["id"]
    path = f"{HOME}/runs/{run}/files/a%20b.txt"
    assert here.server.call("PUT", path, raw=b"content", headers={"Content-Type": "text/html"}).status == 201
    link = here.call("POST", f"{SESSION}/links", {"path": path}).json["url"]
    by_cookie = {"Cookie": here.cookie}
    answer = here.call("GET", link, headers=by_cookie)
    assert (answer.status, answer.raw) == (200, b"content")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert here.call("GET", link, headers={"Cookie": other.cookie}).status == 401
    assert here.call("GET", link, headers={}).status == 401
    assert here.call("DELETE", link, headers=by_cookie).status in (401, 403, 405)
    elsewhere = f"{HOME}/runs?{link.partition('?')[2]}"
    for changed in (elsewhere, link.replace("a%20b.txt", "b.txt"), link[:-1] + "0", link.replace("?", "?limit=1&")):
        if changed != link:
            assert here.call("GET", changed, headers=by_cookie).status == 401, changed


def test_a_link_expires(visitors: tuple[Visitor, Visitor], monkeypatch: pytest.MonkeyPatch) -> None:
    here, _ = visitors
    link = here.call("POST", f"{SESSION}/links", {"path": f"{HOME}/runs"}).json["url"]
    assert here.call("GET", link, headers={"Cookie": here.cookie}).status == 200
    later = time.time() + 61
    monkeypatch.setattr("windlass.server.security.sessions.time.time", lambda: later)
    assert here.call("GET", link, headers={"Cookie": here.cookie}).status == 401


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/../x", "//evil.example/", "https://evil.example/", f"{API}/a%2f..%2fb", f"{API}/x#y"]
)
def test_a_link_is_for_the_api_only(visitors: tuple[Visitor, Visitor], path: str) -> None:
    assert visitors[0].call("POST", f"{SESSION}/links", {"path": path}).status == 400


# the end


@contextmanager
def stream_of(here: Visitor, path: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", here.server.port, timeout=60)
    try:
        connection.request("GET", path, headers=here.own)
        response = connection.getresponse()
        assert response.status == 200
        yield response
    finally:
        connection.close()


def test_signing_out_ends_the_session_and_its_streams(server: Server) -> None:
    here, other = visitor(server), visitor(server)
    run = server.interactive()["id"]
    with stream_of(here, f"{HOME}/runs/{run}/stream") as stream:
        answer = here.call("DELETE", SESSION)
        assert answer.status == 204 and "Max-Age=0" in answer.headers["set-cookie"]
        assert b"event: state" in stream.read()  # to its end
    assert here.call("GET", SESSION).status == 401
    assert other.call("GET", SESSION).status == 200, "a session of another browser goes on"
    assert ("session.end", "owner") in acts(server)


def test_a_session_ends_with_its_token(server: Server) -> None:
    made = server.call("POST", f"{HOME}/tokens", {"name": "guest", "role": "reader"}).json["token"]
    here = visitor(server, made)
    pending = code_of(server, made)
    run = server.interactive()["id"]
    with stream_of(here, f"{HOME}/runs/{run}/stream") as stream:
        assert server.call("DELETE", f"{HOME}/tokens/guest").status == 204
        stream.read()
    assert here.call("GET", SESSION).status == 401
    assert begin(server, code=pending).status == 401


def test_a_session_does_not_outlive_a_token_that_expires(server: Server) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    _, secret = server.store.tokens.create("brief", "reader", "default", soon)
    answer = begin(server, token=secret)
    assert datetime.fromisoformat(answer.json["expires_at"]) <= soon
    age = re.search(r"Max-Age=(\d+)", answer.headers["set-cookie"])
    assert age is not None and int(age[1]) <= 3600


def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    url = migrated_sqlite(tmp_path)
    with serving(url, tmp_path) as server:
        before = visitor(server)
    with serving(url, tmp_path) as server:
        assert Visitor(server, before.cookie, before.csrf).call("GET", SESSION).status == 200


def test_only_digests_are_stored(tmp_path: Path) -> None:
    url = migrated_sqlite(tmp_path)
    with serving(url, tmp_path) as server:
        here, pending = visitor(server), code_of(server)
        secrets = [here.csrf, here.cookie.partition("=")[2], pending]
    content = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not [secret for secret in secrets if secret.encode() in content]


def test_two_servers_on_one_host_do_not_disturb_each_other(visitors: tuple[Visitor, Visitor], tmp_path: Path) -> None:
    """The browser sends the cookies of both to both."""
    here, _ = visitors
    with serving(migrated_sqlite(tmp_path), tmp_path, key=b"o" * 32) as server:
        there = visitor(server)
        assert here.cookie.partition("=")[0] != there.cookie.partition("=")[0]
        both = {"Cookie": f"{here.cookie}; {there.cookie}"}
        assert there.call("DELETE", SESSION, headers={**there.own, **both}).status == 204
        assert there.call("GET", SESSION, headers={**there.own, **both}).status == 401
        assert here.call("GET", SESSION, headers={**here.own, **both}).status == 200


# what a browser is told about each page and file


def test_every_page_and_file_has_a_strict_policy(shared: Server) -> None:
    page = shared.call("GET", "/workspaces/default", token=None)
    assert page.status == 200
    text = page.raw.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", text), "no inline script"
    assert not re.search(r"\son\w+=|javascript:", text)
    files = re.findall(r'(?:src|href)="\./([^"]+)"', text)
    assert files
    for path in ["/workspaces/default", *(f"/{quote(name)}" for name in files)]:
        policy = shared.call("GET", path, token=None).headers["content-security-policy"]
        rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
        assert (rules["default-src"], rules["script-src"], rules["frame-ancestors"]) == ("'none'", "'self'", "'none'")
        assert "unsafe" not in policy and "*" not in policy
    policies = {shared.call("GET", "/", token=None).headers["content-security-policy"] for _ in range(2)}
    assert len(policies) == 2 and "'nonce-" in policies.pop(), "a nonce is used once"


def test_signing_in_shows_how_for_this_server(tmp_path: Path) -> None:
    url = migrated_sqlite(tmp_path)
    with serving(url, tmp_path) as server:
        said = server.call("GET", f"{API}/sign-in", token=None).json["command"]
        assert said == f"windlass --home {tmp_path} studio"
    with serving(url, tmp_path, public_url="https://windlass.example.org/team") as server:
        said = server.call("GET", f"{API}/sign-in", token=None).json["command"]
        assert said.startswith("windlass --url ") and str(tmp_path) not in said
