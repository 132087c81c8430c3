"""HTML of RunDetails: charts of any numbers, logs of any bytes, and no injection by scripts."""

from __future__ import annotations

import base64
import math
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from windlass.client.notebook.live_run import LiveRun
from windlass.client.notebook.log_tail import LogTail
from windlass.client.notebook.metric_chart import HEIGHT, WIDTH, draw
from windlass.client.notebook.metric_series import MOST_BUCKETS, Metric, Series
from windlass.client.notebook.widget_html import render

EVIL = "<script>alert('x')</script>&\"\x1b[2J\u202e"
VIEW: dict[str, Any] = {
    "id": "demo_1_ab",
    "name": "",
    "url": "http://127.0.0.1:1/workspaces/default/runs/demo_1_ab",
    "status": "Running",
    "message": "",
    "error": None,
    "started_at": "2026-01-01T10:00:00.000000Z",
    "ended_at": None,
    "experiment": "demo",
    "target": "local",
    "tags": {},
}


def series_of(*values: float) -> Series:
    made = Series()
    for at, value in enumerate(values):
        made.add(at, value)
    return made


def feed(tail: LogTail, text: str, offset: int = 0) -> str:
    tail.feed("log", offset, text.encode())
    return tail.text()


def test_a_long_series_is_thinned_evenly_and_keeps_its_extremes() -> None:
    odd = {20_000: 1e9, 50_001: -1e9, 70_002: math.inf, 99_999: 7.0}
    made = series_of(*(odd.get(at, math.sin(at)) for at in range(100_000)))
    points = made.points
    assert len(points) <= 3 * MOST_BUCKETS and made.count == 100_000 and made.last == 7.0
    assert {1e9, -1e9, math.inf} <= {y for _, y in points}
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    halves = [sum(x < 50_000 for x, _ in points), sum(x >= 50_000 for x, _ in points)]
    assert min(halves) > 0.8 * max(halves)


@pytest.mark.parametrize(
    "values",
    [
        (1.0, 2.0),
        (3.0, 3.0, 3.0),
        (0.0, 0.0),
        (1e308, -1e308, 0.0),
        (5e-324, 0.0, 1e-323),
        (1e15, 1e15 + 1),
        (math.nan, math.nan),
        (math.inf, -math.inf),
        (1.0, math.nan, math.inf, 2.0),
        (2.0**63, -(2.0**63)),
        (1e-300, 2e-300),
        (1.7976931348623157e308, 1.7976931348623157e308),
    ],
)
def test_any_numbers_make_a_chart_inside_its_frame(values: tuple[float, ...]) -> None:
    svg = draw("metric", [("", series_of(*values))])
    root = ElementTree.fromstring(svg)
    pairs = re.findall(r"(-?[\d.]+),(-?[\d.]+)", " ".join(line.get("points", "") for line in root.iter()))
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in pairs)
    assert "nan" not in svg and (math.inf in values or "inf" not in svg)
    finite = sum(map(math.isfinite, values))
    assert bool(finite) == bool(pairs or list(root.iter("{http://www.w3.org/2000/svg}circle")))


def test_the_line_is_interrupted_at_values_that_are_not_finite() -> None:
    svg = draw("metric", [("", series_of(1, 2, math.nan, 3, 4, math.inf, 5))])
    assert svg.count("<polyline") == 2 and svg.count("<circle") == 1 and svg.count("<title>inf") == 1


def test_what_is_logged_decides_between_chart_and_table() -> None:
    run = LiveRun(VIEW)
    for line in (
        {"n": "once", "v": 0.25},
        {"n": "often", "v": 1},
        {"n": "often", "v": 2},
        {"n": "steps", "v": 1, "s": 10},
        {"n": "steps", "v": 2, "s": 20},
        {"n": "list", "k": "list", "v": [1, 2, 3]},
        {"n": "row", "k": "row", "v": {"a": 1, "b": "text"}},
        {"n": "table", "k": "table", "v": {"left": [1, None, 3], "right": [4, 5, 6]}},
        {"n": "word", "v": "blue"},
        {"n": "truth", "v": True},
        {"n": "not a number", "v": math.nan},
        {"n": "matrix", "k": "confusion_matrix", "v": {"data": {}}},
    ):
        run.take("metric", line)
    html = render(run, is_live=True)
    assert html.count("<svg") == 4 and html.count("<polyline") == 4 and html.count("<circle") == 2
    rows = dict(re.findall(r'<tr><td class="">([^<]*)</td><td class="wl-number">([^<]*)</td></tr>', html))
    assert rows["once"] == "0.25" and rows["row.a"] == "1" and rows["row.b"] == "text" and rows["truth"] == "True"
    assert rows["not a number"] == "nan" and rows["word"] == "blue" and "matrix" in rows
    assert [x for x, _ in run.metrics["steps"].columns[""].points] == [10, 20]


