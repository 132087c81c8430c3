"""The list of runs: filters, sorts, pages."""

from __future__ import annotations

import base64
import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.makers import finish, interactive, line, make_workspace, running, submit
from windlass.core.errors import InvalidRequest
from windlass.core.states import RunState
from windlass.store import RunQuery, Store
from windlass.store.runs import search
from windlass.store.runs.query import Condition, Position, parse_condition, parse_sort, read_cursor, write_cursor


def ids(store: Store, **parameters: Any) -> list[str]:
    return [run.id for run in store.runs.find(RunQuery("default", **parameters)).runs]


def walk(store: Store, limit: int, **parameters: Any) -> list[str]:
    """All pages, one after the other."""
    found: list[str] = []
    cursor = None
    while True:
        page = store.runs.find(RunQuery("default", limit=limit, cursor=cursor, **parameters))
        assert len(page.runs) <= limit
        found += [run.id for run in page.runs]
        cursor = page.next
        if cursor is None:
            return found


def log(store: Store, id: str, **values: Any) -> None:
    lines = [line(name, value) for name, value in values.items()]
    offset = store.metrics.writer_offset(id, "w")
    assert store.metrics.append(id, "w", offset, offset + len(lines), lines)


def test_the_newest_come_first(store: Store) -> None:
    for number in range(3):
        submit(store, f"r{number}")
    assert ids(store) == ["r2", "r1", "r0"]
    assert ids(store, sort="created_at") == ["r0", "r1", "r2"]
    assert store.runs.find(RunQuery("default")).runs[0] == store.runs.get("default", "r2")


def test_a_workspace_shows_its_own(store: Store) -> None:
    make_workspace(store, "team")
    submit(store, "ours")
    submit(store, "theirs", workspace="team")
    log(store, "theirs", loss=1.0)
    assert ids(store) == ["ours"]
    assert ids(store, sort="metric.loss") == ["ours"]
    assert ids(store, where=("metric.loss>0",)) == []
    assert [run.id for run in store.runs.find(RunQuery("nowhere")).runs] == []


def test_filters_by_what_a_run_is(store: Store) -> None:
    submit(store, "a", experiment="one", tags={"team": "x", "urgent": None}, properties={"git": "abc"})
    submit(store, "b", experiment="two", tags={"team": "y"}, target="other", parent="a", name="Straße 7")
    store.runs.create([interactive("c", parent="a", name="100% _sure_")])
    finish(store, "b")
    running(store, "a")
    expected: list[tuple[dict[str, Any], list[str]]] = [
        ({"experiment": "one"}, ["a"]),
        ({"experiment": "none"}, []),
        ({"states": ("Completed",)}, ["b"]),
        ({"states": ("active",)}, ["c", "a"]),
        ({"states": ("Completed", "Running")}, ["c", "b", "a"]),
        ({"states": ("Failed",)}, []),
        ({"type": "interactive"}, ["c"]),
        ({"parent": "none"}, ["a"]),
        ({"parent": "a"}, ["c", "b"]),
        ({"target": "other"}, ["b"]),
        ({"tags": ("team",)}, ["b", "a"]),
        ({"tags": ("team:x",)}, ["a"]),
        ({"tags": ("team:x", "urgent")}, ["a"]),
        ({"tags": ("urgent:x",)}, []),
        ({"tags": ("git:abc",)}, []),
        ({"properties": ("git:abc",)}, ["a"]),
        ({"search": "STRASSE"}, ["b"]),
        ({"search": "%"}, ["c"]),
        ({"search": "_"}, ["c"]),
        ({"search": "_sure_"}, ["c"]),
        ({"search": "nothing"}, []),
        ({"experiment": "two", "states": ("Completed",), "tags": ("team",), "parent": "a", "target": "other"}, ["b"]),
    ]
    for parameters, found in expected:
        assert ids(store, **parameters) == found, parameters


def test_filters_follow_changes(store: Store) -> None:
    submit(store, "a", tags={"team": "x"})
    store.runs.describe("default", "a", name="Fresh", tags={"team": "y", "new": "1"}, properties={"p": "1"})
    assert ids(store, tags=("team:x",)) == []
    assert ids(store, tags=("team:y", "new:1"), properties=("p:1",), search="fresh") == ["a"]
    store.runs.describe("default", "a", remove_tags=["team"])
    assert ids(store, tags=("team",)) == []


def test_filters_by_time(store: Store) -> None:
    moments = [submit(store, f"r{number}")[0].created_at for number in range(3)]
    assert ids(store, since=moments[1]) == ["r2", "r1"]
    assert ids(store, until=moments[1]) == ["r1", "r0"]
    assert ids(store, since=moments[1] + timedelta(microseconds=1), until=moments[2]) == ["r2"]


