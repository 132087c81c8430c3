"""Metric series: every point once, as it was logged, in order."""

from __future__ import annotations

import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, update

from tests.store.makers import finish, line, submit
from windlass.core.errors import InvalidRequest, NotFound
from windlass.store import Store
from windlass.store.db.schema import series
from windlass.store.metrics.chunk_encoding import SIZE, Points, downsample, pack, sortable, unpack
from windlass.store.metrics.series import _append, _Batch
from windlass.store.runs.rows import find_run

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
columns = (
    st.lists(st.floats(), min_size=1)
    | st.lists(st.integers(), min_size=1)
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1)
    | st.lists(json_values, min_size=1)
)


def same(a: Any, b: Any) -> bool:
    """Equal in value and kind; NaN is NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and repr(a) == repr(b)


@given(columns, st.none() | st.integers(-(2**70), 2**70))
def test_what_is_packed_is_unpacked(values: list[Any], step: int | None) -> None:
    times = [float(number) / 7 for number in range(len(values))]
    steps = [step if number % 2 else None for number in range(len(values))]
    points = unpack(pack(Points(values, times, steps)))
    assert (points.times, points.steps) == (times, steps)
    assert all(same(a, b) for a, b in zip(points.values, values, strict=True))


def test_numbers_take_eight_bytes_each() -> None:
    points = Points([0.5] * 1000, [1.0] * 1000, list(range(1000)))
    packed = pack(points)
    assert (len(packed.content), len(packed.times), len(packed.steps or b"")) == (8000, 8000, 8000)
    assert packed.form == "dq"


VALUES: list[Any] = [
    0.1, -0.0, 1e308 * 10, float("-inf"), float("nan"), 0, -1, 2**53 + 1, 2**63, -(10**308), True, False, "text", "",
    "é", [1, 2.5, None], {"a": [1], "b": None}, None,
]  # fmt: skip


UNREADABLE: list[Any] = [
    10**309, -(10**400), "a\0", "a\ud800", {"a\0": 1}, {"a": [10**400]}, json.loads("[" * 500 + "]" * 500)
]  # fmt: skip


def test_every_value_comes_back_as_it_was(store: Store) -> None:
    submit(store, "r1")
    lines = [line("all", value, at=number / 10, s=number) for number, value in enumerate(VALUES)]
    lines += [line(f"m{number}", value) for number, value in enumerate(VALUES)]
    assert store.metrics.append("r1", "w", 0, len(lines), lines)
    read = store.metrics.read("r1")
    assert all(same(got[0], value) for got, value in zip(read["all"].values, VALUES, strict=True))
    assert [got[1:] for got in read["all"].values] == [(number / 10, number) for number in range(len(VALUES))]
    assert all(same(read[f"m{number}"].values[0][0], value) for number, value in enumerate(VALUES))
    assert list(read) == ["all", *(f"m{number}" for number in range(len(VALUES)))]


def test_kinds_and_descriptions_are_kept(store: Store) -> None:
    submit(store, "r1")
    lines = [line("t", {"x": 1}, k="table", d="what it is"), line("t", {"x": 2}, k="table"), line("s", 1.0)]
    store.metrics.append("r1", "w", 0, 3, lines)
    read = store.metrics.read("r1")
    assert (read["t"].kind, read["t"].description, read["t"].count) == ("table", "what it is", 2)
    assert (read["s"].kind, read["s"].description) == ("scalar", "")


def test_lines_count_once_however_often_they_are_sent(store: Store) -> None:
    submit(store, "r1")
    lines = [line("loss", float(number)) for number in range(10)]
    assert store.metrics.append("r1", "w", 0, 4, lines[:4])
    assert not store.metrics.append("r1", "w", 0, 4, lines[:4])  # again
    assert not store.metrics.append("r1", "w", 2, 6, lines[2:6])  # overlapping
    assert not store.metrics.append("r1", "w", 7, 10, lines[7:])  # after a gap
    assert store.metrics.writer_offset("r1", "w") == 4
    assert store.metrics.append("r1", "w", 4, 10, lines[4:])
    assert [value for value, _, _ in store.metrics.read("r1")["loss"].values] == [float(n) for n in range(10)]
    assert store.metrics.counts("r1") == {"loss": 10}


def test_writers_do_not_disturb_each_other(store: Store) -> None:
    submit(store, "r1")
    submit(store, "r2")
    start = threading.Barrier(6)

    def write(number: int) -> None:
        """Each batch is sent three times, as by a client that never gets its answer."""
        start.wait()
        for batch in range(5):
            lines = [line("loss", number * 1000 + batch * 10 + n) for n in range(10)]
            answers = [store.metrics.append("r1", f"w{number}", batch * 10, batch * 10 + 10, lines) for _ in range(3)]
            assert answers == [True, False, False]

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    values = [value for value, _, _ in store.metrics.read("r1")["loss"].values]
    assert sorted(values) == sorted(number * 1000 + n for number in range(6) for n in range(50))
    for number in range(6):
        mine = [value for value in values if value // 1000 == number]
        assert mine == sorted(mine)
    assert store.metrics.writer_offset("r2", "w0") == 0 and store.metrics.counts("r2") == {}


def test_series_grow_over_many_chunks(store: Store) -> None:
    submit(store, "r1")
    count, batches = 0, [1, SIZE - 1, 1, SIZE, 3 * SIZE + 7, 5]
    for size in batches:
        lines = [line("n", count + number, at=float(count + number), s=count + number) for number in range(size)]
        assert store.metrics.append("r1", "w", count, count + size, lines)
        count += size
    whole = store.metrics.read("r1", ["n"])["n"]
    assert whole.values == [(number, float(number), number) for number in range(count)]
    for start in (0, 1, SIZE - 1, SIZE, SIZE + 1, count - 1, count, count + 5):
        part = store.metrics.read("r1", ["n"], start=start)["n"]
        assert (part.values, part.count) == (whole.values[start:], count)
        for limit in (0, 1, SIZE, SIZE + 1):
            some = store.metrics.read("r1", ["n"], start=start, limit=limit)["n"]
            assert (some.values, some.count) == (whole.values[start : start + limit], count)


def test_a_chunk_may_change_its_form(store: Store) -> None:
    submit(store, "r1")
    values = [1, 2.5, "x", None, 7]
    for number, value in enumerate(values):
        store.metrics.append("r1", "w", number, number + 1, [line("n", value)])
    assert [value for value, _, _ in store.metrics.read("r1")["n"].values] == values


def test_only_the_named_series_are_read(store: Store) -> None:
    submit(store, "r1")
    store.metrics.append("r1", "w", 0, 2, [line("a", 1), line("b", 2)])
    assert list(store.metrics.read("r1", ["b", "nothing"])) == ["b"]
    assert store.metrics.read("r1", []) == {}


def test_a_script_may_write_nonsense(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Invalid lines get no answer, and must not keep the others from being stored."""
    submit(store, "r1")
    bad: list[Any] = [
        {}, {"n": "x"}, {"n": "x", "v": 1}, {"n": 5, "v": 1, "t": 0}, {"n": ["x"], "v": 1, "t": 0},
        {"n": "", "v": 1, "t": 0},
        {"n": "x" * 10_000, "v": 1, "t": 0}, {"n": "a\nb", "v": 1, "t": 0}, {"n": "x", "v": 1, "t": "soon"},
        {"n": "x", "v": 1, "t": None}, {"n": "\0", "v": 1, "t": 0}, "text", None, 7, [1],
        {"n": "x", "v": 1, "t": 10**400}, {"n": "x", "v": 1, "t": float("nan")}, {"n": "x", "v": 1, "t": 0, "k": "odd"},
        *(line("x", value) for value in UNREADABLE), line("x", "text", k="row"), line("x", [1], k="table"),
    ]  # fmt: skip
    assert store.metrics.append("r1", "w", 0, 99, [*bad, line("good", 1.0, s="no step")])
    assert store.metrics.counts("r1") == {"good": 1}
    assert f"skipped {len(bad)} invalid metric lines" in caplog.text
    assert store.metrics.writer_offset("r1", "w") == 99
    store.metrics.append("r1", "w", 99, 100, bad)
    events = [event for event in store.runs.events("r1", 0) if event.kind == "metrics_skipped"]
    assert [event.data["count"] for event in events] == [len(bad)], "once for a run"


