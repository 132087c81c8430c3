"""Registered environments in versions, and wheels by name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.store import Policy, Store

A = {"python": {"condaDependencies": {"dependencies": ["numpy"]}}}
B = {"python": {"condaDependencies": {"dependencies": ["scipy"]}}}


def test_versions_count_from_one_and_never_change(store: Store) -> None:
    first = store.environments.register("default", "train", A, "ann")
    second = store.environments.register("default", "train", B, "bob")
    assert [(v.version, v.definition, v.created_by) for v in (first, second)] == [("1", A, "ann"), ("2", B, "bob")]
    assert store.environments.get("default", "train") == second
    assert store.environments.get("default", "train", "1") == first
    assert store.environments.versions("default", "train") == [second, first]


def test_the_same_again_is_the_same_version(store: Store) -> None:
    first = store.environments.register("default", "train", A, "ann")
    assert store.environments.register("default", "train", dict(A), "bob") == first
    store.environments.register("default", "train", B, "ann")
    assert store.environments.register("default", "train", A, "ann").version == "3"  # so that it is the latest again


def test_a_version_may_be_chosen(store: Store) -> None:
    chosen = store.environments.register("default", "train", A, "ann", "2.0")
    assert (chosen.version, store.environments.get("default", "train", "2.0")) == ("2.0", chosen)
    assert store.environments.register("default", "train", A, "bob", "2.0") == chosen
    assert store.environments.register("default", "train", A, "bob") == chosen
    with pytest.raises(Conflict, match="The version 2.0 of the environment train says something else") as refused:
        store.environments.register("default", "train", B, "ann", "2.0")
    assert "version = None" in refused.value.hint
    assert store.environments.register("default", "train", B, "ann").version == "1"
    assert store.environments.register("default", "train", B, "ann", "9").version == "9"
    assert store.environments.register("default", "train", A, "ann").version == "10"


def test_the_latest_is_the_one_that_was_registered_last(store: Store) -> None:
    for version in ("9", "10", "1.0", "2"):
        made = store.environments.register("default", "train", {"n": version}, "ann", version)
        assert store.environments.get("default", "train") == made
        assert store.environments.list("default") == [made]


def test_the_latest_of_each_is_listed(store: Store) -> None:
    store.workspaces.create("other")
    for name, definition in (("b", A), ("a", A), ("a", B)):
        store.environments.register("default", name, definition, "ann")
    store.environments.register("other", "c", A, "ann")
    assert [(v.name, v.version) for v in store.environments.list("default")] == [("a", "2"), ("b", "1")]


def test_what_is_not_there(store: Store) -> None:
    store.environments.register("default", "train", A, "ann")
    with pytest.raises(NotFound, match="no environment other"):
        store.environments.get("default", "other")
    with pytest.raises(NotFound, match="no version 2 of the environment train"):
        store.environments.get("default", "train", "2")
    with pytest.raises(NotFound, match="no workspace nowhere"):
        store.environments.register("nowhere", "train", A, "ann")


def test_many_at_once_get_versions_of_their_own(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: store.environments.register("default", "x", {"n": n}, "ann"), range(8)))
    assert sorted(version.version for version in made) == [str(number) for number in range(1, 9)]
    for version in made:
        assert store.environments.get("default", "x", version.version) == version


def test_registering_leaves_a_trace(store: Store) -> None:
    store.environments.register("default", "train", A, "ann")
    [entry] = store.audit.list("default")
    assert (entry.principal, entry.act, entry.object, entry.details) == (
        "ann", "environment.register", "train", {"version": "1"},
    )  # fmt: skip


def test_a_wheel_is_kept_once_under_its_name(store: Store) -> None:
    kept, is_new = store.environments.keep_wheel("default", "a-1.0-py3-none-any.whl", "0" * 64, 10, "ann")
    assert (kept.digest, kept.size, is_new) == ("0" * 64, 10, True)
    with pytest.raises(AlreadyExists, match="exist_ok"):
        store.environments.keep_wheel("default", kept.name, "0" * 64, 10, "bob")
    assert store.environments.keep_wheel("default", kept.name, "0" * 64, 10, "bob", exist_ok=True) == (kept, False)
    with pytest.raises(Conflict, match="another version"):
        store.environments.keep_wheel("default", kept.name, "1" * 64, 10, "bob", exist_ok=True)
    with pytest.raises(NotFound):
        store.environments.keep_wheel("nowhere", kept.name, "0" * 64, 10, "ann")


def test_bytes_that_environments_need_stay(store: Store) -> None:
    digests = [store.blobs.put([text])[0] for text in (b"private", b"named", b"nobody's")]
    private, named, nobodys = digests
    store.environments.keep_wheel("default", "p-1.0-py3-none-any.whl", private, 7, "ann")
    pip = [f"wheel:{named}/5/n-1.0-py3-none-any.whl"]
    store.environments.register("default", "train", {"python": {"dependencies": [{"pip": pip}]}}, "ann")
    later = datetime.now(UTC) + timedelta(days=3)
    found = {item.id for item in store.retention.candidates(Policy(), later) if item.kind == "blob"}
    assert found == {nobodys}
