"""The audit log: one chain for all servers, and later changes of it are detected."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, delete, insert, update

from windlass.core.errors import Conflict
from windlass.store import Store, open_store
from windlass.store.access.audit import AuditEntry, append
from windlass.store.access.secrets import Sealed
from windlass.store.db.schema import audit

SEALED = Sealed(b"sealed", "k1")


def fill(store: Store, count: int, workspace: str = "default") -> None:
    for i in range(count):
        store.secrets.put(workspace, f"s{i}", 1, SEALED, "runs", "ann")


def execute(url: str, statement: Any) -> None:
    """An attacker with access to the database only."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(statement)
    engine.dispose()


def test_the_newest_comes_first_and_pages_go_on(store: Store) -> None:
    store.workspaces.create("other")
    fill(store, 5)
    fill(store, 1, "other")
    page = store.audit.list("default", limit=2)
    assert [(entry.act, entry.object, entry.principal) for entry in page] == [
        ("secret.set", "s4", "ann"),
        ("secret.set", "s3", "ann"),
    ]
    rest = store.audit.list("default", limit=10, before=page[-1].pk)
    assert [entry.object for entry in rest] == ["s2", "s1", "s0"]
    assert [entry.object for entry in store.audit.list("other")] == ["s0"]
    assert store.audit.list("nowhere") == []


def test_an_empty_chain_is_whole(store: Store) -> None:
    chain = store.audit.verify()
    assert (chain.is_whole, chain.count, chain.digest) == (True, 0, "")


def test_the_chain_is_whole_and_says_how_long_it_is(store: Store) -> None:
    fill(store, 3)
    first = store.audit.verify()
    assert (first.is_whole, first.count) == (True, 3)
    assert first.digest == store.audit.list("default")[0].digest
    store.secrets.delete("default", "s0", "bob")
    assert store.audit.verify().digest != first.digest


CHANGES: dict[str, Any] = {
    "another principal": update(audit).values(principal="mallory"),
    "another act": update(audit).values(act="secret.use"),
    "another object": update(audit).values(object="x"),
    "other details": update(audit).values(details={"version": 9}),
    "another workspace": update(audit).values(workspace="elsewhere"),
    "another digest": update(audit).values(digest="0" * 64),
    "gone": delete(audit),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_in_the_middle_shows(store: Store, store_url: str, change: str) -> None:
    fill(store, 5)
    rows = sorted(entry.pk for entry in store.audit.list("default"))
    execute(store_url, CHANGES[change].where(audit.c.pk == rows[2]))
    chain = store.audit.verify()
    assert not chain.is_whole
    assert chain.broken_at == (rows[3] if change == "gone" else rows[2])
    assert chain.count == 2


def test_what_was_put_in_between_shows(store: Store, store_url: str) -> None:
    fill(store, 3)
    newest = store.audit.list("default")[0]
    forged = {name: getattr(newest, name) for name in ("at", "workspace", "act", "details", "digest")}
    execute(store_url, insert(audit).values(pk=newest.pk + 1, principal="mallory", object="x", **forged))
    assert store.audit.verify().broken_at == newest.pk + 1


def test_the_first_row_cannot_be_taken_away(store: Store, store_url: str) -> None:
    fill(store, 2)
    oldest = store.audit.list("default")[-1]
    execute(store_url, delete(audit).where(audit.c.pk == oldest.pk))
    assert not store.audit.verify().is_whole


def test_an_act_that_fails_leaves_no_row(store: Store) -> None:
    fill(store, 1)
    with pytest.raises(Conflict):
        store.secrets.put("default", "s0", 1, SEALED, "runs", "bob")
    with pytest.raises(Conflict):
        store.secrets.put("default", "s0", 7, SEALED, "runs", "bob")
    assert store.audit.verify().count == 1


def test_any_name_and_any_detail_keeps_the_chain_whole(store: Store) -> None:
    odd = ["\0", "\ud800", "é😀", "a\nb", "x" * 10_000]
    acts = [AuditEntry("default", text, "test", text, {"text": text, "n": 1.5, "list": [None, True]}) for text in odd]
    write = store.audit._database.write
    write(lambda connection: append(connection, *acts))
    chain = store.audit.verify()
    assert (chain.is_whole, chain.count) == (True, len(odd))


def test_many_at_once_make_one_chain(store: Store, store_url: str, tmp_path: Path) -> None:
    """Servers that share a database, too."""
    stores = [store]
    if store.is_shared:
        stores.append(open_store(store_url, tmp_path / "other"))

    def write(of: Store, number: int) -> None:
        for i in range(20):
            of.secrets.put("default", f"s-{number}-{i}", 1, SEALED, "runs", f"t{number}")

    threads = [threading.Thread(target=write, args=(stores[n % len(stores)], n)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chain = store.audit.verify()
    assert (chain.is_whole, chain.count) == (True, 120)
    for other in stores[1:]:
        other.close()


def test_a_row_is_there_only_with_its_act(store: Store) -> None:
    """Both are one transaction: a rollback removes the row too."""

    def act(connection: Connection) -> None:
        append(connection, AuditEntry("default", "ann", "test", "x"))
        raise RuntimeError("something goes wrong afterwards")

    with pytest.raises(RuntimeError):
        store.audit._database.write(act)
    assert store.audit.verify().count == 0
