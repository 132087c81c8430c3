"""The SQL of the run list.

SQLite gets one of two plans. If some filter is selective, its runs are fetched and sorted. Otherwise the index of the
sort order is walked until the page is full, which is soon, since no filter leaves few runs. A bounded count decides.
A unary plus on columns (`_unindexed`) forces the plan, because SQLite's statistics may be far off. PostgreSQL gets the
plain statement.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, Text, bindparam, func, or_, select, tuple_, type_coerce
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement

from windlass.core.entities import Run
from windlass.store.db.column_types import Json, clean
from windlass.store.db.schema import labels, runs, series, specs
from windlass.store.runs.labels import PROPERTY, TAG
from windlass.store.runs.query import (
    TEXTS,
    CommandLine,
    Condition,
    Page,
    Position,
    RunQuery,
    Sort,
    check_archived,
    check_limit,
    parse_condition,
    parse_label,
    parse_sort,
    parse_states,
    read_cursor,
    write_cursor,
)
from windlass.store.runs.rows import RUN, run_of

Check = ColumnElement[bool]
Listed = Select[int]

_SOME = select(runs.c.pk, *RUN).where(runs.c.pk.in_(bindparam("pks", expanding=True)))
_SEARCHED = (runs.c.searched, runs.c.searched_arguments)
# Specifications may be large: few are in memory at once.
AT_ONCE = 10
_COMMANDS = (
    select(specs.c.run, type_coerce(specs.c.spec, Json))
    .where(specs.c.run.in_(bindparam("pks", expanding=True)))
    .execution_options(yield_per=AT_ONCE)
)
LONGEST_SHOWN = 10_000  # characters of the arguments of a run in a list
FEW = 1500  # runs per filter: the more filters, the longer the walk

_COMPARE: Mapping[str, Any] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": lambda column, value: column.is_distinct_from(value),  # NaN, NULL here, is not 0.1 either
}


@dataclass(frozen=True)
class Filter:
    """One condition in two forms: a check of one row and, if an index supports it, a query for the runs that pass."""

    check: Check
    listed: Listed | None = None


@dataclass(frozen=True)
class Walk:
    """Runs in sort order: the columns of their primary key and sort value, and the query that reads both."""

    pk: ColumnElement[int]
    value: ColumnElement[Any]
    source: Select[Any]


def find(connection: Connection, query: RunQuery) -> Page:
    sort, limit = parse_sort(query.sort), check_limit(query.limit)
    position = read_cursor(query, sort)
    filters = _filters(query)
    few = _few(connection, filters) if connection.dialect.name == "sqlite" else None
    checks = [each.check for each in filters]
    found: list[Position] = []
    if position is None or position.value is not None:
        found = _valued(connection, _walk(query, sort, few), sort, checks, position, limit + 1)
        position = None
    if sort.has_gaps and len(found) <= limit:
        gaps = _gaps(query, sort, few).where(*checks)
        found += _without_value(connection, gaps, position, limit + 1 - len(found))
    following = write_cursor(query, found[limit - 1]) if len(found) > limit else None
    pks = [each.pk for each in found[:limit]]
    listed = _runs(connection, pks)
    return Page(
        [listed[pk] for pk in pks],
        following,
        _last_values(connection, listed, query.metrics),
        _commands(connection, listed) if query.arguments else {},
    )


def _filters(query: RunQuery) -> list[Filter]:
    here = runs.c.workspace == query.workspace
    filters = [Filter(check) for check in _plain_checks(query)]
    if query.experiment is not None:
        check = runs.c.experiment == query.experiment
        filters.append(Filter(check, select(runs.c.pk).where(here, check)))
    if query.states:
        states = parse_states(query.states)
        filters.append(
            Filter(_unindexed(runs.c.state).in_(states), select(runs.c.pk).where(here, runs.c.state.in_(states)))
        )
    if query.submitted_by:
        check = runs.c.submitted_by.in_(query.submitted_by)
        filters.append(Filter(check, select(runs.c.pk).where(here, check)))
    if query.parent not in (None, "none"):
        listed = select(runs.c.pk).where(runs.c.parent == query.parent)
        filters.append(Filter(_unindexed(runs.c.parent) == query.parent, listed))
    filters += [_label(TAG, text) for text in query.tags] + [_label(PROPERTY, text) for text in query.properties]
    return filters + [_condition(query.workspace, parse_condition(text)) for text in query.where]


def _plain_checks(query: RunQuery) -> list[Check]:
    checks: list[Check] = []
    if check_archived(query.archived) != "all":
        checks.append(runs.c.archived_at.is_(None) if query.archived == "no" else runs.c.archived_at.is_not(None))
    if query.parent == "none":
        checks.append(_unindexed(runs.c.parent).is_(None))
    if query.type is not None:
        checks.append(runs.c.type == query.type)
    if query.target is not None:
        checks.append(runs.c.target == query.target)
    if query.since is not None:
        checks.append(runs.c.created_at >= query.since)
    if query.until is not None:
        checks.append(runs.c.created_at <= query.until)
    if query.search:
        text = clean(query.search).casefold()
        checks.append(or_(*(column.contains(text, autoescape=True) for column in _SEARCHED)))
    return checks


def _label(kind: str, text: str) -> Filter:
    key, value = parse_label(text)
    listed = select(labels.c.run).where(labels.c.kind == kind, labels.c.key == key)
    if value is not None:
        listed = listed.where(labels.c.value == value)
    return Filter(listed.where(labels.c.run == runs.c.pk).correlate(runs).exists(), listed)


def _condition(workspace: str, condition: Condition) -> Filter:
    listed = select(series.c.run).where(
        series.c.workspace == workspace,
        series.c.name == condition.metric,
        _COMPARE[condition.operator](series.c.last, condition.value),
    )
    mine = series.alias("mine")
    check = select(mine.c.run).where(
        mine.c.run == runs.c.pk,
        mine.c.name == condition.metric,
        _COMPARE[condition.operator](mine.c.last, condition.value),
    )
    return Filter(check.correlate(runs).exists(), listed)


def _few(connection: Connection, filters: Sequence[Filter]) -> Listed | None:
    """The query of the most selective filter, if few runs pass it."""
    lists = [each.listed for each in filters if each.listed is not None]
    best, fewest = None, FEW * len(lists)
    for listed in lists:
        counted = select(func.count()).select_from(listed.limit(fewest).subquery())
        count: int = connection.execute(counted).scalar_one()
        if count < fewest:
            best, fewest = listed, count
    return best


def _walk(query: RunQuery, sort: Sort, few: Listed | None) -> Walk:
    if sort.is_metric:
        return _metric_walk(query, sort, few)
    column = _sorted_by(sort)
    source = select(runs.c.pk, column.label("value")).where(*_start(runs.c.pk, runs.c.workspace, query, few))
    return Walk(runs.c.pk, column, source)


def _metric_walk(query: RunQuery, sort: Sort, few: Listed | None) -> Walk:
    source = (
        select(series.c.run.label("pk"), series.c.last.label("value"))
        .join(runs, runs.c.pk == series.c.run)
        .where(*_start(series.c.run, series.c.workspace, query, few), series.c.name == sort.key)
    )
    if query.experiment is not None:
        source = source.where(series.c.experiment == query.experiment)
    for condition in map(parse_condition, query.where):
        if condition.metric == sort.key:
            source = source.where(_COMPARE[condition.operator](series.c.last, condition.value))
    return Walk(series.c.run, series.c.last, source)


def _start(pk: ColumnElement[int], workspace: ColumnElement[str], query: RunQuery, few: Listed | None) -> list[Check]:
    """Where the walk starts: at the few runs of a selective filter, or at the workspace's part of an index."""
    return [workspace == query.workspace] if few is None else [pk.in_(few), _unindexed(workspace) == query.workspace]


