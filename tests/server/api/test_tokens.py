"""Tokens of members over HTTP: an owner gives them, each opens what its role says, and a revoked one opens nothing."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.databases import migrated_sqlite
from tests.server.serving import API, HOME, KEY, Answer, Server, serving
from windlass.core.errors import StorageFull
from windlass.server.http.errors import Unauthenticated
from windlass.server.security import principals
from windlass.server.security.principals import TokenCache
from windlass.server.security.run_tokens import run_token
from windlass.store import Token
from windlass.store.access.tokens import Tokens

TOKENS = f"{HOME}/tokens"


def give(server: Server, name: str, role: str = "reader", **more: Any) -> Answer:
    return server.call("POST", TOKENS, {"name": name, "role": role, **more})


def value_of(server: Server, name: str, role: str = "reader", **more: Any) -> str:
    given = give(server, name, role, **more)
    assert given.status == 201, given.raw
    return str(given.json["token"])


def listed(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call("GET", TOKENS).json["tokens"]
    return found


def audit(server: Server) -> list[tuple[str, str, str]]:
    entries = server.call("GET", f"{HOME}/audit").json["entries"]
    return [(entry["principal"], entry["act"], entry["object"]) for entry in reversed(entries)]


def test_a_token_is_given_listed_and_revoked(server: Server) -> None:
    given = give(server, "ann@example.org", "contributor", days=30)
    assert given.status == 201 and given.headers["cache-control"] == "no-store"
    shown = {"name", "role", "created_at", "last_used_at", "expires_at"}
    assert set(given.json) == {*shown, "token"} and given.json["token"].startswith("wl_")
    days = datetime.fromisoformat(given.json["expires_at"]) - datetime.fromisoformat(given.json["created_at"])
    assert abs(days - timedelta(days=30)) < timedelta(minutes=1)
    give(server, "bob")
    found = listed(server)
    assert [(t["name"], t["role"]) for t in found] == [("ann@example.org", "contributor"), ("bob", "reader")]
    assert set(found[0]) == shown and (found[1]["expires_at"], found[1]["last_used_at"]) == (None, None)
    for _ in range(2):
        assert server.call("DELETE", f"{TOKENS}/ann@example.org").status == 204
    assert [t["name"] for t in listed(server)] == ["bob"]
    assert audit(server) == [
        ("owner", "token.create", "ann@example.org"),
        ("owner", "token.create", "bob"),
        ("owner", "token.revoke", "ann@example.org"),
    ]


def test_the_value_is_answered_once(server: Server) -> None:
    value = value_of(server, "ann", "owner").encode()
    for path in (TOKENS, f"{HOME}/audit", f"{API}/workspaces", f"{API}/status"):
        assert value not in server.call("GET", path).raw
    assert value not in give(server, "ann").raw


def test_members_stand_with_what_they_do(server: Server) -> None:
    ann, bob = value_of(server, "ann", "contributor"), value_of(server, "bob", "owner")
    assert server.submit(token=ann)["submitted_by"] == "ann"
    assert server.call("PUT", f"{HOME}/secrets/s", {"value": "abcdef"}, token=bob).status == 200
    assert server.call("POST", TOKENS, {"name": "eve", "role": "reader"}, token=bob).status == 201
    assert audit(server)[-2:] == [("bob", "secret.set", "s"), ("bob", "token.create", "eve")]


def test_a_use_is_seen_in_the_list(server: Server) -> None:
    value = value_of(server, "ann")
    assert server.call("GET", f"{HOME}/runs", token=value).status == 200
    [ann] = listed(server)
    assert ann["last_used_at"] >= ann["created_at"]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown role": ({"name": "ann", "role": "king"}, "role"),
    "the role of who runs the server": ({"name": "ann", "role": "admin"}, "role"),
    "no role": ({"name": "ann"}, "role"),
    "no name": ({"role": "reader"}, "name"),
    "empty name": ({"name": "", "role": "reader"}, "member's name"),
    "spaces": ({"name": "ann b", "role": "reader"}, "member's name"),
    "slash": ({"name": "a/b", "role": "reader"}, "member's name"),
    "option": ({"name": "-a", "role": "reader"}, "member's name"),
    "not ASCII": ({"name": "é", "role": "reader"}, "member's name"),
    "escape": ({"name": "a\x1b[2J", "role": "reader"}, "member's name"),
    "long": ({"name": "a" * 65, "role": "reader"}, "member's name"),
    "no days": ({"name": "ann", "role": "reader", "days": 0}, "days"),
    "days before": ({"name": "ann", "role": "reader", "days": -1}, "days"),
    "half days": ({"name": "ann", "role": "reader", "days": 0.5}, "days"),
    "days for ever": ({"name": "ann", "role": "reader", "days": 10**9}, "days"),
    "a value of one's own": ({"name": "ann", "role": "reader", "token": "x"}, "token"),
}


@pytest.mark.parametrize(("body", "word"), BAD.values(), ids=BAD)
def test_what_cannot_be_given_is_refused_with_its_name(shared: Server, body: dict[str, Any], word: str) -> None:
    answer = shared.call("POST", TOKENS, body)
    assert answer.status == 400 and word in answer.json["error"]["message"]
    assert listed(shared) == []


def test_names_that_are_taken(server: Server) -> None:
    give(server, "ann")
    for name in ("ann", "Ann", "owner", "OWNER", "server", "Server"):
        refused = give(server, name, "owner")
        assert refused.status == 409 and refused.code == "already_exists", name
        assert refused.json["error"]["hint"]
    assert [t["role"] for t in listed(server)] == ["reader"]


def test_a_request_that_is_repeated_gives_a_token_that_is_good(server: Server) -> None:
    body, key = {"name": "ann", "role": "reader"}, {"Idempotency-Key": "once"}
    lost, got = (server.call("POST", TOKENS, body, headers=key).json["token"] for _ in range(2))
    assert server.call("GET", f"{HOME}/runs", token=got).status == 200
    assert server.call("GET", f"{HOME}/runs", token=lost).status == 401
    assert len(listed(server)) == 1


def test_what_is_not_there_cannot_be_revoked(server: Server) -> None:
    missing = server.call("DELETE", f"{TOKENS}/nobody")
    assert missing.status == 404 and "no token of nobody" in missing.json["error"]["message"]
    own = server.call("DELETE", f"{TOKENS}/owner")
    assert own.status == 409 and "stays" in own.json["error"]["message"]
    assert server.call("DELETE", f"{TOKENS}/a%2Fb").status in (400, 404)
    assert server.call("GET", TOKENS).status == 200


def test_owners_who_revoke_each_other_and_themselves_lock_nobody_out(server: Server) -> None:
    ann, bob = value_of(server, "ann", "owner"), value_of(server, "bob", "owner")
    assert server.call("DELETE", f"{TOKENS}/bob", token=ann).status == 204
    assert server.call("DELETE", f"{TOKENS}/ann", token=ann).status == 204
    for value in (ann, bob):
        assert server.call("GET", TOKENS, token=value).status == 401
    assert listed(server) == [] and give(server, "ann", "owner").status == 201


def test_an_owner_is_the_owner_of_one_workspace(server: Server) -> None:
    server.store.workspaces.create("other")
    ann = value_of(server, "ann", "owner")
    there = f"{API}/workspaces/other/tokens"
    assert server.call("POST", there, {"name": "eve", "role": "owner"}, token=ann).status == 404
    assert server.call("POST", there, {"name": "ann", "role": "reader"}).status == 201
    assert server.call("DELETE", f"{there}/ann", token=ann).status == 404
    assert [t["role"] for t in listed(server)] == ["owner"]
    assert server.call("GET", f"{API}/status", token=ann).status == 403


@pytest.mark.parametrize("role", ["reader", "contributor", "admin", "run"])
def test_only_owners_give_and_see_tokens(shared: Server, role: str) -> None:
    token = run_token(KEY, shared.submit()["id"], 1) if role == "run" else shared.make_token(role)
    assert shared.call("GET", TOKENS, token=token).status == 403
    assert shared.call("POST", TOKENS, {"name": "eve", "role": "owner"}, token=token).status == 403
    assert shared.call("DELETE", f"{TOKENS}/owner", token=token).status == 403


def test_tokens_of_runs_are_not_listed(server: Server) -> None:
    run = server.submit(token=value_of(server, "ann", "contributor"))["id"]
    assert server.call("GET", f"{HOME}/runs/{run}", token=run_token(KEY, run, 1)).status == 200
    assert [t["name"] for t in listed(server)] == ["ann"]


def test_a_revoked_token_is_refused_at_once(server: Server) -> None:
    """Although it was good a moment ago, which is remembered for longer than this takes."""
    value = value_of(server, "ann")
    for _ in range(3):
        assert server.call("GET", f"{HOME}/runs", token=value).status == 200
    assert server.call("DELETE", f"{TOKENS}/ann").status == 204
    refused = server.call("GET", f"{HOME}/runs", token=value)
    assert refused.status == 401 and "revoked" in refused.json["error"]["message"]


def test_a_revoked_token_ends_its_streams_at_once_and_no_others(server: Server) -> None:
    value = value_of(server, "ann")
    run = server.interactive()["id"]
    path = f"{HOME}/runs/{run}/stream"
    with server.stream(path, token=value) as hers, server.stream(path) as ours:
        next(hers), next(ours)
        begun = time.monotonic()
        assert server.call("DELETE", f"{TOKENS}/ann").status == 204
        assert list(hers) == []
        assert time.monotonic() - begun < principals.TRUST_SECONDS
        server.call("POST", f"{HOME}/runs/{run}/end", {"state": "Completed"})
        assert list(ours)[-1].name == "end"


def test_a_look_that_began_before_the_revocation_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(migrated_sqlite(tmp_path), tmp_path) as server:
        value = value_of(server, "ann")
        token_cache = TokenCache(server.store, KEY)
        looked, may_go_on = threading.Event(), threading.Event()
        find = Tokens.find

        def slowly(self: Tokens, secret: str) -> Token | None:
            found = find(self, secret)
            looked.set()
            may_go_on.wait(60)
            return found

        monkeypatch.setattr(Tokens, "find", slowly)
        late = threading.Thread(target=token_cache.lookup, args=(value, "127.0.0.1"))
        late.start()
        assert looked.wait(60)
        token_cache.drop_revoked(server.store.tokens.revoke("default", "ann", "owner"))
        may_go_on.set()
        late.join()
        assert token_cache.cached(value) is None
        with pytest.raises(Unauthenticated, match="revoked"):
            token_cache.lookup(value, "127.0.0.1")


def test_a_token_works_even_if_its_use_cannot_be_stored(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Tokens, id: str, at: datetime) -> None:
        raise StorageFull("The disk is full.")

    monkeypatch.setattr(Tokens, "record_use", full)
    assert server.call("GET", f"{HOME}/runs", token=value_of(server, "ann")).status == 200
    assert listed(server)[0]["last_used_at"] is None