def test_metrics_without_end_do_not_make_a_page_without_end() -> None:
    run = LiveRun(VIEW)
    for at in range(500):
        run.take("metric", {"n": f"m{at}", "k": "list", "v": [1, 2]})
        run.take("metric", {"n": f"v{at}", "v": 1})
    html = render(run, is_live=True)
    assert len(html) < 100_000 and "916 more metrics are on the run" in html


def test_nothing_that_a_script_wrote_becomes_markup() -> None:
    view = {
        **VIEW,
        **dict.fromkeys(("name", "message", "experiment", "target", "status"), EVIL),
        "url": 'http://127.0.0.1/"><script>',
        "error": {"message": EVIL},
        "tags": {EVIL: EVIL},
        "spec": {"script": EVIL, "arguments": [EVIL]},
    }
    run = LiveRun(view)
    run.children = [view, {**view, "url": "javascript:alert(1)"}]
    run.note = EVIL
    for kind, value in (("scalar", EVIL), ("row", {EVIL: EVIL}), ("table", {EVIL: [1, 2], "x": [3, 4]})):
        run.take("metric", {"n": f"{EVIL}{kind}", "k": kind, "v": value})
    run.take("log", {"path": EVIL, "offset": 0, "data": base64.b64encode(EVIL.encode()).decode()})
    html = render(run, is_live=True)
    assert "<script" not in html and "\x1b" not in html and 'href="javascript' not in html
    ElementTree.fromstring(html.replace("\u202e", ""))  # well formed, so no quote has ended an attribute
    assert "&lt;script&gt;alert(&#x27;x&#x27;)" in html


def test_a_log_is_shown_as_a_terminal_would_show_it() -> None:
    tail = LogTail(3)
    assert feed(tail, "1\n2\n10 %\r20 %\r\x1b[32m30 %\x1b[0m\nabc\bd\n") == "2\n30 %\nabd"
    tail.feed("log", 100, "\x1b]0;title\x07ä".encode()[:-1])
    tail.feed("log", 200, "ä\r\nend".encode()[1:])
    assert tail.text() == "30 %\nabd\nä\nend"
    assert feed(tail, "again\n") == "again", "the same log from its beginning replaces it: another attempt"
    tail.feed("other", 0, b"x" * 300_000 + b"\n\x00\xff\n")
    assert tail.text() == "x" * 2000 + "\n\ufffd"


def test_a_gap_of_a_log_is_told() -> None:
    tail = LogTail(10)
    feed(tail, "head\n")
    tail.skip("log", 5, 3)
    tail.feed("log", 8, b"tail\n")
    assert tail.text() == "head\n\n[... 3 bytes of this log were not kept ...]\ntail"


def test_a_run_says_how_long_it_took_and_why_it_failed() -> None:
    failed = {**VIEW, "status": "Failed", "message": "It ended with exit code 1.", "ended_at": "2026-01-01T12:03:00Z"}
    html = render(LiveRun(failed), is_live=False)
    assert "2 h 3 min" in html and "It ended with exit code 1." in html and "updated while" not in html
    assert "updated while this kernel runs" in render(LiveRun(VIEW), is_live=True)


def test_rows_of_different_columns_stay_below_each_other() -> None:
    metric = Metric("row")
    for row in ({"a": 1}, {"a": 2, "b": 20}, {"b": 30}):
        metric.add(row)
    assert metric.columns["a"].points == [(0, 1), (1, 2)] and metric.columns["b"].points == [(1, 20), (2, 30)]