def test_a_value_that_does_not_fit_its_series_is_skipped(store: Store) -> None:
    submit(store, "r1")
    store.metrics.append("r1", "w", 0, 2, [line("t", {"x": 1}, k="row"), line("t", "text")])
    store.metrics.append("r1", "w", 2, 4, [line("t", 5.0), line("t", {"x": 2}, k="row")])
    store.metrics.append("r1", "w", 4, 5, [line("t", 6.0)])
    assert [value for value, _, _ in store.metrics.read("r1")["t"].values] == [{"x": 1}, {"x": 2}]
    assert store.metrics.counts("r1") == {"t": 2}


def keep_as_older_versions_did(store: Store, name: str, *values: Any, kind: str = "scalar") -> None:
    """Points that nothing checked."""

    def act(connection: Connection) -> None:
        pk, run = find_run(connection, "r1", lock=True)
        points = Points(list(values), [0.0] * len(values), [None] * len(values))
        _append(connection, pk, run, {name: _Batch("scalar", "", points)})
        connection.execute(update(series).where(series.c.name == name).values(kind=kind))

    store._database.write(act)


def test_points_that_cannot_be_read_are_left_out_and_counted(store: Store) -> None:
    submit(store, "r1")
    keep_as_older_versions_did(store, "n", 1, *UNREADABLE, 2.5, 10**308, 10**308)
    keep_as_older_versions_did(store, "rows", {"a": 1}, "text", kind="row")
    read = store.metrics.read("r1")
    assert [value for value, _, _ in read["n"].values] == [1, 2.5, 10**308, 10**308]
    assert (read["n"].skipped, read["n"].count) == (len(UNREADABLE), 4 + len(UNREADABLE))
    assert ([value for value, _, _ in read["rows"].values], read["rows"].skipped) == ([{"a": 1}], 1)
    assert store.metrics.summaries("r1")["rows"].values == []
    for most in (4, 100):
        assert [value for _, _, _, value in downsampled(store, "n", most)][:2] == [1, 2.5]


