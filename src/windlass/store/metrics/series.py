"""Metric series: appended exactly once, stored in chunks, with a summary for the list of runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from windlass.core.entities import Run
from windlass.core.metric_rules import LONGEST_DESCRIPTION, line_problem, step_of, value_problem
from windlass.store.db.base import Database, insert_or
from windlass.store.db.schema import chunks, series
from windlass.store.db.schema import events as event_rows
from windlass.store.metrics import chunk_encoding as packing
from windlass.store.metrics.chunk_encoding import Packed, Points, sortable
from windlass.store.runs import events, writer_offsets
from windlass.store.runs.rows import find_run

log = logging.getLogger(__name__)

SCALAR = "scalar"
SKIPPED = "metrics_skipped"
MOST_SERIES = 100  # that are downsampled at once, if they are not named
MOST_POINTS = 100_000  # of all series that are downsampled at once
_NAMES_AT_ONCE = 1000

_last_start = series.c.length - series.c.length % packing.SIZE
_CHUNK = (chunks.c.form, chunks.c.content, chunks.c.times, chunks.c.steps)
_SUMS = (series.c.length, series.c.least, series.c.most, series.c.attempt)
_KNOWN = (
    select(series.c.pk, series.c.name, series.c.kind, *_SUMS, *_CHUNK)
    .outerjoin(chunks, (chunks.c.series == series.c.pk) & (chunks.c.start == _last_start))
    .where(series.c.run == bindparam("of"), series.c.name.in_(bindparam("names", expanding=True)))
)
_BEGIN = insert(series).returning(series.c.pk, series.c.name)
_SET_SUMMARY = (
    update(series)
    .where(series.c.pk == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in ("length", "last", "last_value", "least", "most")})
)
_CHUNKS = (
    select(*_CHUNK)
    .where(chunks.c.series == bindparam("of"), chunks.c.start >= bindparam("since"))
    .order_by(chunks.c.start)
)
_SOME_CHUNKS = _CHUNKS.limit(bindparam("most"))
_CUT = delete(chunks).where(chunks.c.series == bindparam("of"), chunks.c.start >= bindparam("since"))
_BEGIN_ATTEMPT = update(series).where(series.c.pk == bindparam("of")).values(attempt=bindparam("by"))
_ATTEMPTS = select(series.c.name, series.c.attempt).where(series.c.run == bindparam("of"))
_ADD = insert_or(chunks)
_PUT = _ADD.on_conflict_do_update(
    index_elements=["series", "start"],
    set_={name: _ADD.excluded[name] for name in ("form", "content", "times", "steps")},
)
_COUNTS = select(series.c.name, series.c.length).where(series.c.run == bindparam("of")).order_by(series.c.pk)
_HAS_SKIPPED = (
    select(event_rows.c.seq).where(event_rows.c.run == bindparam("of"), event_rows.c.kind == SKIPPED).limit(1)
)
_SERIES = select(
    series.c.pk, series.c.name, series.c.kind, series.c.length, series.c.description, series.c.least, series.c.most
)


@dataclass(frozen=True, slots=True)
class Series:
    """Values as logged, in order: (value, unix time, step or None). `kind` is "scalar" unless the line named one.

    `skipped` are points that older versions kept although clients cannot read them; they are not among the values.
    """

    kind: str
    count: int
    values: list[tuple[Any, float, int | None]]
    description: str = ""
    least: float | None = None
    most: float | None = None
    skipped: int = 0


ShownPoint = tuple[int, int | None, float, float]  # index, step, unix time, value


@dataclass(frozen=True, slots=True)
class Downsampled:
    """A series for a chart. Series that are not of numbers have no points."""

    name: str
    kind: str
    count: int
    points: list[ShownPoint]


@dataclass(slots=True)
class _Batch:
    """The new points of one series."""

    kind: str
    description: str
    points: Points = field(default_factory=Points)


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of a series: its length and extremes, and the points of its last chunk if that is not full."""

    pk: int
    kind: str
    length: int = 0
    least: float | None = None
    most: float | None = None
    attempt: int = 1
    last: Points = field(default_factory=Points)