def _gaps(query: RunQuery, sort: Sort, few: Listed | None) -> Select[Any]:
    """Runs without a sort value."""
    asked = select(runs.c.pk).where(_unindexed(runs.c.workspace) == query.workspace)
    if few is not None:
        asked = asked.where(runs.c.pk.in_(few))
    if not sort.is_metric:
        return asked.where(_sorted_by(sort).is_(None))
    other = series.alias("other")
    valued = select(other.c.run).where(other.c.run == runs.c.pk, other.c.name == sort.key, other.c.last.is_not(None))
    return asked.where(~valued.correlate(runs).exists())


def _sorted_by(sort: Sort) -> ColumnElement[Any]:
    if sort.key == "duration":
        return type_coerce(runs.c.ended_at, BigInteger) - type_coerce(runs.c.started_at, BigInteger)
    return type_coerce(runs.c[sort.key], Text if sort.key in TEXTS else BigInteger)


def _valued(
    connection: Connection, walk: Walk, sort: Sort, checks: Sequence[Check], after: Position | None, limit: int
) -> list[Position]:
    asked = walk.source.where(*checks)
    if sort.has_gaps:
        asked = asked.where(walk.value.is_not(None))
    order = (walk.value, walk.pk)
    if after is not None:
        here, there = tuple_(*order), tuple_(after.value, after.pk)
        asked = asked.where(here < there if sort.is_descending else here > there)
    asked = asked.order_by(*(each.desc() if sort.is_descending else each for each in order)).limit(limit)
    return [Position(value, pk) for pk, value in connection.execute(asked).all()]


