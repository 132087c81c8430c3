"""Connections: row, credentials and audit entry are written in one transaction."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from windlass.core.coordinates import Coordinates
from windlass.core.entities import Connection
from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.store import Store
from windlass.store.access.secrets import Sealed, SealedCredential

PLACE = Coordinates("rg", "ws")


def lake(name: str = "bricks", place: Coordinates = PLACE, by: str = "owner", host: str = "https://a") -> Connection:
    at = datetime.now(UTC)
    return Connection(name, "databricks", place, {"host": host}, by, at, at)


def token(name: str = "bricks", version: int = 1, content: bytes = b"sealed") -> SealedCredential:
    return SealedCredential(f"connection/{name}/token", version, Sealed(content, "key-1"))


def acts(store: Store) -> list[tuple[str, str]]:
    return [(entry.act, entry.object) for entry in reversed(store.audit.list("default"))]


def test_a_connection_comes_with_its_credentials_and_a_row_in_the_audit(store: Store) -> None:
    there = store.connections.add("default", lake(), [token()])
    assert there == store.connections.get("default", "bricks")
    assert (there.coordinates, there.config, there.created_by) == (PLACE, {"host": "https://a"}, "owner")
    kept = store.secrets.get("default", "connection/bricks/token")
    assert (kept.sealed, kept.granted_to) == (b"sealed", "nobody")
    assert acts(store) == [("secret.set", "connection/bricks/token"), ("connection.add", "bricks")]
    assert store.audit.verify().is_whole
    assert store.secrets.list("default") == []


def test_connections_are_listed_by_name_and_workspace(store: Store) -> None:
    store.workspaces.create("other")
    store.connections.add("default", lake("b"), [])
    store.connections.add("default", lake("a", Coordinates("rg", "two")), [])
    store.connections.add("other", lake("c"), [])
    assert [each.name for each in store.connections.list("default")] == ["a", "b"]
    assert [each.name for each in store.connections.list("other")] == ["c"]
    with pytest.raises(NotFound, match="There is no connection c"):
        store.connections.get("default", "c")


def test_a_name_is_given_once(store: Store) -> None:
    store.connections.add("default", lake(), [token()])
    with pytest.raises(AlreadyExists, match="There is a connection bricks already"):
        store.connections.add("default", lake(place=Coordinates("rg", "x")), [token(version=2)])
    assert store.secrets.get("default", "connection/bricks/token").version == 1
    assert len(acts(store)) == 2


@pytest.mark.parametrize("other", [Coordinates("RG", "Ws"), PLACE])
def test_coordinates_are_given_once_in_any_spelling(store: Store, other: Coordinates) -> None:
    store.connections.add("default", lake(), [])
    with pytest.raises(Conflict, match="The connection bricks has these coordinates already") as refusal:
        store.connections.add("default", lake("second", other), [token("second")])
    assert "windlass connection remove bricks" in refusal.value.hint
    assert store.secrets.find("default", "connection/second/token") is None
    store.connections.add("default", replace(lake("third", other), kind="aks"), [])


def test_many_who_add_the_same_coordinates_leave_one(store: Store) -> None:
    added: list[str] = []

    def add(name: str) -> None:
        try:
            added.append(store.connections.add("default", lake(name), [token(name)]).name)
        except Conflict:
            pass

    threads = [threading.Thread(target=add, args=(f"c{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.name for each in store.connections.list("default")] == added and len(added) == 1


def test_changed_it_has_only_the_new_credentials(store: Store) -> None:
    known = store.connections.add("default", lake(), [token()])
    key = SealedCredential("connection/bricks/account-key", 1, Sealed(b"key", "key-1"))
    there = store.connections.replace("default", known, replace(known, config={"host": "https://b"}), [key], "jane")
    assert there.config == {"host": "https://b"} and there.created_by == "owner"
    assert store.secrets.find("default", "connection/bricks/token") is None
    assert acts(store)[2:] == [
        ("secret.delete", "connection/bricks/token"),
        ("secret.set", "connection/bricks/account-key"),
        ("connection.replace", "bricks"),
    ]
    assert store.audit.list("default")[0].principal == "jane"
    with pytest.raises(Conflict, match="changed in this moment"):
        store.connections.replace("default", known, known, [], "jane")


def test_a_change_does_not_take_the_coordinates_of_another(store: Store) -> None:
    known = store.connections.add("default", lake(), [])
    store.connections.add("default", lake("second", Coordinates("rg", "two")), [])
    with pytest.raises(Conflict, match="The connection second has these coordinates"):
        moved = replace(known, coordinates=Coordinates("rg", "TWO"))
        store.connections.replace("default", known, moved, [], "owner")
    assert store.connections.get("default", "bricks").coordinates == PLACE


def test_removed_it_is_gone_with_its_credentials_and_no_others(store: Store) -> None:
    for name, place in (("a", PLACE), ("ab", Coordinates("rg", "two"))):
        store.connections.add("default", lake(name, place), [token(name)])
    store.connections.remove("default", "a", "owner")
    assert [each.name for each in store.connections.list("default")] == ["ab"]
    assert store.secrets.find("default", "connection/a/token") is None
    assert store.secrets.find("default", "connection/ab/token") is not None
    assert acts(store)[-2:] == [("secret.delete", "connection/a/token"), ("connection.remove", "a")]
    with pytest.raises(NotFound):
        store.connections.remove("default", "a", "owner")


def test_one_that_a_target_uses_stays(store: Store) -> None:
    store.connections.add("default", lake(), [token()])
    store.targets.ensure("default", "spark", "local", {"connection": "bricks"}, None, True)
    with pytest.raises(Conflict, match="The connection bricks is used by spark") as refusal:
        store.connections.remove("default", "bricks", "owner")
    assert refusal.value.details == {"targets": ["spark"]}
    assert store.secrets.find("default", "connection/bricks/token") is not None


def test_there_is_none_in_a_workspace_that_is_not_there(store: Store) -> None:
    with pytest.raises(NotFound, match="There is no workspace nowhere"):
        store.connections.add("nowhere", lake(), [])
