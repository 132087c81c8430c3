"""Events of targets: written with the change that they tell of, bounded, and kept a while after the target."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.store.makers import submit
from windlass.core.entities import Target
from windlass.core.errors import Conflict
from windlass.core.placement import Amount
from windlass.store import ComputerCapacity, Store
from windlass.store.catalog import target_events
from windlass.store.catalog.target_events import KEPT_AFTER_REMOVAL, MOST

COMPUTER = ComputerCapacity("box", 4000, 8000, 0)


def cluster(name: str = "c1", **changes: object) -> Target:
    config = {"vm_size": "Standard_D2_v2", "max_nodes": 2}
    return Target(name, "cluster", config, datetime.now(UTC), False, None, "jane", **changes)  # type: ignore[arg-type]


def told(store: Store, target: str) -> list[tuple[str, str]]:
    return [(event.kind, event.message) for event in reversed(store.target_events.list("default", target, 100))]


def test_a_cluster_tells_of_its_life(store: Store) -> None:
    known = store.attachments.add("default", cluster(provisioning_state="Creating"), [])
    store.attachments.provision("default", known, "Succeeded", "nodes are cut", "server")
    made = store.nodes.add("default", "c1", ["n1", "n2", "n3"], Amount(1000, 100, 0), COMPUTER, 2, False, "")
    assert made == ["n1", "n2"]
    store.nodes.move("default", "c1", "n1", "preparing", "ready", "")
    store.nodes.move("default", "c1", "n2", "preparing", "unusable", "no space left")
    assert store.nodes.leave("default", "c1", ["n1"], COMPUTER) == ["n1"]
    assert store.nodes.remove("default", "c1", "n1")
    known = store.targets.get("default", "c1")
    store.attachments.change("default", known, {"config": {**known.config, "max_nodes": 8}}, "tom", "target.change")
    store.attachments.begin_deletion("default", "c1", "jane", force=False)
    store.attachments.finish_deletion("default", "c1", "server")
    assert told(store, "c1") == [
        ("created", "its creation was requested by jane"),
        ("provisioning", "Succeeded: nodes are cut"),
        ("nodes_requested", "2 nodes (n1, n2) will be created"),
        ("node_ready", "node n1 is ready"),
        ("node_failed", "node n2 is unusable: no space left"),
        ("nodes_leaving", "1 node (n1) will be deleted: not needed any more"),
        ("node_removed", "node n1 is deleted"),
        ("changed", "changed by tom: max_nodes: 2 → 8"),
        ("deleting", "its deletion was requested by jane"),
        ("deleted", "deleted, with all its nodes"),
    ]


def test_a_change_that_did_not_happen_is_not_told(store: Store) -> None:
    store.attachments.add("default", cluster(), [])
    assert not store.nodes.move("default", "c1", "n1", "preparing", "ready", "")
    assert not store.nodes.remove("default", "c1", "n1")
    stale = cluster(pin="another")
    with pytest.raises(Conflict):
        store.attachments.change("default", stale, {"slots": 3}, "tom", "target.change")
    assert [kind for kind, _ in told(store, "c1")] == ["created"]


def test_quarantine_trust_and_detaching_are_told(store: Store) -> None:
    known = store.attachments.add("default", Target("box", "ssh", {}, datetime.now(UTC), True, 4, "jane", pin="a"), [])
    change = store.attachments.change
    known = change("default", known, {"quarantine": "it shows another key"}, "server", "target.quarantine")
    trusted = {"pin": "b", "pin_confirmed": True, "quarantine": None}
    known = change("default", known, trusted, "jane", "target.trust")
    change("default", known, {"slots": None}, "jane", "target.change")
    submit(store, "r1", target="box")
    store.attachments.remove("default", "box", "jane", force=True, where="there")
    assert told(store, "box") == [
        ("attached", "attached by jane"),
        ("quarantined", "it shows another key"),
        ("trusted", "trusted by jane: what it shows now is pinned, compared by a person"),
        ("changed", "changed by jane: slots: 4 → none"),
        ("detached", "detached by jane; runs that failed: 1"),
    ]


def test_the_latest_events_are_kept_and_read_in_pages(store: Store) -> None:
    for target in ("local", "other"):
        for number in range(MOST + 120 if target == "local" else 3):
            store.target_events.add("default", target, "test", f"{target} {number}")
    first = store.target_events.list("default", "local", 10)
    assert [event.message for event in first] == [f"local {number}" for number in range(MOST + 119, MOST + 109, -1)]
    then = store.target_events.list("default", "local", 2, before=first[-1].pk)
    assert [event.message for event in then] == [f"local {MOST + 109}", f"local {MOST + 108}"]
    assert MOST <= len(store.target_events.list("default", "local", 5000)) < MOST + 100
    assert len(store.target_events.list("default", "other", 5000)) == 3, "another target's are not counted"


def test_events_of_a_removed_target_go_after_a_while(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.attachments.add("default", cluster("old"), [])
    store.attachments.remove("default", "old", "jane", force=False, where="")
    store.attachments.add("default", cluster("there"), [])
    assert told(store, "old")
    later = datetime.now(UTC) + KEPT_AFTER_REMOVAL + timedelta(days=1)
    monkeypatch.setattr(target_events, "now", lambda: later)
    store.attachments.add("default", cluster("next"), [])
    store.attachments.remove("default", "next", "jane", force=False, where="")
    assert not told(store, "old")
    assert told(store, "there"), "a target that exists keeps its events"


def test_an_evicted_run_is_named(store: Store) -> None:
    store.attachments.add("default", cluster(), [])
    store.nodes.add("default", "c1", ["n1"], Amount(1000, 100, 0), COMPUTER, 2, True, "")
    store.nodes.move("default", "c1", "n1", "preparing", "ready", "")
    store.nodes.preempt("default", "c1", "n1", "for a test")
    assert told(store, "c1")[-1] == ("node_preempted", "node n1 was taken away: for a test")
