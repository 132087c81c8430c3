"""Workspaces, experiments, targets."""

from __future__ import annotations

import pytest

from tests.store.makers import submit
from windlass.core.errors import AlreadyExists, Conflict, NotFound
from windlass.store import Store


def test_a_workspace_keeps_what_it_was_made_with(store: Store) -> None:
    made = store.workspaces.create("team", "sub", "group", "here", {"a": "b"})
    assert store.workspaces.get("team") == made
    assert (made.subscription_id, made.resource_group, made.location, made.tags) == ("sub", "group", "here", {"a": "b"})
    assert [workspace.name for workspace in store.workspaces.list()] == ["default", "team"]


def test_a_workspace_is_made_once(store: Store) -> None:
    made = store.workspaces.create("team", "sub")
    with pytest.raises(AlreadyExists):
        store.workspaces.create("team")
    assert store.workspaces.create("team", "other", exist_ok=True) == made


def test_an_unknown_workspace_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.workspaces.get("nowhere")
    with pytest.raises(NotFound):
        store.experiments.ensure("nowhere", "demo")
    with pytest.raises(NotFound):
        store.targets.ensure("nowhere", "local", "local", {}, 1, True)
    with pytest.raises(NotFound):
        submit(store, "r1", workspace="nowhere")


def test_an_experiment_is_made_once(store: Store) -> None:
    made = store.experiments.ensure("default", "demo")
    assert store.experiments.ensure("default", "demo") == made
    assert store.experiments.get("default", "demo") == made
    assert [experiment.name for experiment in store.experiments.list("default")] == ["demo"]


def test_an_experiment_is_made_by_its_first_run_and_counts_them(store: Store) -> None:
    assert [submit(store, f"r{n}")[0].number for n in range(3)] == [1, 2, 3]
    assert submit(store, "other", experiment="other")[0].number == 1
    assert [experiment.name for experiment in store.experiments.list("default")] == ["demo", "other"]


def test_an_experiment_is_tagged_and_archived(store: Store) -> None:
    store.experiments.ensure("default", "demo")
    store.experiments.update("default", "demo", tags={"a": "1"})
    tagged = store.experiments.update("default", "demo", tags={"b": "2"}, archived=True)
    assert tagged.tags == {"a": "1", "b": "2"}
    assert tagged.archived_at is not None
    assert store.experiments.update("default", "demo", archived=True).archived_at == tagged.archived_at
    assert store.experiments.update("default", "demo", archived=False).archived_at is None
    with pytest.raises(NotFound):
        store.experiments.update("default", "nothing", archived=True)


def test_only_an_empty_experiment_is_deleted(store: Store) -> None:
    store.experiments.ensure("default", "empty")
    submit(store, "r1", experiment="full")
    store.experiments.delete("default", "empty")
    assert [experiment.name for experiment in store.experiments.list("default")] == ["full"]
    with pytest.raises(Conflict, match="has runs"):
        store.experiments.delete("default", "full")
    with pytest.raises(NotFound):
        store.experiments.delete("default", "empty")


def test_a_target_keeps_what_was_set_on_it(store: Store) -> None:
    made = store.targets.ensure("default", "mine", "local", {"python": "x"}, 2, True)
    assert (made.kind, made.config, made.slots, made.is_attached) == ("local", {"python": "x"}, 2, True)
    assert store.targets.update("default", "mine", slots=5).slots == 5
    assert store.targets.ensure("default", "mine", "local", {}, 2, True).slots == 5
    assert store.targets.update("default", "mine", slots=None).slots is None
    assert [target.name for target in store.targets.list("default")] == ["local", "mine", "other"]


def test_a_target_of_another_kind_does_not_take_its_name(store: Store) -> None:
    store.targets.ensure("default", "box", "ssh", {}, None, True)
    with pytest.raises(Conflict, match="kind ssh"):
        store.targets.ensure("default", "box", "local", {}, None, True)


def test_an_unknown_target_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.targets.get("default", "nowhere")
    with pytest.raises(NotFound):
        store.targets.update("default", "nowhere", slots=1)


def test_targets_count_their_runs(store: Store) -> None:
    assert store.targets.counts("default") == {}
    for n in range(3):
        submit(store, f"r{n}", slots=2)
    submit(store, "other", target="other", slots=None)
    assert store.targets.counts("default") == {"local": (2, 1), "other": (1, 0)}
