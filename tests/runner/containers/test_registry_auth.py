"""Whose login is used for which registry: as Docker finds it, whatever way it was written down."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from windlass.runner.containers import registry_auth

HUB = "https://index.docker.io/v1/"


def auth(user: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:pass:word".encode()).decode()}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "config.json"


def read(header: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(header))


def user_for(reference: str) -> str | None:
    header = registry_auth.for_image(reference).headers.get("X-Registry-Auth")
    return read(header)["username"] if header else None


@pytest.mark.parametrize(
    ("reference", "user"),
    [
        ("python:3.11", "hub"),
        ("org/private:1", "hub"),
        ("docker.io/org/private:1", "hub"),
        ("index.docker.io/org/private", "hub"),
        ("registry.example.org/a:1", "plain"),
        ("old.example.org/a@sha256:" + "0" * 64, "old"),
        ("localhost:5000/a", "local"),
        ("other.example.org/a", None),
        ("localhost/a", None),
    ],
)
def test_a_login_is_found_however_its_address_was_written(config: Path, reference: str, user: str | None) -> None:
    written = {HUB: "hub", "https://registry.example.org/v1/": "with a path", "registry.example.org": "plain",
               "https://old.example.org/v2/": "old", "http://localhost:5000": "local"}  # fmt: skip
    config.write_text(json.dumps({"auths": {address: auth(user) for address, user in written.items()}}))
    assert user_for(reference) == user


@pytest.mark.parametrize("address", ["docker.io", "https://docker.io", "registry-1.docker.io"])
def test_the_hub_has_several_names(config: Path, address: str) -> None:
    config.write_text(json.dumps({"auths": {address: auth("me")}}))
    assert user_for("org/private") == "me"
    assert list(read(registry_auth.for_build([]).headers["X-Registry-Config"])) == [HUB]


@pytest.mark.parametrize("text", ["", "[]", '{"auths": []}', '{"auths": {"a.b": 3, "c.d": {"auth": "?"}}}'])
def test_a_configuration_that_says_nothing_is_none(config: Path, text: str) -> None:
    config.write_text(text)
    assert registry_auth.for_image("a.b/x") == ({}, [])
    assert registry_auth.for_build(["c.d/x"]) == ({}, [])


def helper(folder: Path, name: str, script: str) -> None:
    path = folder / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\nread -r address || true\n{script}\n")
    path.chmod(0o755)


SAYS = """[ "$1" = get ] || exit 1
case $address in
vault.example.org) echo '{"ServerURL": "x", "Username": "keeper", "Secret": "s"}' ;;
token.example.org) echo '{"ServerURL": "x", "Username": "<token>", "Secret": "t"}' ;;
*) echo credentials not found in native keychain; exit 1 ;;
esac"""


@pytest.mark.parametrize("how", [{"credsStore": "test"}, {"credHelpers": {"https://vault.example.org": "test"}}])
def test_a_helper_is_asked_as_docker_does_it(config: Path, how: dict[str, Any]) -> None:
    helper(config.parent, "test", SAYS)
    config.write_text(json.dumps({**how, "auths": {"plain.example.org": auth("plain"), "vault.example.org": {}}}))
    assert user_for("vault.example.org/a") == "keeper"
    assert user_for("plain.example.org/a") == "plain"
    assert registry_auth.for_image("unknown.example.org/a") == ({}, [])
    known = read(registry_auth.for_build([]).headers["X-Registry-Config"])
    assert {address: account["username"] for address, account in known.items()} == {
        "vault.example.org": "keeper",
        "plain.example.org": "plain",
    }


def test_a_helper_may_keep_a_token_and_is_asked_for_what_a_build_begins_with(config: Path) -> None:
    helper(config.parent, "test", SAYS)
    config.write_text(json.dumps({"credsStore": "test"}))
    told = read(registry_auth.for_build(["token.example.org/base:1", "python:3"]).headers["X-Registry-Config"])
    assert told == {"token.example.org": {"identitytoken": "t", "serveraddress": "token.example.org"}}


@pytest.mark.parametrize("script", [None, "echo no", "echo '[]'", "echo '{}'", "echo locked; exit 1"])
def test_a_helper_that_does_not_help_is_named(config: Path, script: str | None) -> None:
    if script is not None:
        helper(config.parent, "test", script)
    config.write_text(json.dumps({"credsStore": "test"}))
    headers, [trouble] = registry_auth.for_image("vault.example.org/a")
    assert headers == {}
    assert "docker-credential-test" in trouble and "vault.example.org" in trouble