def _without_value(connection: Connection, gaps: Select[Any], after: Position | None, limit: int) -> list[Position]:
    """The newest first."""
    if after is not None:
        gaps = gaps.where(runs.c.pk < after.pk)
    return [Position(None, pk) for pk in connection.execute(gaps.order_by(runs.c.pk.desc()).limit(limit)).scalars()]


def _runs(connection: Connection, pks: Sequence[int]) -> dict[int, Run]:
    if not pks:
        return {}
    rows = connection.execute(_SOME, {"pks": pks}).all()
    return {row.pk: run_of(row) for row in rows}


def _last_values(connection: Connection, listed: Mapping[int, Run], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    values: dict[str, dict[str, Any]] = {run.id: {} for run in listed.values()}
    if listed and names:
        asked = select(series.c.run, series.c.name, series.c.last_value)
        asked = asked.where(series.c.run.in_(list(listed)), series.c.name.in_(names))
        for pk, name, value in connection.execute(asked).all():
            values[listed[pk].id][name] = value
    return values


def _commands(connection: Connection, listed: Mapping[int, Run]) -> dict[str, CommandLine]:
    if not listed:
        return {}
    rows = connection.execute(_COMMANDS, {"pks": list(listed)})
    return {listed[pk].id: _shown(command_line(spec)) for pk, spec in rows}


def _shown(line: CommandLine) -> CommandLine:
    """A command line without what exceeds a length; "…" stands for that."""
    shown, room = [], LONGEST_SHOWN
    for word in line.arguments:
        if len(word) > room:
            shown.append(f"{word[:room]}…")
            break
        shown.append(word)
        room -= len(word) + 1
    return CommandLine(line.script, shown)


def command_line(spec: Mapping[str, Any]) -> CommandLine:
    """Script and arguments, from a stored specification."""
    return CommandLine(spec.get("script") or "", [*spec.get("command", ()), *spec.get("arguments", ())])


class _Unindexed(FunctionElement[Any]):
    """A column that SQLite's planner must not use an index for, so that it keeps to the index of the sort order."""

    inherit_cache = True

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.type = column.type
        super().__init__(column)


@compiles(_Unindexed)
def _compile_plain(element: _Unindexed, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(next(iter(element.clauses)), **kw)


@compiles(_Unindexed, "sqlite")
def _compile_unindexed(element: _Unindexed, compiler: SQLCompiler, **kw: Any) -> str:
    return f"+{compiler.process(next(iter(element.clauses)), **kw)}"


def _unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return _Unindexed(column)
