"""Series of metrics: appended exactly once, read as logged or downsampled for a chart."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, with_config
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict

from windlass.core import names
from windlass.core.errors import Conflict, NotFound
from windlass.core.metric_rules import EARLIEST, LATEST, MetricKind, value_problem
from windlass.server.api.runs.history import RUNS
from windlass.server.http.parameters import Body, RunId, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.store import Series
from windlass.store.metrics.series import SCALAR, Downsampled, Metrics

TAG = "metrics"

MetricName = Annotated[str, Field(min_length=1, max_length=names.MAX_METRIC_NAME), AfterValidator(names.metric_name)]
# A client's writer and a script's file count apart: lines and bytes.
CLIENT = "client:"
AT_ONCE = 20_000
MaxPoints = Annotated[int, Field(ge=4, le=100_000)]
Index = Annotated[int, Field(ge=0, lt=1 << 53)]


@with_config(ConfigDict(extra="forbid", strict=True))
class Line(TypedDict):
    n: MetricName
    v: Any
    t: Annotated[float, Field(ge=EARLIEST, le=LATEST, allow_inf_nan=False)]
    k: NotRequired[MetricKind]
    s: NotRequired[Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]]
    d: NotRequired[Annotated[str, Field(max_length=10_000)]]


def _readable(line: Line) -> Line:
    problem = value_problem(line.get("k", SCALAR), line["v"])
    if problem is not None:
        raise ValueError(f"the metric {line['n'][:60]!a} cannot be kept: {problem}")
    return line


class Lines(Body):
    writer: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,100}$")]
    offset: Annotated[int, Field(ge=0, lt=1 << 53)]
    lines: list[Annotated[Line, AfterValidator(_readable)]]


class Next(TypedDict):
    offset: int


class Value(TypedDict):
    v: Any
    t: float
    s: NotRequired[int]


class SeriesView(TypedDict):
    kind: str
    count: int
    values: list[Value]
    description: NotRequired[str]
    skipped: NotRequired[int]  # unreadable points, which are not in `values`
    min: NotRequired[float | None]
    max: NotRequired[float | None]


class AllSeries(TypedDict):
    metrics: dict[str, SeriesView]


class Thinned(TypedDict):
    name: str
    kind: str
    count: int
    points: list[list[float | None]]  # index, step, time, value; none of series that are not of numbers


class ThinnedSeries(TypedDict):
    series: list[Thinned]


@route("POST", f"{RUNS}/{{id}}/metrics", "runs.write", answers=Next, errors=(404, 409, 413, 507), body_type="metrics")
def append(request: ApiRequest, workspace: WorkspaceName, id: RunId, body: Lines) -> Response:
    """Append lines exactly once. `offset`: how many lines this writer sent before; known ones are skipped."""
    run = request.run(id)
    metrics, writer = request.context.store.metrics, CLIENT + body.writer
    end = body.offset + len(body.lines)
    for _ in range(5):
        known = metrics.writer_offset(id, writer)
        if known < body.offset:
            raise Conflict(
                f"Writer {body.writer} of run {id} sent {known} lines so far, and these begin after {body.offset}.",
                "Send the lines in between first.",
                {"expected": known},
            )
        if known >= end:
            return json_response({"offset": known})
        if metrics.append(id, writer, known, end, body.lines[known - body.offset :], attempt=run.attempt):
            request.context.event_bus.publish_change(workspace, id)
            return json_response({"offset": end})
    raise Conflict(f"Writer {body.writer} of run {id} writes twice at the same time.")


@route("GET", f"{RUNS}/{{id}}/metrics", "runs.read", answers=AllSeries, errors=(404,))
def read(
    request: ApiRequest,
    workspace: WorkspaceName,
    id: RunId,
    name: Annotated[tuple[MetricName, ...], Field(max_length=100)] = (),
    last: bool = False,
) -> Response:
    """All series, or those named, as logged and in order. With `last`, only their last values and extremes."""
    request.run(id)
    metrics = request.context.store.metrics
    if last:
        summaries = metrics.summaries(id, name or None)
        return json_response({"metrics": {key: _summary(series) for key, series in summaries.items()}})
    counts = {key: count for key, count in metrics.counts(id).items() if not name or key in name}
    if sum(counts.values()) > AT_ONCE:
        return StreamingResponse(_pieces(metrics, id, counts), media_type="application/json")
    found = metrics.read(id, name or None)
    return json_response({"metrics": {key: _series(series) for key, series in found.items()}})


@route("GET", f"{RUNS}/{{id}}/metrics/{{name:path}}", "runs.read", answers=Thinned, errors=(404,))
def thin(
    request: ApiRequest,
    workspace: WorkspaceName,
    id: RunId,
    name: MetricName,
    max_points: MaxPoints = 1000,
    first: Index = 0,
    last: Index | None = None,
) -> Response:
    """One scalar series, downsampled so that its minima and maxima stay. `first` and `last` are indexes of points."""
    request.run(id)
    found = request.context.store.metrics.downsample(id, [name], max_points, first, last)
    if not found:
        raise NotFound(f"Run {id} has no metric {name!r}.", f"`windlass metrics {id}` lists those that it has.")
    return json_response(_thinned(found[0]))


@route("GET", f"{RUNS}/{{id}}/series", "runs.read", answers=ThinnedSeries, errors=(404,))
def thin_many(
    request: ApiRequest,
    workspace: WorkspaceName,
    id: RunId,
    name: Annotated[tuple[MetricName, ...], Field(max_length=100)] = (),
    max_points: MaxPoints = 1000,
    first: Index = 0,
    last: Index | None = None,
) -> Response:
    """Several series for charts, each downsampled so that its minima and maxima stay: those named, or the first 100.

    Names without a series are left out. Series that are not of numbers have no points.
    """
    request.run(id)
    found = request.context.store.metrics.downsample(id, name or None, max_points, first, last)
    return json_response({"series": [_thinned(series) for series in found]})


def _thinned(series: Downsampled) -> Thinned:
    points = [[i, step, time, _finite(value)] for i, step, time, value in series.points]
    return {"name": series.name, "kind": series.kind, "count": series.count, "points": points}


def _series(series: Series) -> dict[str, Any]:
    return {**_about(series), "values": _values(series), **({"skipped": series.skipped} if series.skipped else {})}


def _summary(series: Series) -> dict[str, Any]:
    return {**_series(series), "min": series.least, "max": series.most}


def _about(series: Series) -> dict[str, Any]:
    about: dict[str, Any] = {"kind": series.kind, "count": series.count}
    return {**about, "description": series.description} if series.description else about


def _values(series: Series) -> list[dict[str, Any]]:
    return [{"v": v, "t": t} if s is None else {"v": v, "t": t, "s": s} for v, t, s in series.values]


def _pieces(metrics: Metrics, run_id: str, counts: dict[str, int]) -> Iterator[str]:
    """Stream the same JSON as for short series, with one piece in memory at a time."""
    yield '{"metrics":{'
    for number, (name, count) in enumerate(counts.items()):
        skipped, comma = 0, ""
        for start in range(0, count, AT_ONCE):
            piece = metrics.read(run_id, [name], start, min(AT_ONCE, count - start))[name]
            if start == 0:
                about = json.dumps({**_about(piece), "count": count})[:-1]
                yield f'{"," if number else ""}{json.dumps(name)}:{about},"values":['
            skipped += piece.skipped
            if piece.values:
                yield comma + json.dumps(_values(piece), separators=(",", ":"))[1:-1]
                comma = ","
        yield f'],"skipped":{skipped}}}' if skipped else "]}"
    yield "}}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
