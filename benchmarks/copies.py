"""A long history of runs, made from one real run by copying its rows: submitting 100,000 would take minutes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping

from benchmarks.home import Home

METRICS = ("accuracy", "loss", "precision", "recall", "epoch")
MODELS = 7  # values of the tag `model`; the tag `rare` has a value for each 100 runs


def fill(home: Home, count: int) -> None:
    """After this the server has `count` runs, with metrics and tags that differ; events and points are left out."""
    _make_original(home)
    home.stop()
    database = database_of(home)
    database.execute("BEGIN IMMEDIATE")
    _copy(database, count)
    database.execute("COMMIT")
    database.execute("PRAGMA optimize")  # the server does it while rows are written
    database.close()
    home.start()


def database_of(home: Home) -> sqlite3.Connection:
    [path] = [path for path in home.folder.rglob("*") if path.suffix in (".db", ".sqlite", ".sqlite3")]
    return sqlite3.connect(path, isolation_level=None)


def _make_original(home: Home) -> None:
    api = home.api()
    run = api.submit(["true", "--alpha", "0.5"])
    lines = [{"n": name, "v": 0.5, "t": 1_790_000_000.0} for name in METRICS]
    api.call("POST", f"/runs/{run}/metrics", {"writer": "benchmark", "offset": 0, "lines": lines})
    api.call("PATCH", f"/runs/{run}", {"tags": {"model": "m0", "rare": "0"}})
    while api.call("GET", f"/runs/{run}")["state"] != "Completed":
        time.sleep(0.01)


def _copy(database: sqlite3.Connection, count: int) -> None:
    """Copies 1 to `count` - 1 of the one run there, table by table."""
    database.execute("CREATE TEMP TABLE copies (number INTEGER PRIMARY KEY)")
    database.executemany("INSERT INTO copies VALUES (?)", ((number,) for number in range(1, count)))
    copy = "'run_' || copies.number"
    model, rare = f"'m' || (copies.number % {MODELS})", f"'' || (copies.number % {count // 100})"
    tags = f"""'{{"model":"' || {model} || '","rare":"' || {rare} || '"}}'"""
    changes = {"id": copy, "searched": copy, "number": "copies.number + 1", "key": "NULL", "tags": tags}
    _insert(database, "runs", {**changes, "created_at": "original.created_at + copies.number * 1000000"})
    of_copy = {"run": f"(SELECT pk FROM runs WHERE id = {copy})"}
    _insert(database, "run_specs", of_copy)
    _insert(database, "labels", {**of_copy, "value": f"CASE original.key WHEN 'model' THEN {model} ELSE {rare} END"})
    # Spread evenly over 0 to 1, differently for each metric, the same at every run of the benchmark.
    value = "((copies.number * 2654435761 + original.pk * 40503) % 1000003) / 1000003.0"
    _insert(database, "series", {**of_copy, "last": value, "last_value": value})


def _insert(database: sqlite3.Connection, table: str, changes: Mapping[str, str]) -> None:
    """Each row of the original, once for each copy, with these columns changed."""
    database.execute(f"CREATE TEMP TABLE original AS SELECT * FROM main.{table}")
    columns = [row[1] for row in database.execute(f"PRAGMA main.table_info({table})") if row[1] != "pk"]
    values = [changes.get(column, f'original."{column}"') for column in columns]
    names = ", ".join(f'"{column}"' for column in columns)
    database.execute(f"INSERT INTO main.{table} ({names}) SELECT {', '.join(values)} FROM copies, original")
    database.execute("DROP TABLE temp.original")
