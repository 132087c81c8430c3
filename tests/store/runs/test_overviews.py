"""What overviews and tables ask for: counts, columns, members, archived runs, changes of other servers."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from tests.store.makers import OWNER, finish, interactive, line, make_workspace, new_run, running, submit, with_slots
from windlass.core.entities import RunSpec
from windlass.core.errors import Conflict, InvalidRequest
from windlass.core.states import RunState
from windlass.store import ChangePosition, CommandLine, RunCounts, RunQuery, Store
from windlass.store.runs import changes, search
from windlass.store.runs.columns import parameter_names


def ids(store: Store, **parameters: Any) -> list[str]:
    return [run.id for run in store.runs.find(RunQuery("default", **parameters)).runs]


def archive(store: Store, id: str, archived: bool = True) -> None:
    store.runs.describe("default", id, archived=archived)


@pytest.mark.parametrize("few", [0, 1500])
def test_lists_of_members(store: Store, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FEW", few)
    for number in range(6):
        submit(store, f"r{number}", submitted_by=("ann", "bob", "eve")[number % 3], experiment=f"e{number % 2}")
    assert ids(store, submitted_by=("ann",)) == ["r3", "r0"]
    assert ids(store, submitted_by=("ann", "eve")) == ["r5", "r3", "r2", "r0"]
    assert ids(store, submitted_by=("ann", "eve"), experiment="e0", sort="name") == ["r0", "r2"]
    assert ids(store, submitted_by=("nobody",)) == []


@pytest.mark.parametrize("sort", ["-created_at", "name", "-metric.loss"])
def test_archived_runs_are_shown_when_they_are_wanted(store: Store, sort: str) -> None:
    for id in ("a", "b"):
        submit(store, id, name=id)
        finish(store, id)
    archive(store, "a")
    assert ids(store, sort=sort) == ["b"]
    assert ids(store, sort=sort, archived="only") == ["a"]
    assert sorted(ids(store, sort=sort, archived="all")) == ["a", "b"]
    with pytest.raises(InvalidRequest, match="no, only or all"):
        ids(store, archived="maybe")
    archive(store, "a", archived=False)
    assert sorted(ids(store, sort=sort)) == ["a", "b"] and store.runs.get("default", "a").archived_at is None


def test_only_ended_runs_are_archived_and_once(store: Store) -> None:
    submit(store, "r")
    with pytest.raises(Conflict, match="only a run that has ended"):
        archive(store, "r")
    finish(store, "r")
    archive(store, "r")
    first = store.runs.get("default", "r").archived_at
    archive(store, "r")
    assert first is not None and store.runs.get("default", "r").archived_at == first


def test_search_finds_what_a_run_is_called_and_what_it_executes(store: Store) -> None:
    submit(store, "a", tags={"team": "Blue"}, experiment="mnist")
    store.runs.create([interactive("b", name="Notebook")])
    for text, found in (
        ("MNIST", ["a"]), ("team:blue", ["a"]), ("--ALPHA 0.1", ["a"]), ("train.py", ["a"]), ("book", ["b"]),
        ("a\nn", []), ("100%", []),
    ):  # fmt: skip
        assert ids(store, search=text) == found, text
    store.runs.describe("default", "a", tags={"team": "green"})
    assert ids(store, search="blue") == [] and ids(store, search="green") == ["a"]


def test_a_page_shows_command_lines(store: Store) -> None:
    submit(store, "a")
    store.runs.create([interactive("b")])
    page = store.runs.find(RunQuery("default", arguments=True))
    assert page.commands == {"a": CommandLine("train.py", ["--alpha", "0.1"])}
    assert store.runs.find(RunQuery("default")).commands == {}


def test_a_page_shows_the_beginning_of_long_command_lines(store: Store) -> None:
    """A thousand runs with all that a system takes as arguments would be a gigabyte."""
    words = ("--alpha", "0.1", "x" * (search.LONGEST_SHOWN + 1), "y")
    spec = RunSpec(script="train.py", arguments=words)
    store.runs.submit(dataclasses.replace(new_run("a"), spec=spec), OWNER, with_slots(None), 60.0)
    [shown] = store.runs.find(RunQuery("default", arguments=True)).commands.values()
    assert shown.arguments[:2] == ["--alpha", "0.1"] and len(shown.arguments) == 3
    assert shown.arguments[2].endswith("x…") and sum(map(len, shown.arguments)) < search.LONGEST_SHOWN + 2


def test_names_of_parameters() -> None:
    found = parameter_names(["--alpha", "0.5", "--beta=1", "-v", "--", "--flag", "--x=\n", "---", "--a b"])
    assert found == ["alpha", "beta", "flag", "x", "-"]


def test_columns_are_those_of_recent_runs(store: Store) -> None:
    submit(store, "a", submitted_by="ann", tags={"team": "x"}, experiment="one")
    submit(store, "b", submitted_by="bob", target="other", experiment="two")
    store.metrics.append("a", "w", 0, 2, [line("loss", 1.0), line("picture", "x.png", k="image")])
    store.metrics.append("b", "w", 0, 1, [line("accuracy", 1.0)])
    found = store.runs.columns("default")
    assert (found.metrics, found.parameters, found.tags) == (["accuracy", "loss"], ["alpha"], ["team"])
    assert (found.members, found.targets) == (["ann", "bob"], ["local", "other"])
    one = store.runs.columns("default", "one")
    assert (one.metrics, one.members, one.targets) == (["loss"], ["ann"], ["local"])
    assert store.runs.columns("default", "none").metrics == []


def test_counts_by_state_and_experiment(store: Store) -> None:
    make_workspace(store, "team")
    submit(store, "theirs", workspace="team")
    for id, experiment in (("a", "one"), ("b", "one"), ("c", "two"), ("d", "two")):
        submit(store, id, experiment=experiment)
    finish(store, "a", exit_code=1)
    finish(store, "c")
    finish(store, "d")
    archive(store, "d")
    assert store.runs.count_by_state("default") == {
        RunState.FAILED: 1, RunState.STARTING: 1, RunState.COMPLETED: 1,
    }  # fmt: skip
    one = RunCounts(2, 1, 1, store.runs.get("default", "b").created_at)
    two = RunCounts(1, 0, 0, store.runs.get("default", "c").created_at)
    assert store.runs.count_by_experiment("default") == {"one": one, "two": two}
    assert store.runs.count_of_experiment("default", "one") == one
    assert store.runs.count_of_experiment("default", "none") == RunCounts()


def test_unfinished_runs_have_what_tells_whether_they_are_overdue(store: Store) -> None:
    submit(store, "owned")
    submit(store, "lost", lease=-1.0)
    submit(store, "queued", slots=0)
    store.runs.create([interactive("notebook")])
    running(store, "owned")
    store.runs.request_cancel("default", "owned")
    found = {each.run.id: each for each in store.runs.unfinished("default")}
    assert set(found) == {"owned", "lost", "notebook"}
    assert [found[id].has_owner for id in ("owned", "lost", "notebook")] == [True, False, True]
    assert found["owned"].cancel_at is not None and found["lost"].cancel_at is None
    assert found["notebook"].spec is None and found["owned"].spec is not None
    store.runs.release(OWNER)
    assert not any(each.has_owner for each in store.runs.unfinished("default") if each.spec is not None)


# What other servers have changed, on a database that they share


def test_changes_of_other_servers_are_found_once(postgres_store: Store) -> None:
    runs = postgres_store.runs
    submit(postgres_store, "old")
    time.sleep(0.01)
    position = runs.change_position("default", 0.0)
    submit(postgres_store, "a")
    submit(postgres_store, "b")
    make_workspace(postgres_store, "team")
    submit(postgres_store, "theirs", workspace="team")
    found = runs.changed_since("default", position)
    assert set(found.ids or ()) == {"a", "b"}
    again = runs.changed_since("default", found.position)
    assert again.ids == []
    runs.describe("default", "a", name="new")
    finish(postgres_store, "b")
    after = runs.changed_since("default", again.position)
    assert set(after.ids or ()) == {"a", "b"}
    runs.delete("default", "b", False, "ann")
    gone = runs.changed_since("default", after.position)
    assert gone.ids == ["b"]
    assert runs.changed_since("default", gone.position).ids == []


def test_after_many_changes_any_run_may_have_changed(postgres_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_CHANGED", changes._CHANGED.limit(3))
    monkeypatch.setattr(changes, "MOST", 3)
    runs = postgres_store.runs
    position = runs.change_position("default", 0.0)
    for number in range(5):
        submit(postgres_store, f"r{number}")
    found = runs.changed_since("default", position)
    assert found.ids is None and found.position.is_crowded
    assert runs.changed_since("default", found.position).ids == []
    later = ChangePosition(found.position.changed_at + changes.LATE + 60_000_000, 0, {}, True)
    calm = runs.changed_since("default", later)
    assert calm.ids is None and not calm.position.is_crowded
    assert runs.changed_since("default", calm.position).ids == []


def test_the_fingerprint_of_targets_changes_with_what_is_shown_of_them(store: Store) -> None:
    known = {store.targets.fingerprint("default")}
    assert store.targets.fingerprint("default") in known
    for change in (
        lambda: store.targets.update("default", "local", slots=3),
        lambda: store.targets.update("default", "local", inventory={"cores": 2}),
        lambda: store.targets.update("default", "local", quarantine="another key"),
        lambda: submit(store, "r"),
        lambda: finish(store, "r"),
    ):
        before = store.targets.fingerprint("default")
        change()
        assert store.targets.fingerprint("default") != before
    make_workspace(store, "team")
    before = store.targets.fingerprint("default")
    store.targets.update("team", "local", slots=7)
    assert store.targets.fingerprint("default") == before
