"""Requests that a web page could send, under a foreign name or from a foreign origin, are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.serving import API, HOME, Server, serving

FOREIGN_HOSTS = [
    "evil.com",
    "127.0.0.1.evil.com:{port}",
    "127.0.0.1",
    "localhost",
    "localhost:x",
    "localhost:9999.evil.com",
    "evil.com:{port}",
    "127.0.0.1:{port}.evil.com",
    "0.0.0.0:{port}",
    "2130706433:{port}",
    "user@127.0.0.1:{port}",
    "127.0.0.1:{port}/",
    "",
]
OWN_HOSTS = ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}", "127.0.0.1:9", "localhost:9"]
FOREIGN_ORIGINS = [
    "null",
    "http://evil.com",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1:1",
    "http://127.0.0.1",
    "http://localhost.evil.com:{port}",
    "http://127.0.0.1:{port}.evil.com",
    "file://",
    "",
]
FOREIGN_PAGES = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    {"Origin": "http://evil.com", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://evil.com", "Sec-Fetch-Site": "same-origin"},
]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_refused_even_with_the_token(shared: Server, host: str) -> None:
    host = host.format(port=shared.port)
    for path in (f"{HOME}/runs", f"{API}/health"):
        answer = shared.call("GET", path, headers={"Host": host})
        assert answer.status == 403 and answer.code == "denied"


def test_a_request_without_a_host_is_refused(shared: Server) -> None:
    assert b" 403 " in shared.send(f"GET {API}/health HTTP/1.0\r\n\r\n".encode()).split(b"\r\n")[0]


def test_two_hosts_are_refused(shared: Server) -> None:
    head = f"GET {API}/health HTTP/1.1\r\nHost: 127.0.0.1:{shared.port}\r\nHost: evil.com\r\nConnection: close\r\n\r\n"
    assert b" 400 " in shared.send(head.encode()).split(b"\r\n")[0]


@pytest.mark.parametrize("host", OWN_HOSTS)
def test_its_own_names_are_answered(shared: Server, host: str) -> None:
    assert shared.call("GET", f"{API}/health", headers={"Host": host.format(port=shared.port)}).status == 200


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_foreign_origin_is_refused(shared: Server, origin: str) -> None:
    headers = {"Origin": origin.format(port=shared.port)}
    for method, path in (("POST", f"{HOME}/runs"), ("DELETE", f"{HOME}/experiments/x"), ("GET", f"{HOME}/runs")):
        answer = shared.call(method, path, headers=headers)
        assert answer.status == 403 and answer.code == "denied"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("headers", FOREIGN_PAGES)
def test_a_foreign_page_cannot_write(shared: Server, headers: dict[str, str]) -> None:
    assert shared.call("POST", f"{HOME}/experiments", {"name": "x"}, headers=headers).status == 403


def test_a_page_through_a_tunnel_is_answered_and_one_of_another_port_is_not(shared: Server) -> None:
    path, body = f"{HOME}/experiments", {"name": "tunneled"}
    own = {"Host": "127.0.0.1:9999", "Origin": "http://127.0.0.1:9999", "Sec-Fetch-Site": "same-origin"}
    assert shared.call("POST", path, body, headers=own).status == 200
    for changed in (
        {"Origin": "http://127.0.0.1:9998"},
        {"Origin": "http://localhost:9999"},
        {"Host": "evil.com:9999"},
    ):
        assert shared.call("POST", path, body, headers={**own, **changed}).status == 403


def test_its_own_page_is_answered(shared: Server) -> None:
    own = f"http://127.0.0.1:{shared.port}"
    headers = {"Origin": own, "Sec-Fetch-Site": "same-origin"}
    assert shared.call("POST", f"{HOME}/experiments", {"name": "own"}, headers=headers).status == 200


def test_a_preflight_gets_no_permission(shared: Server) -> None:
    headers = {"Origin": "http://evil.com", "Access-Control-Request-Method": "POST"}
    answer = shared.call("OPTIONS", f"{HOME}/runs", token=None, headers=headers)
    assert answer.status == 403 and not any(name.startswith("access-control") for name in answer.headers)


def test_answers_are_not_guessed_cached_or_framed(shared: Server) -> None:
    for answer in (shared.call("GET", f"{HOME}/runs"), shared.call("GET", "/nothing"), shared.call("TRACE", HOME)):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("TRACE", f"{HOME}/runs", 405),
        ("PUT", f"{HOME}/runs", 405),
        ("HEAD", f"{HOME}/runs", 405),
        ("GET", "//api/v1/health", 404),
        ("GET", "/API/v1/health", 404),
        ("GET", "/api/v1/health/", 404),
        ("GET", "/api/v1/health%2f", 404),
        ("GET", "/api/..;/api/v1/status", 404),
        ("GET", "/api/v1/../v1/status", 404),
        ("GET", "/openapi.json", 404),
    ],
)
def test_odd_methods_and_paths_lead_nowhere(shared: Server, method: str, path: str, status: int) -> None:
    answer = shared.call(method, path)
    assert answer.status == status
    assert ("allow" in answer.headers) == (status == 405)


def test_overrides_and_forwarded_headers_change_nothing(shared: Server) -> None:
    headers = {"X-HTTP-Method-Override": "DELETE", "X-Forwarded-Host": "evil.com", "X-Forwarded-For": "1.2.3.4"}
    assert shared.call("GET", f"{HOME}/runs", headers=headers).status == 200


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Server]:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    proxied: dict[str, Any] = {
        "public_url": "https://windlass.example.org",
        "allowed_hosts": ("alias.example.org:8443",),
    }
    with serving(url, tmp_path, behind_proxy=True, **proxied) as running:
        yield running


def test_a_public_name_is_answered_with_its_own_origin_only(public: Server) -> None:
    health = f"{API}/health"
    assert public.call("GET", health, headers={"Host": "windlass.example.org"}).status == 200
    assert public.call("GET", health, headers={"Host": "alias.example.org:8443"}).status == 200
    assert public.call("GET", health, headers={"Host": "alias.example.org"}).status == 403
    named = {"Host": "windlass.example.org"}
    good = public.call("GET", f"{HOME}/runs", headers={**named, "Origin": "https://windlass.example.org"})
    bad = public.call("GET", f"{HOME}/runs", headers={**named, "Origin": "https://example.org"})
    assert (good.status, bad.status) == (200, 403)