class Metrics:
    def __init__(self, database: Database) -> None:
        self._database = database

    def append(
        self,
        run_id: str,
        writer: str,
        offset: int,
        next_offset: int,
        lines: Sequence[Mapping[str, Any]],
        skew_seconds: float = 0.0,
        attempt: int = 1,
    ) -> bool:
        """Append a writer's lines that start at `offset`; False, without effect, if its stored offset is another one.

        Scripts write these lines, so they are not trusted: one that is no metric is skipped, the first time with an
        event. `skew_seconds` is added to their times. When a later attempt of the run begins to log a series, the
        points that earlier attempts logged from that step on are removed.
        """
        batches, problems = _group_by_series(lines, skew_seconds)

        def transaction(connection: Connection) -> bool:
            pk, run = find_run(connection, run_id, lock=True)
            if not writer_offsets.move(connection, pk, writer_offsets.METRICS, writer, offset, next_offset):
                return False
            found = problems + _append(connection, pk, run, batches, attempt)
            if found:
                _report_skipped(connection, pk, run_id, found)
            return True

        return self._database.write(transaction)

    def writer_offset(self, run_id: str, writer: str) -> int:
        return self._database.read(
            lambda c: writer_offsets.position(c, find_run(c, run_id)[0], writer_offsets.METRICS, writer)
        )

    def counts(self, run_id: str) -> dict[str, int]:
        def query(connection: Connection) -> dict[str, int]:
            return {
                row.name: row.length for row in connection.execute(_COUNTS, {"of": find_run(connection, run_id)[0]})
            }

        return self._database.read(query)

    def attempts(self, run_id: str) -> dict[str, int]:
        """The attempt of the run that logged to each series last."""
        return self._database.read(
            lambda c: {row.name: row.attempt for row in c.execute(_ATTEMPTS, {"of": find_run(c, run_id)[0]})}
        )

    def read(
        self, run_id: str, names: Sequence[str] | None = None, start: int = 0, limit: int | None = None
    ) -> dict[str, Series]:
        """Series in the order of their first points, each with at most `limit` points from index `start` on."""

        def query(connection: Connection) -> dict[str, Series]:
            pk, _ = find_run(connection, run_id)
            return {row.name: _read(connection, row, start, limit) for row in _series(connection, pk, names)}

        return self._database.read(query)

    def summaries(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, Series]:
        """Series with their last value only, for lists."""

        def query(connection: Connection) -> dict[str, Series]:
            pk, _ = find_run(connection, run_id)
            return {row.name: _read(connection, row, row.length - 1, 1) for row in _series(connection, pk, names)}

        return self._database.read(query)

    def downsample(
        self, run_id: str, names: Sequence[str] | None, max_points: int, first: int = 0, last: int | None = None
    ) -> list[Downsampled]:
        """Series of numbers, each with about `max_points` of its points from index `first` to `last`; spikes stay.
        Without names, those that were logged first.
        """
        rows = self._database.read(lambda c: _found(c, run_id, names))
        if names is None:
            rows = rows[:MOST_SERIES]
        most = min(max_points, MOST_POINTS // max(len(rows), 1))
        return [Downsampled(row.name, row.kind, row.length, self._thinned(row, most, first, last)) for row in rows]

    def _thinned(self, row: Row[Any], max_points: int, first: int, last: int | None) -> list[ShownPoint]:
        end = row.length if last is None else min(row.length, last + 1)
        if row.kind != SCALAR or first >= end:
            return []
        start = first - first % packing.SIZE
        asked = {"of": row.pk, "since": start, "most": (end - start + packing.SIZE - 1) // packing.SIZE}
        packed = self._database.read(lambda c: [_packed(each) for each in c.execute(_SOME_CHUNKS, asked)])
        return _thin(packed, start, range(first - start, end - start), max_points)


def _thin(packed: Sequence[Packed], start: int, part: range, max_points: int) -> list[ShownPoint]:
    """The chunks begin with the point of index `start`; the part is counted from there."""
    values: Sequence[Any] | None = packing.numbers(packed)
    if values is not None:
        chosen = values[part.start : part.stop]
        indexes = [part.start + index for index in packing.downsample(chosen, max_points)]
    else:
        values = [value for each in packed for value in packing.unpack(each).values]
        numbered = [index for index in part if index < len(values) and _is_number(values[index])]
        numbers = [float(values[index]) for index in numbered]
        indexes = [numbered[position] for position in packing.downsample(numbers, max_points)]
    return [_point(packed, values, index, start) for index in indexes]


def _found(connection: Connection, run_id: str, names: Sequence[str] | None) -> list[Row[Any]]:
    return _series(connection, find_run(connection, run_id)[0], names)


def _is_number(value: Any) -> bool:
    """Whether a chart can show the value. Older versions stored integers that are larger than any float."""
    return isinstance(value, (int, float)) and value_problem(SCALAR, value) is None


def _point(packed: Sequence[Packed], values: Sequence[Any], index: int, start: int) -> ShownPoint:
    at, step = packing.time_and_step(packed[index // packing.SIZE], index % packing.SIZE)
    return start + index, step, at, values[index]


def _group_by_series(lines: Iterable[Mapping[str, Any]], skew_seconds: float) -> tuple[dict[str, _Batch], list[str]]:
    """The points by series, and the reasons for skipped lines."""
    batches: dict[str, _Batch] = {}
    problems: list[str] = []
    for line in lines:
        problem = line_problem(line)
        if problem is not None:
            problems.append(problem)
            continue
        name = line["n"]
        batch = batches.get(name)
        if batch is None:
            description = str(line.get("d") or "")[:LONGEST_DESCRIPTION]
            batch = batches[name] = _Batch(line.get("k") or SCALAR, description)
        batch.points.values.append(line["v"])
        batch.points.times.append(float(line["t"]) + skew_seconds)
        batch.points.steps.append(step_of(line))
    return batches, problems


def _report_skipped(connection: Connection, pk: int, run_id: str, problems: Sequence[str]) -> None:
    log.warning("run=%s: skipped %d invalid metric lines; the first one: %s", run_id, len(problems), problems[0])
    if connection.execute(_HAS_SKIPPED, {"of": pk}).first() is None:
        text = f"lines of metrics that cannot be kept are skipped; the first one: {problems[0]}"
        events.append(connection, run_id, SKIPPED, text, {"count": len(problems)})


def _append(connection: Connection, pk: int, run: Run, batches: Mapping[str, _Batch], attempt: int = 1) -> list[str]:
    """Append points to their series. Returns why points were skipped: their series is of another kind."""
    known = _known(connection, pk, batches)
    for name, each in known.items():
        if each.attempt < attempt:
            known[name] = _begin_attempt(connection, each, batches[name].points, attempt)
    new = {name: batch for name, batch in batches.items() if name not in known}
    known |= _begin(connection, pk, run, new, attempt)
    rows: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    problems: list[str] = []
    for name, batch in batches.items():
        points = _fitting(known[name].kind, batch.points, problems)
        if len(points):
            rows += _rows(known[name], points)
            summaries.append(_summary(known[name], points))
    if rows:
        connection.execute(_PUT, rows)
        connection.execute(_SET_SUMMARY, summaries)
    return problems


def _fitting(kind: str, points: Points, problems: list[str]) -> Points:
    """The points that a series of this kind can have; the reasons for the others are added to `problems`."""
    if kind == SCALAR:
        return points
    kept = Points()
    for value, at, step in points.rows():
        problem = value_problem(kind, value)
        if problem is None:
            kept.extend(Points([value], [at], [step]))
        else:
            problems.append(problem)
    return kept


def _known(connection: Connection, pk: int, names: Iterable[str]) -> dict[str, _Known]:
    listed = list(names)
    found: dict[str, _Known] = {}
    for start in range(0, len(listed), _NAMES_AT_ONCE):
        asked = {"of": pk, "names": listed[start : start + _NAMES_AT_ONCE]}
        for row in connection.execute(_KNOWN, asked):
            last = Points() if row.form is None else packing.unpack(_packed(row))
            found[row.name] = _Known(row.pk, row.kind, row.length, row.least, row.most, row.attempt, last)
    return found


def _begin_attempt(connection: Connection, known: _Known, points: Points, attempt: int) -> _Known:
    """The series without the points from the first step on that a later attempt logs: they are logged again."""
    connection.execute(_BEGIN_ATTEMPT, {"of": known.pk, "by": attempt})
    first = min((step for step in points.steps if step is not None), default=None)
    return known if first is None else _cut(connection, known, first)


def _cut(connection: Connection, known: _Known, first: int) -> _Known:
    """Remove the points of a series from a step on. Only chunks from the first one with such a point are rewritten."""
    intact, rest, is_cut, numbers = 0, Points(), False, _Extremes()
    for row in connection.execute(_CHUNKS, {"of": known.pk, "since": 0}).all():
        points = packing.unpack(_packed(row))
        kept = [point for point in points.rows() if point[2] is None or point[2] < first]
        numbers.take(value for value, _, _ in kept)
        is_cut = is_cut or len(kept) < len(points)
        if not is_cut:
            intact += len(points)
        elif kept:
            rest.extend(Points(*map(list, zip(*kept, strict=True))))
    if not is_cut:
        return known
    connection.execute(_CUT, {"of": known.pk, "since": intact})
    whole = _Known(known.pk, known.kind, intact)
    if len(rest):
        connection.execute(_PUT, _rows(whole, rest))
    length = intact + len(rest)
    last = [*rest.pieces()][-1] if length % packing.SIZE else Points()
    return _Known(known.pk, known.kind, length, numbers.least, numbers.most, last=last)


class _Extremes:
    """The least and the greatest of some values, as far as they are numbers."""

    def __init__(self) -> None:
        self.least: float | None = None
        self.most: float | None = None

    def take(self, values: Iterable[Any]) -> None:
        seen = [number for number in (self.least, self.most) if number is not None]
        seen += [number for number in map(sortable, values) if number is not None]
        self.least, self.most = min(seen, default=None), max(seen, default=None)


def _begin(connection: Connection, pk: int, run: Run, batches: Mapping[str, _Batch], attempt: int) -> dict[str, _Known]:
    if not batches:
        return {}
    common = {"run": pk, "workspace": run.workspace, "experiment": run.experiment, "length": 0, "attempt": attempt}
    rows = [
        {**common, "name": name, "kind": batch.kind, "description": batch.description}
        for name, batch in batches.items()
    ]
    return {row.name: _Known(row.pk, batches[row.name].kind) for row in connection.execute(_BEGIN, rows)}


def _rows(known: _Known, points: Points) -> list[dict[str, Any]]:
    """The rows of chunks to write: the last chunk of the series is filled up first."""
    start = known.length - len(known.last)
    rows = []
    for piece in (known.last + points).pieces():
        packed = packing.pack(piece)
        columns = {"form": packed.form, "content": packed.content, "times": packed.times, "steps": packed.steps}
        rows.append({"series": known.pk, "start": start, **columns})
        start += len(piece)
    return rows


def _summary(known: _Known, points: Points) -> dict[str, Any]:
    seen = [number for number in (known.least, known.most) if number is not None]
    seen += [number for number in map(sortable, points.values) if number is not None]
    return {
        "of": known.pk,
        "new_length": known.length + len(points),
        "new_last": sortable(points.values[-1]),
        "new_last_value": _shown(points.values[-1]),
        "new_least": min(seen, default=None),
        "new_most": max(seen, default=None),
    }


def _shown(value: Any) -> Any:
    """The last value as the list of runs shows it; tables and images are read with their series."""
    return value if isinstance(value, (int, float, str, bool)) else None


def _series(connection: Connection, pk: int, names: Sequence[str] | None) -> list[Any]:
    asked = _SERIES.where(series.c.run == pk).order_by(series.c.pk)
    if names is not None:
        asked = asked.where(series.c.name.in_(names))
    return list(connection.execute(asked))


def _read(connection: Connection, row: Row[Any], start: int, limit: int | None) -> Series:
    values: list[tuple[Any, float, int | None]] = []
    end = row.length if limit is None else min(row.length, start + limit)
    if start < end:
        first = start - start % packing.SIZE
        most = (end - first + packing.SIZE - 1) // packing.SIZE
        values = _points(connection, row.pk, first, most).rows()[start - first : end - first]
    readable = [point for point in values if type(point[0]) is float or value_problem(row.kind, point[0]) is None]
    skipped = len(values) - len(readable)
    return Series(row.kind, row.length, readable, row.description, row.least, row.most, skipped)


def _points(connection: Connection, number: int, since: int, most: int) -> Points:
    points = Points()
    for row in connection.execute(_SOME_CHUNKS, {"of": number, "since": since, "most": most}):
        points.extend(packing.unpack(_packed(row)))
    return points


def _packed(row: Row[*tuple[Any, ...]]) -> Packed:
    return Packed(row.form, row.content, row.times, row.steps)
