"""Versions of registered models."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from windlass.core.errors import Conflict, NotFound
from windlass.store import Policy, Store
from windlass.store.catalog.models import Model, ModelFile, NewModel

FILE = ModelFile("model.pkl", "0" * 64, 3)


def register(store: Store, name: str = "risk", **said: str) -> Model:
    return store.models.register("default", NewModel(name, [FILE], **said), "ann")  # type: ignore[arg-type]


def test_versions_count_from_one_and_each_is_a_new_one(store: Store) -> None:
    first, second = register(store, description="first"), register(store, description="second")
    assert [(m.version, m.description, m.created_by, m.files) for m in (first, second)] == [
        (1, "first", "ann", [FILE]),
        (2, "second", "ann", [FILE]),
    ]
    assert store.models.get("default", "risk") == second
    assert store.models.get("default", "risk", 1) == first


def test_a_deleted_version_is_gone_and_its_number_is_not_given_again(store: Store) -> None:
    register(store)
    register(store)
    assert store.models.delete("default", "risk", 2, "bob").version == 2
    assert store.models.get("default", "risk").version == 1
    with pytest.raises(NotFound, match="There is no version 2 of the model risk in workspace default"):
        store.models.get("default", "risk", 2)
    with pytest.raises(NotFound, match="There is no version 2"):
        store.models.delete("default", "risk", 2, "bob")
    assert register(store).version == 3


def test_they_are_listed_latest_first(store: Store) -> None:
    store.workspaces.create("other")
    register(store, "a", run="r1")
    register(store, "b")
    register(store, "a")
    store.models.register("other", NewModel("c", [FILE]), "ann")
    assert [(m.name, m.version) for m in store.models.list("default")] == [("a", 2), ("b", 1), ("a", 1)]
    assert [(m.name, m.version) for m in store.models.list("default", name="a")] == [("a", 2), ("a", 1)]
    assert [(m.name, m.version) for m in store.models.list("default", run="r1")] == [("a", 1)]
    assert [(m.name, m.version) for m in store.models.list("default", is_latest=True)] == [("a", 2), ("b", 1)]
    store.models.delete("default", "a", 2, "ann")
    assert [(m.name, m.version) for m in store.models.list("default", is_latest=True)] == [("b", 1), ("a", 1)]


def test_what_is_said_of_one_may_change_but_for_its_properties(store: Store) -> None:
    register(store)
    said = store.models.describe("default", "risk", 1, "bob", "better", {"a": "1", "b": "2"}, {"p": "x"})
    assert (said.description, said.tags, said.properties) == ("better", {"a": "1", "b": "2"}, {"p": "x"})
    said = store.models.describe("default", "risk", 1, "bob", tags={"a": None, "b": "3"}, properties={"p": "x"})
    assert (said.description, said.tags, said.properties) == ("better", {"b": "3"}, {"p": "x"})
    with pytest.raises(Conflict, match="The property p of the model risk:1 is set"):
        store.models.describe("default", "risk", 1, "bob", tags={"c": "4"}, properties={"p": "y"})
    assert store.models.get("default", "risk").tags == {"b": "3"}


def test_many_at_once_get_a_number_each(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: register(store).version, range(24)))
    assert sorted(made) == list(range(1, 25))


def test_what_many_say_at_once_is_all_kept(store: Store) -> None:
    register(store)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.models.describe("default", "risk", 1, "ann", tags={str(n): "x"}), range(24)))
    assert store.models.get("default", "risk").tags == {str(n): "x" for n in range(24)}


def test_what_is_done_to_them_leaves_a_trace(store: Store) -> None:
    register(store)
    store.models.describe("default", "risk", 1, "bob", "better")
    store.models.delete("default", "risk", 1, "cid")
    told = {
        (entry.principal, entry.act, entry.object, entry.details["version"]) for entry in store.audit.list("default")
    }
    assert told == {("ann", "model.register", "risk", 1), ("bob", "model.describe", "risk", 1),
                    ("cid", "model.delete", "risk", 1)}  # fmt: skip


def test_an_unknown_workspace(store: Store) -> None:
    with pytest.raises(NotFound, match="There is no workspace nowhere"):
        store.models.register("nowhere", NewModel("risk", [FILE]), "ann")


def test_bytes_of_a_model_stay_until_it_is_deleted(store: Store) -> None:
    digest, size = store.blobs.put([b"weights"])
    store.models.register("default", NewModel("risk", [ModelFile("w", digest, size)]), "ann")
    later = datetime.now(UTC) + timedelta(days=365)
    assert digest not in [item.id for item in store.retention.candidates(Policy(), later)]
    store.models.delete("default", "risk", 1, "ann")
    assert digest in [item.id for item in store.retention.candidates(Policy(), later)]