def test_offsets_go_forward(store: Store) -> None:
    submit(store, "r1")
    for here, there in ((-1, 0), (5, 4), (0, -1), (0, 2**70)):
        with pytest.raises(InvalidRequest):
            store.metrics.append("r1", "w", here, there, [])
    assert store.metrics.append("r1", "w", 0, 0, [])


def test_metrics_of_an_unknown_run(store: Store) -> None:
    with pytest.raises(NotFound):
        store.metrics.append("nobody", "w", 0, 1, [line("a", 1)])
    with pytest.raises(NotFound):
        store.metrics.read("nobody")
    submit(store, "r1")
    assert store.metrics.downsample("r1", ["nothing"], 10) == []


def test_late_lines_are_kept(store: Store) -> None:
    submit(store, "r1")
    finish(store, "r1")
    assert store.metrics.append("r1", "w", 0, 1, [line("late", 1)])


def test_many_names_in_one_batch(store: Store) -> None:
    submit(store, "r1")
    lines = [line(f"layer/{number}", number) for number in range(1500)]
    assert store.metrics.append("r1", "w", 0, 1500, lines)
    assert store.metrics.append("r1", "w", 1500, 3000, lines)
    assert set(store.metrics.counts("r1").values()) == {2} and len(store.metrics.counts("r1")) == 1500


def downsampled(store: Store, name: str, most: int, first: int = 0, last: int | None = None) -> list[Any]:
    [series] = store.metrics.downsample("r1", [name], most, first, last)
    return series.points


def test_thinned_series_keep_their_spikes(store: Store) -> None:
    submit(store, "r1")
    values = [math.sin(number / 50) for number in range(5000)]
    values[1234], values[4321], values[777] = 100.0, -100.0, float("nan")
    store.metrics.append("r1", "w", 0, 5000, [line("v", value, at=float(n), s=n * 2) for n, value in enumerate(values)])
    points = downsampled(store, "v", 200)
    assert len(points) <= 200
    assert points[0] == (0, 0, 0.0, values[0]) and points[-1] == (4999, 9998, 4999.0, values[4999])
    assert (1234, 2468, 1234.0, 100.0) in points and (4321, 8642, 4321.0, -100.0) in points
    assert [index for index, _, _, _ in points] == sorted({index for index, _, _, _ in points})


