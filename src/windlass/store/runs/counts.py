"""Counts of runs for overviews. All of them read one index only, so that they are fast over a long history."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, select

from windlass.core.states import ACTIVE, RunState
from windlass.store.db.schema import runs

# All states: then the index by state finds one experiment, too.
_listed = (runs.c.workspace == bindparam("of")) & runs.c.state.in_(list(RunState)) & runs.c.archived_at.is_(None)
_BY_STATE = select(runs.c.state, func.count()).where(_listed).group_by(runs.c.state)
_BY_EXPERIMENT = (
    select(runs.c.experiment, runs.c.state, func.count(), func.max(runs.c.created_at))
    .where(_listed)
    .group_by(runs.c.state, runs.c.experiment)
)
_OF_EXPERIMENT = _BY_EXPERIMENT.where(runs.c.experiment == bindparam("named"))


@dataclass(slots=True)
class RunCounts:
    """The runs of an experiment that are not archived."""

    runs: int = 0
    active_runs: int = 0
    failed_runs: int = 0
    last_run_at: datetime | None = None


def by_state(connection: Connection, workspace: str) -> dict[RunState, int]:
    return {state: count for state, count in connection.execute(_BY_STATE, {"of": workspace})}


def by_experiment(connection: Connection, workspace: str) -> dict[str, RunCounts]:
    """The counts of experiments with runs."""
    counts: dict[str, RunCounts] = defaultdict(RunCounts)
    for experiment, state, count, last in connection.execute(_BY_EXPERIMENT, {"of": workspace}):
        _add(counts[experiment], state, count, last)
    return counts


def of_experiment(connection: Connection, workspace: str, name: str) -> RunCounts:
    counts = RunCounts()
    for _, state, count, last in connection.execute(_OF_EXPERIMENT, {"of": workspace, "named": name}):
        _add(counts, state, count, last)
    return counts


def _add(counts: RunCounts, state: RunState, count: int, last: datetime) -> None:
    counts.runs += count
    counts.active_runs += count if state in ACTIVE else 0
    counts.failed_runs += count if state is RunState.FAILED else 0
    counts.last_run_at = last if counts.last_run_at is None else max(last, counts.last_run_at)