def test_filters_by_a_metrics_last_value(store: Store) -> None:
    logged: dict[str, list[Any]] = {
        "a": [0.5, 0.1], "b": [0.05], "c": [float("nan")], "d": ["text"], "e": [float("inf")],
    }  # fmt: skip
    for id, values in logged.items():
        submit(store, id)
        for value in values:
            log(store, id, loss=value)
    submit(store, "none")
    for condition, found in [
        ("metric.loss<0.2", ["a", "b"]),
        ("metric.loss <= 0.1", ["a", "b"]),
        ("metric.loss>0.05", ["a", "e"]),
        ("metric.loss>=0.05", ["a", "b", "e"]),
        ("metric.loss=0.1", ["a"]),
        ("metric.loss==0.1", ["a"]),
        ("metric.loss!=0.1", ["b", "c", "d", "e"]),
        ("metric.loss=inf", ["e"]),
        ("metric.other<1", []),
    ]:
        assert ids(store, where=(condition,), sort="created_at") == found, condition
    assert ids(store, where=("metric.loss<0.2", "metric.loss>0.05"), sort="-metric.loss") == ["a"]


def test_sorts_by_a_metric_and_shows_it(store: Store) -> None:
    for id, value in (("a", 3), ("b", 1.5), ("c", None), ("d", float("nan")), ("e", -2), ("f", True)):
        submit(store, id)
        if value is not None:
            log(store, id, loss=value, other=id)
    assert ids(store, sort="metric.loss") == ["e", "f", "b", "a", "d", "c"]
    assert ids(store, sort="-metric.loss") == ["a", "b", "f", "e", "d", "c"]
    page = store.runs.find(RunQuery("default", sort="metric.loss", metrics=("loss", "other", "absent")))
    assert page.metrics["e"] == {"loss": -2, "other": "e"}
    assert page.metrics["f"]["loss"] is True
    assert page.metrics["c"] == {}
    assert page.metrics["d"]["loss"] != page.metrics["d"]["loss"]


@pytest.mark.parametrize(
    "key", ["created_at", "started_at", "ended_at", "duration", "name", "state", "experiment", "number"]
)
def test_every_sort_key_orders_and_pages(store: Store, key: str) -> None:
    for number, name in enumerate(["b", "a", "c", "a", "B"]):
        submit(store, f"r{number}", name=name, experiment=f"e{number % 2}")
    running(store, "r1")
    finish(store, "r1", expect=RunState.RUNNING)
    running(store, "r0")
    finish(store, "r0", expect=RunState.RUNNING)
    running(store, "r3")

    def value(id: str) -> Any:
        run = store.runs.get("default", id)
        if key == "duration":
            return None if run.ended_at is None or run.started_at is None else run.ended_at - run.started_at
        return getattr(run, key)

    for sign in ("", "-"):
        found = ids(store, sort=sign + key)
        values = [value(id) for id in found]
        known = [each for each in values if each is not None]
        assert values == known + [None] * (len(values) - len(known))
        assert known == sorted(known, reverse=sign == "-")
        for limit in (1, 2, 3, 5):
            assert walk(store, limit, sort=sign + key) == found


@pytest.mark.parametrize("few", [0, 3, 2000])
def test_pages_are_the_whole_list_whichever_way_they_are_found(
    store: Store, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "FEW", few)
    for number in range(12):
        submit(store, f"r{number:02}", tags={"parity": str(number % 2)}, experiment=f"e{number % 3}")
        if number % 4:
            log(store, f"r{number:02}", loss=float(number % 5))
    queries: list[dict[str, Any]] = [
        {},
        {"tags": ("parity:1",)},
        {"experiment": "e1"},
        {"states": ("Starting",), "experiment": "e2"},
        {"where": ("metric.loss>=1",)},
        {"where": ("metric.loss>=1",), "tags": ("parity:0",), "experiment": "e0", "states": ("active",)},
    ]
    for parameters in queries:
        for sort in ("-created_at", "metric.loss", "-metric.loss", "name"):
            whole = ids(store, sort=sort, **parameters)
            assert sorted(whole) == sorted(ids(store, **parameters))
            assert walk(store, 2, sort=sort, **parameters) == whole
    assert ids(store, sort="metric.loss", where=("metric.loss>=3",)) == ["r03", "r09"]


def test_pages_miss_nothing_and_repeat_nothing_while_runs_come_in(store: Store) -> None:
    for number in range(10):
        submit(store, f"old{number}")
    found: list[str] = []
    cursor = None
    for number in range(20):
        page = store.runs.find(RunQuery("default", limit=3, cursor=cursor))
        found += [run.id for run in page.runs]
        cursor = page.next
        if cursor is None:
            break
        submit(store, f"new{number}")
    assert found == [f"old{number}" for number in reversed(range(10))]


def test_a_page_has_a_bounded_size(store: Store) -> None:
    for limit in (0, -1, 1001, 10**9):
        with pytest.raises(InvalidRequest, match="1 to 1000"):
            store.runs.find(RunQuery("default", limit=limit))


