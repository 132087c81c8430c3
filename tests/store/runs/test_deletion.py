"""Deletion of runs: nothing of them stays, except what others need."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from tests.store.makers import finish, line, submit
from windlass.core.entities import Artifact, Run
from windlass.core.errors import Conflict, Denied, NotFound
from windlass.core.states import RunState
from windlass.store import Ending, Policy, Store
from windlass.store.catalog.models import ModelFile, NewModel
from windlass.store.db.schema import metadata

OF_RUNS = [table for table in metadata.tables.values() if "run" in table.c and table.name != "models"]
NOW = datetime.now(UTC)


def rows(store: Store) -> dict[str, int]:
    """How many rows each table of runs has that has any."""
    tables = [metadata.tables["runs"], metadata.tables["chunks"], *OF_RUNS]

    def count(connection: Any) -> dict[str, int]:
        counts = {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables
        }
        return {name: many for name, many in counts.items() if many}

    return store._database.read(count)


def whole_run(store: Store, id: str, **rest: Any) -> None:
    """A run that has ended, with a row in every table that ended runs have rows in, and a file."""
    submit(store, id, tags={"a": "b"}, properties={"git": "abc"}, **rest)
    store.runs.save_handle(id, 1, {"kind": "fake", "native_id": f"{id}.1"}, fence=1)
    store.metrics.append(id, "w", 0, 1, [line("loss", 1.0)])
    digest, size = store.blobs.put([id.encode()])
    finish(store, id, ending=Ending(artifacts=[Artifact("outputs/x", digest, size, NOW)]))


def delete(store: Store, id: str, children: bool = False, **rest: Any) -> list[str]:
    return store.runs.delete("default", id, children, "ann", **rest)


def test_nothing_of_a_deleted_run_stays(store: Store) -> None:
    whole_run(store, "kept")
    before = rows(store)
    whole_run(store, "gone")
    assert delete(store, "gone") == ["gone"]
    after = rows(store)
    assert after.pop("deleted_attempts") == 1  # until its folder is removed from its machine
    assert after == before
    with pytest.raises(NotFound):
        store.runs.get("default", "gone")
    with pytest.raises(NotFound):
        delete(store, "gone")
    assert store.runs.get("default", "kept").id == "kept"
    [entry] = [entry for entry in store.audit.list("default") if entry.act == "run.delete"]
    assert (entry.principal, entry.object, entry.details["count"]) == ("ann", "gone", 1)


def unneeded(store: Store) -> list[str]:
    """The blobs that the garbage collection would remove if all had been requested long ago."""
    long_ago = (datetime.now(UTC) - timedelta(days=10)).timestamp()
    for path in store.blobs.folder.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    return [item.id for item in store.retention.candidates(Policy(), datetime.now(UTC)) if item.kind == "blob"]


def test_its_files_are_left_to_the_garbage_collection(store: Store) -> None:
    whole_run(store, "kept")
    whole_run(store, "gone")
    digest = store.artifacts.list("gone")[0].digest
    assert unneeded(store) == []
    delete(store, "gone")
    assert unneeded(store) == [digest]


def test_a_registered_model_keeps_its_files(store: Store) -> None:
    whole_run(store, "gone")
    [file] = store.artifacts.list("gone")
    new = NewModel("net", [ModelFile("model.bin", file.digest, file.size)], run="gone", experiment="demo")
    store.models.register("default", new, "ann")
    delete(store, "gone")
    assert unneeded(store) == []
    assert store.models.get("default", "net").run == "gone"


def test_an_active_run_is_not_deleted(store: Store) -> None:
    submit(store, "busy")
    with pytest.raises(Conflict, match="Run busy is Starting: only runs that have ended"):
        delete(store, "busy")
    assert store.runs.get("default", "busy").state is RunState.STARTING


def test_children_are_deleted_only_when_that_is_wanted(store: Store) -> None:
    submit(store, "top")
    submit(store, "a", parent="top")
    submit(store, "b", parent="a")
    finish(store, "top")
    finish(store, "a")
    with pytest.raises(Conflict, match="has 2 child runs"):
        delete(store, "top")
    with pytest.raises(Conflict, match="Run b is Starting"):
        delete(store, "top", children=True)
    finish(store, "b")

    def refuse(run: Run) -> None:
        if run.id == "b":
            raise Denied("It is not yours.")

    with pytest.raises(Denied):
        delete(store, "top", children=True, check=refuse)
    assert len(store.runs.children("default", "top", recursive=True)) == 2
    assert delete(store, "top", children=True) == ["top", "a", "b"]
    assert rows(store) == {}


def test_a_run_of_another_workspace_is_not_found(store: Store) -> None:
    whole_run(store, "mine")
    with pytest.raises(NotFound):
        store.runs.delete("team", "mine", False, "ann")


def test_what_it_left_on_its_machine_is_known_until_it_is_removed(store: Store) -> None:
    whole_run(store, "gone")
    delete(store, "gone")
    [left] = store.runs.uncleaned_of_deleted(10)
    assert (left.workspace, left.target, left.run, left.number) == ("default", "local", "gone", 1)
    assert left.handle == {"kind": "fake", "native_id": "gone.1"}
    assert store.runs.uncleaned_of_deleted(10, [("default", "local")]) == []
    store.runs.mark_cleaned([("gone", 1, "another")])
    assert store.runs.uncleaned_of_deleted(10) == [left]
    store.runs.mark_cleaned([("gone", 1, left.nonce)])
    assert store.runs.uncleaned_of_deleted(10) == []


def test_what_was_removed_before_is_not_removed_again(store: Store) -> None:
    whole_run(store, "gone")
    [left] = store.runs.uncleaned(datetime.now(UTC) + timedelta(hours=1), 10)
    store.runs.mark_cleaned([(left.run, left.number, left.nonce)])
    delete(store, "gone")
    assert store.runs.uncleaned_of_deleted(10) == []


def test_the_garbage_collection_remembers_folders_too(store: Store) -> None:
    whole_run(store, "old")
    items = store.retention.candidates(Policy(runs=timedelta(0)), datetime.now(UTC) + timedelta(days=1))
    store.retention.apply([item for item in items if item.kind == "run"])
    assert [left.run for left in store.runs.uncleaned_of_deleted(10)] == ["old"]


def test_a_removed_target_has_nothing_to_clean(store: Store) -> None:
    whole_run(store, "gone", target="other")
    delete(store, "gone")
    store.attachments.remove("default", "other", "owner", force=False, where="")
    assert store.runs.uncleaned_of_deleted(10) == []
    assert rows(store) == {}


def test_an_id_can_be_used_again(store: Store) -> None:
    whole_run(store, "again")
    delete(store, "again")
    submit(store, "again", experiment="other")
    assert store.runs.get("default", "again").experiment == "other"
    assert [left.run for left in store.runs.uncleaned_of_deleted(10)] == ["again"]
