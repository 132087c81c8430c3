"""Tokens of members: issued by name, one valid token each, recorded in the audit log, revoked for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.store import Store, open_store

YESTERDAY = datetime.now(UTC) - timedelta(days=1)
SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


def audited(store: Store, workspace: str = "default") -> list[tuple[str, str, str]]:
    """The entries of the audit log, in order."""
    return [(e.principal, e.act, e.object) for e in reversed(store.audit.list(workspace)) if e.act.startswith("token.")]


def is_good(store: Store, secret: str) -> bool:
    found = store.tokens.find(secret)
    return found is not None and found.revoked_at is None


def test_a_member_has_a_token_until_it_is_revoked(store: Store) -> None:
    token, secret = store.tokens.issue("default", "ann", "contributor", "owner", SOON)
    assert (token.principal, token.role, token.workspace) == ("ann", "contributor", "default")
    assert (token.expires_at, token.last_used_at) == (SOON, None)
    assert store.tokens.find(secret) == token and store.tokens.list("default") == [token]
    assert len(store.tokens.revoke("default", "ann", "bob")) == 1
    assert not is_good(store, secret) and store.tokens.list("default") == []
    assert audited(store) == [("owner", "token.create", "ann"), ("bob", "token.revoke", "ann")]
    assert store.audit.list("default")[-1].details["role"] == "contributor"
    assert store.audit.verify().is_whole


def test_to_revoke_again_changes_nothing(store: Store) -> None:
    _, secret = store.tokens.issue("default", "ann", "reader", "owner")
    store.tokens.revoke("default", "ann", "owner")
    revoked = store.tokens.find(secret)
    assert store.tokens.revoke("default", "ann", "owner") == []
    assert store.tokens.find(secret) == revoked and len(audited(store)) == 2


def test_only_what_was_given_can_be_revoked(store: Store) -> None:
    store.workspaces.create("other")
    _, secret = store.tokens.issue("default", "ann", "reader", "owner")
    for workspace, name in (("default", "nobody"), ("other", "ann"), ("default", "Ann"), ("default", "")):
        with pytest.raises(NotFound, match="There is no token of"):
            store.tokens.revoke(workspace, name, "owner")
    assert is_good(store, secret) and len(audited(store)) == 1


def test_the_servers_own_token_stays_and_so_does_its_name(store: Store) -> None:
    _, secret = store.tokens.create("owner", "owner")
    with pytest.raises(Conflict, match="server's own token"):
        store.tokens.revoke("default", "owner", "ann")
    for name in ("owner", "Owner"):
        with pytest.raises(AlreadyExists, match="owner is the name of the server's own token"):
            store.tokens.issue("default", name, "reader", "ann")
    assert is_good(store, secret) and store.tokens.list("default") == [] and audited(store) == []


def test_a_name_is_taken_as_long_as_its_token_is_good(store: Store) -> None:
    _, first = store.tokens.issue("default", "ann", "reader", "owner")
    for name in ("ann", "ANN"):
        with pytest.raises(AlreadyExists, match="ann has a token already, as reader"):
            store.tokens.issue("default", name, "owner", "owner")
    assert len(audited(store)) == 1, "a refused request is not in the audit log"
    store.tokens.revoke("default", "ann", "owner")
    token, second = store.tokens.issue("default", "ann", "owner", "owner")
    assert (is_good(store, first), is_good(store, second)) == (False, True)
    assert store.tokens.list("default") == [token]


def test_an_expired_token_is_listed_and_makes_room(store: Store) -> None:
    old, _ = store.tokens.issue("default", "ann", "reader", "owner", YESTERDAY)
    assert store.tokens.list("default") == [old]
    new, _ = store.tokens.issue("default", "ann", "reader", "owner")
    assert store.tokens.list("default") == [new]


def test_each_workspace_has_members_of_its_own(store: Store) -> None:
    store.workspaces.create("other")
    here, _ = store.tokens.issue("default", "ann", "reader", "owner")
    there, secret = store.tokens.issue("other", "ann", "owner", "owner")
    store.tokens.create("server", "owner")
    assert (store.tokens.list("default"), store.tokens.list("other")) == ([here], [there])
    store.tokens.revoke("default", "ann", "owner")
    assert is_good(store, secret) and len(audited(store, "other")) == 1


def test_the_same_key_is_the_same_token_with_another_secret(store: Store) -> None:
    """A request is repeated because its answer was lost."""
    first, lost = store.tokens.issue("default", "ann", "reader", "owner", None, "key")
    again, secret = store.tokens.issue("default", "ann", "reader", "owner", SOON, "key")
    assert again.id == first.id and again.expires_at == SOON
    assert store.tokens.find(lost) is None and is_good(store, secret)
    assert store.tokens.list("default") == [again]
    with pytest.raises(AlreadyExists):
        store.tokens.issue("default", "ann", "owner", "owner", None, "key")
    store.tokens.revoke("default", "ann", "owner")
    with pytest.raises(Conflict, match="was revoked"):
        store.tokens.issue("default", "ann", "reader", "owner", None, "key")


def test_of_many_who_take_a_name_at_once_one_gets_it(store_url: str, store: Store, tmp_path: Path) -> None:
    """Also if the requests go to different servers."""
    stores = [open_store(store_url, tmp_path / "files") for _ in range(4)] if store.is_shared else [store] * 4
    together = threading.Barrier(len(stores))

    def take(one: Store) -> bool:
        together.wait()
        try:
            one.tokens.issue("default", "ann", "reader", "owner")
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(len(stores)) as pool:
        assert sorted(pool.map(take, stores)) == [False, False, False, True]
    assert len(store.tokens.list("default")) == len(audited(store)) == 1
    for one in stores:
        if one is not store:
            one.close()


def test_a_use_is_remembered(store: Store) -> None:
    token, secret = store.tokens.issue("default", "ann", "reader", "owner")
    store.tokens.record_use(token.id, SOON)
    found = store.tokens.find(secret)
    assert found is not None and found.last_used_at == SOON


def test_the_secret_of_a_member_is_not_kept(sqlite_store: Store, tmp_path: Path) -> None:
    _, secret = sqlite_store.tokens.issue("default", "ann", "reader", "owner")
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("db.sqlite*"))
    assert b"ann" in kept and secret.encode() not in kept
