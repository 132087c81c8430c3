"""Secrets: encrypted bytes with versions and grants, and an audit entry for every change."""

from __future__ import annotations

import threading

import pytest

from tests.store.makers import finish, running, submit
from windlass.core.errors import Conflict, NotFound
from windlass.core.states import Reason, RunState, Step
from windlass.store import Store
from windlass.store.access.secrets import OF_RUNS, Sealed, Secret


def put(store: Store, name: str, version: int = 1, content: bytes = b"\0\xff", key: str = "k1", **more: str) -> Secret:
    given = {"granted_to": "runs", "by": "ann", **more}
    workspace = given.pop("workspace", "default")
    return store.secrets.put(workspace, name, version, Sealed(content, key), given["granted_to"], given["by"])


def acts(store: Store) -> list[tuple[str, str, str]]:
    return [(entry.principal, entry.act, entry.object) for entry in reversed(store.audit.list("default"))]


def test_a_secret_is_kept_as_it_was_sealed(store: Store) -> None:
    kept = put(store, "key", content=bytes(range(256)))
    assert store.secrets.get("default", "key") == kept == store.secrets.find("default", "key")
    assert (kept.sealed, kept.key_id, kept.version, kept.granted_to) == (bytes(range(256)), "k1", 1, "runs")
    assert (kept.created_by, kept.created_at) == ("ann", kept.changed_at)
    assert "\\x" not in repr(kept) and "sealed" not in repr(kept)


def test_versions_count_up_and_none_is_skipped(store: Store) -> None:
    put(store, "key")
    second = put(store, "key", 2, b"new", "k2", by="bob", granted_to="nobody")
    assert (second.version, second.sealed, second.key_id, second.granted_to) == (2, b"new", "k2", "nobody")
    assert second.created_by == "ann" and second.changed_at >= second.created_at
    for version in (1, 2, 4):
        with pytest.raises(Conflict):
            put(store, "key", version)
    with pytest.raises(Conflict):
        put(store, "other", 2)
    assert store.secrets.get("default", "key") == second


def test_workspaces_have_secrets_of_their_own(store: Store) -> None:
    store.workspaces.create("other")
    put(store, "key", content=b"1")
    put(store, "key", content=b"2", workspace="other")
    assert store.secrets.get("other", "key").sealed == b"2"
    store.secrets.delete("other", "key", "ann")
    assert store.secrets.get("default", "key").sealed == b"1"
    with pytest.raises(NotFound, match="no workspace"):
        put(store, "key", workspace="nowhere")


def test_the_list_has_what_people_set(store: Store) -> None:
    for name in ("zebra", "Ant", "target/gpu/password", f"{OF_RUNS}demo_1.1"):
        put(store, name)
    assert [secret.name for secret in store.secrets.list("default")] == ["Ant", "zebra"]
    assert store.secrets.list("nowhere") == []


def test_what_is_deleted_is_gone(store: Store) -> None:
    put(store, "key")
    store.secrets.delete("default", "key", "bob")
    assert store.secrets.find("default", "key") is None
    for act in (store.secrets.get, lambda w, n: store.secrets.delete(w, n, "bob")):
        with pytest.raises(NotFound, match="no secret key"):
            act("default", "key")
    assert put(store, "key").version == 1
    assert acts(store) == [
        ("ann", "secret.set", "key"),
        ("bob", "secret.delete", "key"),
        ("ann", "secret.set", "key"),
    ]


def test_a_grant_changes_without_the_value(store: Store) -> None:
    put(store, "key", content=b"1")
    changed = store.secrets.grant("default", "key", "named runs", "bob")
    assert (changed.granted_to, changed.version, changed.sealed) == ("named runs", 1, b"1")
    with pytest.raises(NotFound):
        store.secrets.grant("default", "nothing", "runs", "bob")
    assert acts(store)[-1] == ("bob", "secret.grant", "key")


