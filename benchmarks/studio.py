"""Benchmark of what the studio's pages ask the server for: lines of a long log, and points of a long series."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.home import API, Api, temporary_home
from benchmarks.rounds import Effort, median, milliseconds, take_turns
from benchmarks.row import Row, at_most

LINE = "2026-01-31 12:00:03 round %03d step %07d loss=0.123456 accuracy=0.987654 lr=0.001 images/s=1234\n"
SHOWN_LINES = 1000
SHOWN_POINTS = 2000
POINTS_AT_ONCE = 20_000


def lines(effort: Effort) -> Iterator[Row]:
    """The last lines of a log of 1,000,000 lines, when it is opened, and once it is open; a search in it."""
    count, rounds = effort.times(1_000_000, 20_000), effort.times(7, 2)
    opened: list[float] = []
    again: list[float] = []
    bare: list[float] = []
    found: list[float] = []
    with temporary_home() as home:
        api = home.api()
        run = _interactive(api)
        for number in range(rounds):
            file = home.folder / "bare.log"
            with file.open("w", encoding="ascii") as out:
                out.writelines(LINE % (number, step) for step in range(count))
            path = f"logs/{number}.log"
            _upload(api, run, path, file)  # other bytes than before: the server has no index of them
            bare.append(milliseconds(file.read_bytes))
            opened.append(milliseconds(partial(_ask_last, api, run, path, count)))
            again.append(milliseconds(partial(_ask_last, api, run, path, count)))
            found.append(milliseconds(partial(_search, api, run, path, count)))
        megabytes = file.stat().st_size / 1e6
    what = f"a log of {count:,} lines, last {SHOWN_LINES:,} lines, first request"
    note = f"The log has {megabytes:.0f} MB."
    yield Row(what, median(opened), "ms", median(bare), "read the file", at_most(500), note)
    yield Row("the same, once it is open", median(again), "ms", None, "", at_most(20))
    rate = f"{megabytes / median(found) * 1e3:.0f} MB/s."
    yield Row("search for a text that only its last line has", median(found), "ms", None, "", None, rate)


def series(effort: Effort) -> Iterator[Row]:
    """1,000,000 points of a metric, thinned for a chart."""
    count, rounds = effort.times(1_000_000, 40_000), effort.times(15, 2)
    with temporary_home() as home:
        api = home.api()
        run = _interactive(api)
        for start in range(0, count, POINTS_AT_ONCE):
            points = range(start, min(count, start + POINTS_AT_ONCE))
            logged = [{"n": "loss", "v": math.sin(step / 1e4), "t": 1e9 + step, "s": step} for step in points]
            api.call("POST", f"/runs/{run}/metrics", {"writer": "benchmark", "offset": start, "lines": logged})
        file = home.folder / "bare.bin"
        file.write_bytes(array("d", [0.5]) * (3 * count))  # values, times and steps
        query = urlencode({"name": "loss", "max_points": SHOWN_POINTS})
        bare, ours = take_turns(
            rounds,
            lambda: milliseconds(lambda: array("d").frombytes(file.read_bytes())),
            lambda: milliseconds(lambda: _chart(api, f"/runs/{run}/series?{query}", count)),
            warm_up=2,
        )
    what = f"{count:,} points thinned to {SHOWN_POINTS:,} for a chart"
    yield Row(what, median(ours), "ms", median(bare), "read so many numbers from a file", at_most(150))


def _interactive(api: Api) -> str:
    return str(api.call("POST", "/runs", {"experiment": "benchmark", "type": "interactive"})["id"])


def _upload(api: Api, run: str, path: str, file: Path) -> None:
    headers = {**api.headers, "Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
    api.connection.close()  # writing the file took longer than the server keeps an idle connection
    with file.open("rb") as body:
        api.connection.request("PUT", f"{API}{api.workspace}/runs/{run}/files/{path}", body, headers)
        answer = api.connection.getresponse()
        answer.read()
    if answer.status != 201:
        raise RuntimeError(f"{path} was not taken: {answer.status}")


def _ask_last(api: Api, run: str, path: str, count: int) -> None:
    query = urlencode({"path": path, "first": -SHOWN_LINES, "limit": SHOWN_LINES})
    page = api.call("GET", f"/runs/{run}/lines?{query}")
    if page["line_count"] != count or f"step {count - 1:07d}" not in page["lines"][-1]:
        raise RuntimeError(f"{path}: {page['line_count']} lines of {count}")


def _search(api: Api, run: str, path: str, count: int) -> None:
    text, after = f"step {count - 1:07d}", -1
    while True:
        query = urlencode({"path": path, "text": text, "after": after})
        page = api.call("GET", f"/runs/{run}/lines/search?{query}")
        if page["matches"]:
            return
        if page["next"] is None:
            raise RuntimeError(f"{text} was not found")
        after = page["next"]


def _chart(api: Api, path: str, count: int) -> None:
    [found] = json.loads(api.raw("GET", path))["series"]
    if found["count"] != count or not SHOWN_POINTS / 2 < len(found["points"]) <= SHOWN_POINTS:
        raise RuntimeError(f"{len(found['points'])} points of {found['count']}")


MEASURES = (lines, series)
