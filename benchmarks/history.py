"""Benchmark of the list of runs with a history of 100,000 runs."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.copies import MODELS, database_of, fill
from benchmarks.home import Api, temporary_home
from benchmarks.rounds import Effort, median, milliseconds, p99, process_milliseconds, take_turns
from benchmarks.row import Row, at_most

# The query of the sorted list, written by hand: filter, order by the metric, and the two metrics that are shown.
SQL = """
SELECT runs.*, series.last, (SELECT last FROM series AS other WHERE other.run = runs.pk AND other.name = 'loss')
FROM series JOIN runs ON runs.pk = series.run
WHERE series.workspace = ? AND series.name = 'accuracy' AND series.last > ? AND runs.state = 'Completed'
  AND EXISTS (SELECT 1 FROM labels WHERE run = runs.pk AND kind = 'tag' AND key = 'model' AND value = ?)
ORDER BY series.last DESC LIMIT 100
"""


def runs(effort: Effort) -> Iterator[Row]:
    """Pages of a history of 100,000 runs over HTTP, and `windlass runs` on it."""
    count = effort.times(100_000, 2_000)
    with temporary_home() as home:
        fill(home, count)
        api, database = home.api(), database_of(home)
        workspace = api.workspace.rpartition("/")[2]
        chance = random.Random(1)

        def bare() -> float:
            values = (workspace, chance.random() / 2, f"m{chance.randrange(MODELS)}")
            return milliseconds(lambda: database.execute(SQL, values).fetchall())

        def top() -> float:
            tag, least = f"model:m{chance.randrange(MODELS)}", chance.random() / 2
            query = {
                "tag": tag,
                "where": f"metric.accuracy>{least}",
                "state": "Completed",
                "metrics": ["accuracy", "loss"],
            }
            return _ask(api, {**query, "sort": "-metric.accuracy"})

        def rare() -> float:
            query = {"tag": f"rare:{chance.randrange(count // 100)}", "sort": "-metric.accuracy"}
            return _ask(api, query)

        sides = take_turns(
            effort.times(150, 20),
            bare,
            top,
            rare,
            lambda: _ask(api, {}),
            lambda: _ask(api, {"search": "run_7"}),
            lambda: _ask(api, {"arguments": "true", "metrics": ["accuracy", "loss"]}),
            lambda: milliseconds(lambda: api.raw("GET", "/experiments")),
            warm_up=5,
        )
        database.close()
        yield from _rows(count, sides)
        yield from _command(effort, count)


def _rows(count: int, sides: list[list[float]]) -> Iterator[Row]:
    bare, top, rare, latest, search, table, experiments = sides
    budget = at_most(50)
    what = f"top 100 of {count:,} runs, filtered, by a metric, over HTTP, p99"
    yield Row(what, p99(top), "ms", p99(bare), "the SQL itself", budget, f"Median {median(top):.1f} ms.")
    yield Row("the same with a filter that 100 runs pass, p99", p99(rare), "ms", None, "", budget)
    yield Row("latest 100, p99", p99(latest), "ms", None, "", budget)
    yield Row("search in names, p99", p99(search), "ms", None, "", budget)
    yield Row(
        "first page of the studio's table, with arguments and two metrics, p99", p99(table), "ms", None, "", budget
    )
    yield Row("experiments with counts of their runs, p99", p99(experiments), "ms", None, "", budget)


def _command(effort: Effort, count: int) -> Iterator[Row]:
    commands = ([sys.executable, "-c", "pass"], [str(Path(sys.executable).with_name("windlass")), "runs"])
    contenders = [lambda command=command: process_milliseconds(command) for command in commands]
    bare, ours = take_turns(effort.times(15, 3), *contenders, warm_up=2)
    what = f"`windlass runs`, {count:,} runs there"
    yield Row(what, median(ours), "ms", median(bare), "`python -c pass`", at_most(150))


def _ask(api: Api, query: Mapping[str, object], expected: int = 100) -> float:
    """Milliseconds until the whole page is here; that it is full is checked outside the measured time."""
    pages: list[bytes] = []
    path = f"/runs?{urlencode(query, doseq=True)}"
    took = milliseconds(lambda: pages.append(api.raw("GET", path)))
    found = len(json.loads(pages[0])["runs"])
    if found != expected:
        raise RuntimeError(f"{path}: {found} runs of {expected}")
    return took


MEASURES = (runs,)
