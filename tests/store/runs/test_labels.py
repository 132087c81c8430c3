"""Name, description, tags and properties of runs, set by people and scripts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.store.makers import finish, submit
from windlass.core.entities import Artifact
from windlass.core.errors import Conflict, NotFound, TooLarge
from windlass.store import Store


def test_name_description_and_tags_change(store: Store) -> None:
    before, _, _ = submit(store, "r1", tags={"a": "1", "b": "2"})
    run = store.runs.describe(
        "default", "r1", name="n", description="d\nd", tags={"b": "3", "c": None}, remove_tags=["a"]
    )
    assert (run.name, run.description, run.tags) == ("n", "d\nd", {"b": "3", "c": None})
    assert store.runs.get("default", "r1") == run
    assert run.version > before.version
    assert store.runs.describe("default", "r1", name="").name == ""
    assert store.runs.describe("default", "r1").description == "d\nd"


def test_tags_may_be_changed_after_the_end(store: Store) -> None:
    submit(store, "r1")
    final, _ = finish(store, "r1")
    run = store.runs.describe("default", "r1", tags={"verdict": "good"})
    assert (run.state, run.ended_at, run.tags) == (final.state, final.ended_at, {"verdict": "good"})


def test_properties_are_written_once(store: Store) -> None:
    submit(store, "r1", properties={"git": "abc"})
    run = store.runs.describe("default", "r1", properties={"git": "abc", "new": "1"})
    assert run.properties == {"git": "abc", "new": "1"}
    with pytest.raises(Conflict, match="'git' of run r1 is 'abc'"):
        store.runs.describe("default", "r1", name="changed", properties={"other": "x", "git": "def"})
    assert store.runs.get("default", "r1") == run  # nothing of it was done


def test_of_many_who_write_a_property_one_does(store: Store) -> None:
    submit(store, "r1")

    def write(value: int) -> bool:
        try:
            store.runs.describe("default", "r1", properties={"p": str(value)})
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(write, range(8)))
    assert answers.count(True) == 1
    assert store.runs.get("default", "r1").properties == {"p": str(answers.index(True))}


def test_tags_of_many_writers_all_stay(store: Store) -> None:
    submit(store, "r1")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.runs.describe("default", "r1", tags={f"t{n}": str(n)}), range(16)))
    assert store.runs.get("default", "r1").tags == {f"t{n}": str(n) for n in range(16)}


def test_there_is_a_limit(store: Store) -> None:
    submit(store, "r1")
    store.runs.describe("default", "r1", tags={f"t{n}": "" for n in range(1000)})
    with pytest.raises(TooLarge, match="1000"):
        store.runs.describe("default", "r1", tags={"one more": ""})
    with pytest.raises(TooLarge):
        store.runs.describe("default", "r1", properties={f"p{n}": "" for n in range(1001)})


def test_calls_of_a_script_are_applied_once(store: Store) -> None:
    run, _, _ = submit(store, "r1", tags={"old": "1"})
    calls: list[dict[str, Any]] = [
        {"do": "tag", "key": "a", "value": "1"},
        {"do": "tag", "key": "a", "value": "2"},
        {"do": "tag", "key": "b"},
        {"do": "untag", "keys": ["old", "nothing"]},
        {"do": "properties", "values": {"p": "1", "number": 2}},
        {"do": "set", "name": "named", "description": None},
        {"do": "upload", "path": "outputs/a.txt", "file": "x", "size": 1},
    ]
    upload = Artifact("outputs/a.txt", "a" * 64, 1, run.created_at)
    assert store.runs.apply_calls("r1", "w", 0, 100, calls, [upload])
    done = store.runs.get("default", "r1")
    assert done.tags == {"a": "2", "b": None}
    assert (done.properties, done.name, done.description) == ({"p": "1", "number": "2"}, "named", "")
    assert store.artifacts.list("r1") == [upload]
    assert store.runs.calls_offset("r1", "w") == 100
    store.runs.describe("default", "r1", tags={"a": "by hand"})
    assert not store.runs.apply_calls("r1", "w", 0, 100, calls, [upload])
    assert store.runs.get("default", "r1").tags["a"] == "by hand"
    assert store.runs.apply_calls("r1", "other writer", 0, 10, [], [])
    assert store.metrics.writer_offset("r1", "w") == 0


def test_calls_that_fail_become_warning_events(store: Store) -> None:
    run, _, _ = submit(store, "r1", properties={"p": "1"})
    store.artifacts.add("r1", Artifact("outputs/a.txt", "a" * 64, 1, run.created_at))
    calls: list[Any] = [
        {"do": "properties", "values": {"p": "2"}},
        {"do": "fly"},
        {},
        {"do": "tag", "key": 7},
        {"do": "tag", "key": ""},
        {"do": "tag", "key": "x\0", "value": "y"},
        {"do": "tag", "key": "fine", "value": "1"},
    ]
    other = Artifact("outputs/a.txt", "b" * 64, 1, run.created_at)
    assert store.runs.apply_calls("r1", "w", 0, 10, calls, [other])
    done = store.runs.get("default", "r1")
    assert (done.tags, done.properties) == ({"fine": "1"}, {"p": "1"})
    assert store.artifacts.get("r1", "outputs/a.txt").digest == "a" * 64
    warnings = [event.message for event in store.runs.events("r1") if event.kind == "warning"]
    assert len(warnings) == 7
    assert "cannot be changed" in warnings[0] and "outputs/a.txt was uploaded again" in warnings[-1]
    with pytest.raises(NotFound):
        store.runs.apply_calls("nobody", "w", 0, 1, [], [])
