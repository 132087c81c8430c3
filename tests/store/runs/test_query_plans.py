"""Query plans: hot statements never read a whole table, however long the history is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from tests.store.makers import LEASE, OWNER, finish, line, submit, with_slots
from windlass.store import RunQuery, Store
from windlass.store.runs import search

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

HOT: dict[str, Callable[[Store], object]] = {
    "submit": lambda store: submit(store, "new", slots=1, key="k", parent="r0", tags={"a": "b"}),
    "submit again": lambda store: submit(store, "again", slots=1, key="key"),
    "admit": lambda store: store.runs.admit("default", "local", OWNER, with_slots(3), LEASE),
    "finish": lambda store: finish(store, "r1", slots=2),
    "cancel": lambda store: store.runs.request_cancel("default", "r0"),
    "get": lambda store: store.runs.get("default", "r0"),
    "spec": lambda store: store.runs.spec("r0"),
    "active": lambda store: store.runs.active(),
    "specs": lambda store: store.runs.specs(["r0", "r1"]),
    "events": lambda store: store.runs.events("r0", after=1),
    "attempts": lambda store: store.runs.attempts("r0"),
    "lease": lambda store: store.runs.lease("other", LEASE, 10),
    "take over": lambda store: store.runs.take_over("other", LEASE),
    "renew": lambda store: store.runs.renew(OWNER, LEASE),
    "renew some": lambda store: store.runs.renew(OWNER, LEASE, ["r0", "r1"]),
    "release": lambda store: store.runs.release(OWNER),
    "stop requests": lambda store: store.runs.stop_requests(OWNER),
    "silent": lambda store: store.runs.silent_interactive(LONG_AGO),
    "uncleaned": lambda store: store.runs.uncleaned(LONG_AGO, 10),
    "given up": lambda store: store.runs.given_up(10),
    "children": lambda store: store.runs.children("default", "r0", recursive=True),
    "counts": lambda store: store.targets.counts("default"),
    "metrics": lambda store: store.metrics.append("r0", "w", 1, 2, [line("loss", 1.0), line("new", 1.0)]),
    "series": lambda store: store.metrics.read("r0"),
    "files": lambda store: store.artifacts.list("r0"),
    "unfinished": lambda store: store.runs.unfinished("default"),
    "columns": lambda store: store.runs.columns("default", "demo"),
    "count of experiment": lambda store: store.runs.count_of_experiment("default", "demo"),
    "delete": lambda store: store.runs.delete("default", finish(store, "r0", slots=3)[0].id, False, "ann"),
    "token": lambda store: store.tokens.find("x"),
}
LISTS: dict[str, dict[str, Any]] = {
    "newest": {},
    "of an experiment": {"experiment": "demo"},
    "in some states": {"states": ("active",), "experiment": "demo"},
    "with a tag": {"tags": ("a:b",)},
    "of a member": {"submitted_by": ("ann",)},
    "of two members": {"submitted_by": ("ann", "bob")},
    "with archived ones": {"archived": "all"},
    "with a text": {"search": "nothing"},
    "by a metric": {"sort": "-metric.loss"},
    "by a metric, filtered": {
        "sort": "metric.loss", "experiment": "demo", "states": ("Completed",), "tags": ("a",),
        "where": ("metric.acc>1",),
    },
    "children": {"parent": "r0", "sort": "name"},
}  # fmt: skip


@pytest.fixture
def history(sqlite_store: Store) -> Store:
    submit(sqlite_store, "old", key="key")
    for number in range(4):
        submit(sqlite_store, f"r{number}", slots=3, tags={"a": "b"})
        sqlite_store.metrics.append(f"r{number}", "w", 0, 1, [line("loss", float(number))])
    return sqlite_store


@contextmanager
def plans(store: Store, path: Path) -> Iterator[list[str]]:
    """What SQLite says about how it will answer each statement that is executed."""
    found: list[str] = []
    asked: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, values: Any, context: Any, is_many: bool) -> None:
        asked.append((statement, values[0] if is_many else values))

    engine = store._database._engine  # type: ignore[attr-defined]
    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("windlass_clock", 0, lambda: 0)
        for statement, values in asked:
            steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
            found += [f"{step} IN {statement}" for step in steps]


def whole_tables(found: list[str]) -> list[str]:
    tables = (
        "runs",
        "labels",
        "series",
        "events",
        "attempts",
        "holder",
        "child",
        "mine",
        "other",
        "chunks",
        "artifacts",
    )
    walks = [f"SCAN {table} " for table in tables]
    is_small = "USING INDEX attempts_to_clean"  # it has only what is left to do
    return [step for step in found if step.startswith(tuple(walks)) and is_small not in step]


@pytest.mark.parametrize("name", HOT)
def test_hot_statements_use_an_index(history: Store, tmp_path: Path, name: str) -> None:
    with plans(history, tmp_path / "db.sqlite") as found:
        HOT[name](history)
    assert found and whole_tables(found) == []
    assert not [
        step for step in found if "runs_by_state (workspace=?) " in step or "runs_by_time (workspace=?) " in step
    ]


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("few", [0, 4000])
def test_lists_use_an_index_in_order(
    history: Store, tmp_path: Path, name: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Walked ones need no sorting: the index has their order."""
    monkeypatch.setattr(search, "FEW", few)
    with plans(history, tmp_path / "db.sqlite") as found:
        history.runs.find(RunQuery("default", **LISTS[name]))
    main = [step for step in found if "ORDER BY" in step.partition(" IN ")[2]]
    assert main and not [step for step in whole_tables(main) if "NOT (EXISTS" not in step]
    if few == 0 and name != "children":
        assert not [step for step in main if step.startswith("USE TEMP B-TREE")]


@pytest.mark.parametrize("count", ["count_by_state", "count_by_experiment"])
def test_counts_read_an_index_only(history: Store, tmp_path: Path, count: str) -> None:
    with plans(history, tmp_path / "db.sqlite") as found:
        getattr(history.runs, count)("default")
    steps = [step.partition(" IN ")[0] for step in found]
    assert steps == ["SEARCH runs USING COVERING INDEX runs_by_state (workspace=? AND state=?)"]