def test_a_part_of_a_series_is_thinned_by_itself(store: Store) -> None:
    """So that a chart shows more of what it is zoomed into."""
    submit(store, "r1")
    values = [float(number % 97) for number in range(5000)]
    store.metrics.append("r1", "w", 0, 5000, [line("v", value, at=float(n), s=n) for n, value in enumerate(values)])
    part = downsampled(store, "v", 1000, 2000, 2010)
    assert part == [(index, index, float(index), values[index]) for index in range(2000, 2011)]
    thinned = downsampled(store, "v", 100, 1500, 4600)
    assert len(thinned) <= 100 and (thinned[0][0], thinned[-1][0]) == (1500, 4600)
    assert {0.0, 96.0} <= {value for _, _, _, value in thinned}
    assert [index for index, _, _, _ in downsampled(store, "v", 100, 4998, 9000)] == [4998, 4999]
    assert downsampled(store, "v", 100, 5000) == [] == downsampled(store, "v", 100, 10, 9)


def test_many_series_are_thinned_at_once(store: Store) -> None:
    submit(store, "r1")
    lines = [line(name, float(n)) for name in ("a", "b") for n in range(2000)]
    store.metrics.append("r1", "w", 0, 4001, [*lines, line("t", {"x": [1]}, k="table")])
    found = store.metrics.downsample("r1", None, 50)
    assert [(series.name, series.kind, series.count) for series in found] == [
        ("a", "scalar", 2000), ("b", "scalar", 2000), ("t", "table", 1),
    ]  # fmt: skip
    assert [len(series.points) for series in found] == [48, 48, 0]
    assert [series.name for series in store.metrics.downsample("r1", ["b", "none"], 50)] == ["b"]


def test_series_that_are_thinned_at_once_share_the_points(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred series with 100,000 points each would be gigabytes."""
    monkeypatch.setattr("windlass.store.metrics.series.MOST_POINTS", 100)
    submit(store, "r1")
    store.metrics.append("r1", "w", 0, 800, [line(name, float(n)) for name in "abcd" for n in range(200)])
    found = store.metrics.downsample("r1", None, 100)
    assert [len(each.points) for each in found] == [22] * 4
    assert 50 < len(downsampled(store, "a", 100)) <= 100


def test_whole_numbers_among_others_are_thinned_as_numbers(store: Store) -> None:
    """A chunk of both is stored as JSON."""
    submit(store, "r1")
    values = [0, *(number / 7 for number in range(1, 3000))]
    store.metrics.append("r1", "w", 0, 3000, [line("v", value) for value in values])
    assert [value for _, _, _, value in downsampled(store, "v", 5000)] == values


def test_short_and_mixed_series_are_thinned_to_their_numbers(store: Store) -> None:
    submit(store, "r1")
    store.metrics.append("r1", "w", 0, 4, [line("v", value) for value in (1, "x", 2.5, True)])
    assert [(index, value) for index, _, _, value in downsampled(store, "v", 10)] == [
        (0, 1),
        (2, 2.5),
        (3, True),
    ]
    assert [index for index, _, _, _ in downsampled(store, "v", 2)] == [0, 3]
    store.metrics.append("r1", "w", 4, 7, [line("n", 2**60 + number, s=number or None) for number in range(3)])
    assert [(step, value) for _, step, _, value in downsampled(store, "n", 9)] == [
        (None, 2**60), (1, 2**60 + 1), (2, 2**60 + 2),
    ]  # fmt: skip


@given(st.lists(st.floats(), max_size=200), st.integers(-1, 50))
def test_thinning_keeps_extremes_and_ends(values: list[float], most: int) -> None:
    kept = downsample(values, most)
    assert kept == sorted(set(kept))
    assert len(kept) <= max(most, 2)
    if values:
        assert kept[0] == 0 and kept[-1] == len(values) - 1
    numbers = [value for value in values if not math.isnan(value)]
    if numbers and most >= 4:
        shown = [values[index] for index in kept]
        assert min(numbers) in shown and max(numbers) in shown


def test_what_runs_are_sorted_by() -> None:
    assert [sortable(value) for value in (1, 2.5, True, 10**400, -(10**400))] == [1.0, 2.5, 1.0, math.inf, -math.inf]
    assert [sortable(value) for value in (float("nan"), "1", None, [1])] == [None] * 4