def test_the_last_page_has_no_next(store: Store) -> None:
    for number in range(4):
        submit(store, f"r{number}")
    first = store.runs.find(RunQuery("default", limit=2))
    assert first.next is not None
    second = store.runs.find(RunQuery("default", limit=2, cursor=first.next))
    assert [run.id for run in second.runs] == ["r1", "r0"] and second.next is None


def test_a_cursor_belongs_to_its_list(store: Store) -> None:
    for number in range(3):
        submit(store, f"r{number}", experiment="demo")
    cursor = store.runs.find(RunQuery("default", limit=1)).next
    assert cursor is not None
    for change in ({"sort": "created_at"}, {"sort": "name"}, {"experiment": "demo"}, {"tags": ("a",)}, {"search": "r"}):
        with pytest.raises(InvalidRequest, match="cursor"):
            store.runs.find(dataclasses.replace(RunQuery("default", cursor=cursor), **change))
    with pytest.raises(InvalidRequest):
        store.runs.find(RunQuery("team", cursor=cursor))
    assert len(store.runs.find(RunQuery("default", limit=2, cursor=cursor, metrics=("loss",))).runs) == 2


def test_forged_and_broken_cursors_are_refused(store: Store) -> None:
    for number in range(3):
        submit(store, f"r{number}")
    good = store.runs.find(RunQuery("default", limit=1)).next
    assert good is not None
    bodies = ["", "null", "[]", "[1]", '["x",1]', "[1,null]", "[1,true]", "[1,1e9]", f"[1,{2**70}]", "[null,1]", "{}"]
    forged = [base64.urlsafe_b64encode(("0" * 16 + body).encode()).decode() for body in bodies]
    for cursor in ["", "x", good[:-2], good[1:], good + "AAAA", "é", "\0", "=" * 10, "A" * 100_000, *forged]:
        with pytest.raises(InvalidRequest, match="cursor"):
            store.runs.find(RunQuery("default", limit=1, cursor=cursor))


@given(st.text())
def test_any_text_is_no_cursor(text: str) -> None:
    query = RunQuery("default", cursor=text)
    with pytest.raises(InvalidRequest):
        read_cursor(query, parse_sort(query.sort))


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.none() | st.integers() | st.text())
def test_a_cursor_of_another_kind_is_refused_even_if_it_is_well_made(value: Any, pk: Any) -> None:
    """A forged cursor is a position in the same list, or an error."""
    query = RunQuery("default")
    forged = dataclasses.replace(query, cursor=write_cursor(query, Position(value, pk)))
    try:
        position = read_cursor(forged, parse_sort(query.sort))
    except InvalidRequest:
        assert type(value) is not int or type(pk) is not int or max(abs(value), abs(pk)) >= 1 << 63
    else:
        assert position == Position(value, pk) and type(value) is int and type(pk) is int


def test_unknown_words_are_refused(store: Store) -> None:
    for sort in (
        "",
        "-",
        "id",
        "body_hash",
        "owner",
        "metric.",
        "--name",
        "name;drop",
        "created_at desc",
        "x" * 100_000,
    ):
        with pytest.raises(InvalidRequest, match="sorted by"):
            store.runs.find(RunQuery("default", sort=sort))
    for state in ("", "Nonsense", "completed", "active "):
        with pytest.raises(InvalidRequest):
            store.runs.find(RunQuery("default", states=(state,)))
    for condition in ("", "loss<1", "metric.<1", "metric.loss", "metric.loss<", "metric.loss<x", "metric.loss<nan",
                      "metric." + "a" * 100_000 + "<1", "metric.a" + " " * 100_000):  # fmt: skip
        with pytest.raises(InvalidRequest, match="condition"):
            store.runs.find(RunQuery("default", where=(condition,)))


def test_the_characters_of_sql_are_only_characters(store: Store) -> None:
    evil = "'; DROP TABLE runs;-- \\ \" % _ $1 {} \0 \ud800 é"
    submit(store, "r1", name=evil, tags={evil: evil})
    log(store, "r1", **{"a'b%": 1.0})
    for parameters in (
        {"experiment": evil}, {"type": evil}, {"parent": evil}, {"target": evil}, {"properties": (evil,)},
        {"where": (f"metric.{evil[:20]}<1",)}, {"sort": f"metric.{evil}"}, {"search": "' OR 1=1 --"},
    ):  # fmt: skip
        store.runs.find(RunQuery("default", **parameters))
    assert ids(store, tags=(evil,)) == ["r1"]
    assert ids(store, tags=(f"{evil}:{evil}",)) == ["r1"]
    assert ids(store, search=evil) == ["r1"]
    assert ids(store, where=("metric.a'b%=1",)) == ["r1"]
    assert ids(store, where=("metric.a'b_=1",)) == []
    assert ids(store) == ["r1"]


def test_conditions_are_read_as_people_write_them() -> None:
    assert parse_condition("metric.val/loss < 1e-3") == Condition("val/loss", "<", 0.001)
    assert parse_condition("metric.a b>=-2") == Condition("a b", ">=", -2.0)
    assert parse_condition("metric.a<b<3") == Condition("a<b", "<", 3.0)
