"""Metric lines: each exactly once, back as they were logged, thinned without losing what stands out."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.server.serving import HOME, Answer, Server


def log(server: Server, run: str, lines: list[dict[str, Any]], offset: int = 0, writer: str = "w") -> Answer:
    return server.call("POST", f"{HOME}/runs/{run}/metrics", {"writer": writer, "offset": offset, "lines": lines})


def lines(*values: Any, name: str = "loss", start: int = 0) -> list[dict[str, Any]]:
    return [{"n": name, "v": value, "t": 1000.0 + i, "s": i} for i, value in enumerate(values, start)]


def values(server: Server, run: str, name: str = "loss") -> list[Any]:
    found = server.call("GET", f"{HOME}/runs/{run}/metrics?name={name}").json["metrics"]
    return [value["v"] for value in found[name]["values"]] if name in found else []


def test_lines_come_back_as_logged(server: Server) -> None:
    run = server.interactive()["id"]
    table = {"a": [1, 2], "b": ["x", "y"]}
    logged = [
        {"n": "loss", "v": 0.5, "t": 1.0, "s": 3},
        {"n": "note", "v": "fine", "t": 2.0},
        {"n": "table", "v": table, "t": 3.0, "k": "table", "d": "how it went"},
        {"n": "list", "v": [1, 2.5], "t": 4.0, "k": "list"},
        {"n": "loss", "v": 7, "t": 5.0},
    ]
    assert log(server, run, logged).json == {"offset": 5}
    found = server.call("GET", f"{HOME}/runs/{run}/metrics").json["metrics"]
    assert found["loss"] == {"kind": "scalar", "count": 2, "values": [{"v": 0.5, "t": 1.0, "s": 3}, {"v": 7, "t": 5.0}]}
    assert found["note"]["values"] == [{"v": "fine", "t": 2.0}]
    assert found["table"]["values"][0]["v"] == table and found["table"]["description"] == "how it went"
    assert found["list"]["kind"] == "list"
    only = server.call("GET", f"{HOME}/runs/{run}/metrics?name=note&name=list").json["metrics"]
    assert set(only) == {"note", "list"}


def test_not_a_number_and_infinity_round_trip(server: Server) -> None:
    run = server.interactive()["id"]
    log(server, run, lines(math.nan, math.inf, -math.inf, 1.0))
    back = values(server, run)
    assert math.isnan(back[0]) and back[1:] == [math.inf, -math.inf, 1.0]
    points = server.call("GET", f"{HOME}/runs/{run}/metrics/loss").json["points"]
    assert [point[3] for point in points] == [None, None, None, 1.0]


def test_a_repeat_is_skipped_an_overlap_cut_and_a_gap_refused(server: Server) -> None:
    run = server.interactive()["id"]
    assert log(server, run, lines(1, 2, 3)).json == {"offset": 3}
    assert log(server, run, lines(1, 2, 3)).json == {"offset": 3}
    assert log(server, run, lines(2, 3, 4), offset=1).json == {"offset": 4}
    assert log(server, run, lines(9), offset=1).json == {"offset": 4}
    gap = log(server, run, lines(6), offset=5)
    assert gap.status == 409 and gap.json["error"]["details"] == {"expected": 4}
    assert log(server, run, lines(10), writer="other").json == {"offset": 1}
    assert values(server, run) == [1, 2, 3, 4, 10]


def test_thinning_keeps_minima_and_maxima(server: Server) -> None:
    run = server.interactive()["id"]
    series = [math.sin(i / 50) for i in range(5000)]
    series[1234], series[4321] = 99.0, -99.0
    log(server, run, lines(*series))
    thinned = server.call("GET", f"{HOME}/runs/{run}/metrics/loss?max_points=100").json
    assert thinned["name"] == "loss" and thinned["count"] == 5000 and len(thinned["points"]) <= 220
    found = {point[0]: point[3] for point in thinned["points"]}
    assert found[1234] == 99.0 and found[4321] == -99.0
    assert server.call("GET", f"{HOME}/runs/{run}/metrics/nothing").status == 404


def test_names_with_slashes_and_other_letters_work(server: Server) -> None:
    run = server.interactive()["id"]
    log(server, run, lines(1.0, name="train/löss %"))
    assert server.call("GET", f"{HOME}/runs/{run}/metrics/train%2Fl%C3%B6ss%20%25").json["count"] == 1


def test_metrics_are_taken_after_the_end(server: Server) -> None:
    run = server.interactive()["id"]
    server.call("POST", f"{HOME}/runs/{run}/end", {"state": "Completed"})
    assert log(server, run, lines(1)).status == 200


@pytest.mark.parametrize(
    "line",
    [
        {"n": "", "v": 1, "t": 1.0},
        {"n": "x" * 257, "v": 1, "t": 1.0},
        {"n": "a\nb", "v": 1, "t": 1.0},
        {"n": "a\x1b[31m", "v": 1, "t": 1.0},
        {"n": "x", "t": 1.0},
        {"n": "x", "v": 1},
        {"n": "x", "v": 1, "t": "now"},
        {"n": "x", "v": 1, "t": 1e300},
        {"n": "x", "v": 1, "t": math.nan},
        {"n": "x", "v": 1, "t": 1.0, "s": 1 << 63},
        {"n": "x", "v": 1, "t": 1.0, "s": 1.5},
        {"n": "x", "v": 1, "t": 1.0, "k": "song"},
        {"n": "x", "v": 1, "t": 1.0, "z": 1},
    ],
)
def test_a_line_that_cannot_be_is_refused_with_all_of_its_batch(shared: Server, line: dict[str, Any]) -> None:
    run = shared.interactive()["id"]
    answer = log(shared, run, [*lines(1), line])
    assert answer.status == 400 and answer.code == "invalid_request"
    assert values(shared, run) == []


@pytest.mark.parametrize(
    "change",
    [{"offset": -1}, {"offset": 1 << 60}, {"writer": ""}, {"writer": "../x"}, {"lines": {}}, {"writer": "x" * 200}],
)
def test_a_batch_that_cannot_be_is_refused(shared: Server, change: dict[str, Any]) -> None:
    run = shared.interactive()["id"]
    body = {"writer": "w", "offset": 0, "lines": lines(1), **change}
    assert shared.call("POST", f"{HOME}/runs/{run}/metrics", body).status == 400


def test_odd_steps_and_times_are_kept(server: Server) -> None:
    run = server.interactive()["id"]
    odd = [(step, at) for step in (-1, 0, (1 << 63) - 1, -(1 << 63)) for at in (0.0, -1.0, 253402300799.0)]
    assert log(server, run, [{"n": "x", "v": 1e308, "t": at, "s": step} for step, at in odd]).status == 200
    kept = server.call("GET", f"{HOME}/runs/{run}/metrics").json["metrics"]["x"]["values"]
    assert kept == [{"v": 1e308, "t": at, "s": step} for step, at in odd]


def test_a_large_batch_is_taken_at_once(shared: Server) -> None:
    run = shared.interactive()["id"]
    batch = lines(*range(100_000))
    raw = json.dumps({"writer": "w", "offset": 0, "lines": batch}).encode()
    answer = shared.call("POST", f"{HOME}/runs/{run}/metrics", raw=raw, headers={"Content-Type": "application/json"})
    assert answer.json == {"offset": 100_000}
    assert shared.store.metrics.counts(run) == {"loss": 100_000}


def test_many_points_read_as_few_do(shared: Server) -> None:
    run = shared.interactive()["id"]
    many = [{"n": "a", "v": i, "t": 1.0, "s": i, "d": "long"} for i in range(45_000)]
    shared.store.metrics.append(
        run, "w", 0, 1, [*many, {"n": "b", "v": math.nan, "t": 2.0}, {"n": "c", "v": "x", "t": 3.0}]
    )
    found = shared.call("GET", f"{HOME}/runs/{run}/metrics").json["metrics"]
    assert list(found) == ["a", "b", "c"]
    assert (found["a"]["count"], found["a"]["kind"], found["a"]["description"]) == (45_000, "scalar", "long")
    assert found["a"]["values"] == [{"v": i, "t": 1.0, "s": i} for i in range(45_000)]
    assert math.isnan(found["b"]["values"][0]["v"]) and found["c"]["values"] == [{"v": "x", "t": 3.0}]
    only = shared.call("GET", f"{HOME}/runs/{run}/metrics?name=c").json["metrics"]
    assert list(only) == ["c"]


def test_a_summary_has_the_last_value_and_the_extremes(server: Server) -> None:
    run = server.interactive()["id"]
    log(server, run, [*lines(3.0, *[2.0] * 2000, 1.5, 2.5), {"n": "note", "v": "fine", "t": 2.0}])
    found = server.call("GET", f"{HOME}/runs/{run}/metrics?last=true").json["metrics"]
    assert found["loss"]["values"] == [{"v": 2.5, "t": 3002.0, "s": 2002}]
    assert (found["loss"]["count"], found["loss"]["min"], found["loss"]["max"]) == (2003, 1.5, 3.0)
    assert found["note"]["values"] == [{"v": "fine", "t": 2.0}]


def test_many_series_are_thinned_in_one_answer(server: Server) -> None:
    run = server.interactive()["id"]
    table = {"n": "rows", "v": {"a": [1]}, "t": 1.0, "k": "table"}
    log(server, run, [*lines(*map(float, range(3000))), *lines(0.5, math.inf, name="b/c"), table])
    found = server.call("GET", f"{HOME}/runs/{run}/series?max_points=100").json["series"]
    assert [(series["name"], series["kind"], series["count"], len(series["points"])) for series in found] == [
        ("loss", "scalar", 3000, 98), ("b/c", "scalar", 2, 2), ("rows", "table", 1, 0),
    ]  # fmt: skip
    assert found[1]["points"] == [[0, 0, 1000.0, 0.5], [1, 1, 1001.0, None]]
    named = server.call("GET", f"{HOME}/runs/{run}/series?name=b/c&name=none").json["series"]
    assert [series["name"] for series in named] == ["b/c"]


def test_a_part_of_a_series_is_read_by_its_indexes(server: Server) -> None:
    run = server.interactive()["id"]
    log(server, run, lines(*map(float, range(3000))))
    part = server.call("GET", f"{HOME}/runs/{run}/metrics/loss?first=1500&last=1502").json
    assert part["count"] == 3000 and part["points"] == [[n, n, 1000.0 + n, float(n)] for n in (1500, 1501, 1502)]
    assert server.call("GET", f"{HOME}/runs/{run}/series?first=2990").json["series"][0]["points"][0][0] == 2990
    assert server.call("GET", f"{HOME}/runs/{run}/metrics/none").code == "not_found"