def test_a_use_is_in_the_audit_log_with_its_purpose(store: Store) -> None:
    used = [put(store, "a"), put(store, "b")]
    store.secrets.use(used, "ann", "secret.use", {"run": "demo_1"})
    entries = store.audit.list("default", limit=2)
    assert [(entry.object, entry.details) for entry in reversed(entries)] == [
        ("a", {"version": 1, "run": "demo_1"}),
        ("b", {"version": 1, "run": "demo_1"}),
    ]
    assert store.audit.verify().is_whole


def test_what_was_changed_or_deleted_meanwhile_is_not_used(store: Store) -> None:
    old, gone = put(store, "a"), put(store, "b")
    put(store, "a", 2)
    store.secrets.delete("default", "b", "ann")
    before = len(acts(store))
    for stale in (old, gone):
        with pytest.raises(Conflict):
            store.secrets.use([stale], "ann", "secret.use", {}, ("demo.1", Sealed(b"m", "k1")))
    assert len(acts(store)) == before and store.secrets.find("default", f"{OF_RUNS}demo.1") is None


def test_what_is_masked_in_a_runs_logs_is_kept_with_the_use(store: Store) -> None:
    used = [put(store, "a")]
    for content in (b"first", b"second"):
        store.secrets.use(used, "ann", "secret.use", {}, ("demo_1.1", Sealed(content, "k1")))
    kept = store.secrets.find("default", f"{OF_RUNS}demo_1.1")
    assert kept is not None and (kept.sealed, kept.version, kept.granted_to) == (b"second", 1, "nobody")


def test_what_is_masked_goes_with_the_end_of_its_run_and_not_before(store: Store) -> None:
    used = [put(store, "a")]
    for id in ("r1", "r2", "gone"):
        if id != "gone":
            submit(store, id)
        store.secrets.use(used, "ann", "secret.use", {}, (f"{id}.1", Sealed(b"x", "k1")))

    def left() -> list[str]:
        return [secret.name for secret in store.secrets.sealed_with_other_keys("")]

    finish(store, "r1")
    assert left() == ["a", "run/gone.1", "run/r2.1"]
    store.secrets.drop_masks_of_ended()
    assert left() == ["a", "run/r2.1"]
    running(store, "r2")
    step = Step(RunState.FINALIZING, Reason.COLLECTING_OUTPUTS, "")
    store.runs.advance("r2", expect=RunState.RUNNING, step=step, fence=1)
    store.secrets.drop_masks_of_ended()
    assert left() == ["a", "run/r2.1"]


def test_resealing_changes_the_key_and_nothing_else(store: Store) -> None:
    a, b = put(store, "a"), put(store, "b", key="k2")
    assert store.secrets.keys() == {"k1", "k2"}
    assert store.secrets.sealed_with_other_keys("k2") == [a]
    assert store.secrets.reseal(a, Sealed(b"again", "k2"), "ann")
    now = store.secrets.get("default", "a")
    assert (now.sealed, now.key_id, now.version, now.changed_at) == (b"again", "k2", 1, a.changed_at)
    assert store.secrets.get("default", "b") == b and store.secrets.sealed_with_other_keys("k2") == []
    assert acts(store)[-1] == ("ann", "secret.reseal", "a")


def test_one_that_was_set_meanwhile_is_not_resealed(store: Store) -> None:
    stale = put(store, "a")
    put(store, "a", 2, b"newer")
    assert not store.secrets.reseal(stale, Sealed(b"older", "k2"), "ann")
    gone = put(store, "b")
    store.secrets.delete("default", "b", "ann")
    assert not store.secrets.reseal(gone, Sealed(b"older", "k2"), "ann")
    assert store.secrets.get("default", "a").sealed == b"newer" and store.secrets.keys() == {"k1"}


def test_of_many_who_set_a_version_one_does(store: Store) -> None:
    outcomes: list[str] = []

    def write(number: int) -> None:
        try:
            put(store, "key", content=b"%d" % number)
            outcomes.append("set")
        except Conflict:
            outcomes.append("late")

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["late"] * 7 + ["set"]
    assert acts(store) == [("ann", "secret.set", "key")]
