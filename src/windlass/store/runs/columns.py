"""What a table of runs can show and filter by: metrics, parameters and tags of recent runs, members, targets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, type_coerce

from windlass.store.db.column_types import Json
from windlass.store.db.schema import runs, series, specs
from windlass.store.metrics.series import SCALAR
from windlass.store.runs.search import AT_ONCE, command_line

RECENT = 500  # runs that are looked at
MOST = 500  # names of each sort

_PARAMETER = re.compile(r"--([^=\s]{1,200})(?:=.*)?\Z", re.DOTALL)
_RECENT = (
    select(runs.c.pk, runs.c.target, runs.c.submitted_by, runs.c.tags, type_coerce(specs.c.spec, Json).label("spec"))
    .outerjoin(specs, specs.c.run == runs.c.pk)
    .where(runs.c.workspace == bindparam("of"), runs.c.archived_at.is_(None))
    .order_by(runs.c.created_at.desc(), runs.c.pk.desc())
    .limit(RECENT)
    .execution_options(yield_per=AT_ONCE)
)
_RECENT_OF_EXPERIMENT = _RECENT.where(runs.c.experiment == bindparam("named"))
_METRICS = (
    select(series.c.name).where(series.c.run.in_(bindparam("pks", expanding=True)), series.c.kind == SCALAR).distinct()
)


@dataclass(frozen=True, slots=True)
class Columns:
    metrics: Sequence[str]
    parameters: Sequence[str]
    tags: Sequence[str]
    members: Sequence[str]
    targets: Sequence[str]


def find(connection: Connection, workspace: str, experiment: str | None) -> Columns:
    asked = _RECENT if experiment is None else _RECENT_OF_EXPERIMENT
    pks: list[int] = []
    parameters: set[str] = set()
    tags: set[str] = set()
    members: set[str] = set()
    targets: set[str] = set()
    for row in connection.execute(
        asked, {"of": workspace, **({"named": experiment} if experiment is not None else {})}
    ):
        pks.append(row.pk)
        if row.spec and len(parameters) < MOST:
            parameters.update(parameter_names(command_line(row.spec).arguments[:MOST]))
        tags.update(row.tags)
        members.add(row.submitted_by)
        targets.add(row.target)
    metrics = connection.execute(_METRICS, {"pks": pks}).scalars() if pks else ()
    return Columns(
        metrics=_names(metrics),
        parameters=_names(parameters),
        tags=_names(tags),
        members=_names(members - {""}),
        targets=_names(targets - {""}),
    )


def parameter_names(arguments: Iterable[str]) -> list[str]:
    """`alpha` for --alpha 0.5 and for --alpha=0.5."""
    return [found[1] for found in map(_PARAMETER.match, arguments) if found is not None]


def _names(found: Iterable[str]) -> list[str]:
    return sorted(set(found))[:MOST]
