"""What a table of runs can show and filter by: metrics, parameters and tags of recent runs, members, targets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, type_coerce

from windlass.store.db.column_types import Json
from windlass.store.db.schema import runs, series, specs
from windlass.store.metrics.series import SCALAR
from windlass.store.runs.search import command_line

RECENT = 500  # runs that are looked at
MOST = 500  # names of each sort

_PARAMETER = re.compile(r"--([^=\s]+)(?:=.*)?\Z", re.DOTALL)
_RECENT = (
    select(runs.c.pk, runs.c.target, runs.c.submitted_by, runs.c.tags, type_coerce(specs.c.spec, Json).label("spec"))
    .outerjoin(specs, specs.c.run == runs.c.pk)
    .where(runs.c.workspace == bindparam("of"), runs.c.archived_at.is_(None))
    .order_by(runs.c.created_at.desc(), runs.c.pk.desc())
    .limit(RECENT)
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
    rows = connection.execute(
        asked, {"of": workspace, **({"named": experiment} if experiment is not None else {})}
    ).all()
    metrics = connection.execute(_METRICS, {"pks": [row.pk for row in rows]}).scalars() if rows else ()
    return Columns(
        metrics=_names(metrics),
        parameters=_names(
            name for row in rows if row.spec for name in parameter_names(command_line(row.spec).arguments)
        ),
        tags=_names(key for row in rows for key in row.tags),
        members=_names(row.submitted_by for row in rows if row.submitted_by),
        targets=_names(row.target for row in rows if row.target),
    )


def parameter_names(arguments: Iterable[str]) -> list[str]:
    """`alpha` for --alpha 0.5 and for --alpha=0.5."""
    return [found[1] for found in map(_PARAMETER.match, arguments) if found is not None]


def _names(found: Iterable[str]) -> list[str]:
    return sorted(set(found))[:MOST]
