"""Overdue runs: each state that is not final has a deadline, after which a person should look at the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from windlass.core.states import Intent, RunState
from windlass.store import Store, UnfinishedRun

MARGIN = timedelta(minutes=10)  # for the server to notice, and to act
# How long a run may be in a state. Queued runs wait for others, and running ones end by their own limit.
LONGEST = {
    RunState.STARTING: timedelta(hours=1),
    RunState.PROVISIONING: timedelta(hours=2),
    RunState.PREPARING: timedelta(hours=7),  # beyond the longest build by default
    RunState.FINALIZING: timedelta(hours=2),
}


@dataclass(frozen=True, slots=True)
class Overdue:
    """A run that should have changed its state by now, since when, and what is wrong."""

    unfinished: UnfinishedRun
    since: datetime
    message: str


def find_overdue(store: Store, workspace: str, give_up: timedelta, now: datetime) -> list[Overdue]:
    """The overdue runs of a workspace, those that are overdue for the longest time first."""
    found = (found for each in store.runs.unfinished(workspace) for found in _check(each, give_up, now))
    return sorted(found, key=lambda overdue: overdue.since)


def _check(each: UnfinishedRun, give_up: timedelta, now: datetime) -> Iterator[Overdue]:
    """The first deadline that the run has missed."""
    for since, message in _deadlines(each, give_up):
        if since + MARGIN < now:
            yield Overdue(each, since, message)
            return


def _deadlines(each: UnfinishedRun, give_up: timedelta) -> Iterator[tuple[datetime, str]]:
    run, spec = each.run, each.spec
    grace = timedelta(seconds=0 if spec is None else spec.grace_seconds)
    if run.intent is Intent.CANCEL and each.cancel_at is not None:
        yield each.cancel_at + grace, "its cancel was requested, and it has not ended"
    if not each.has_owner:
        yield run.state_at, "no server takes care of it"
    if run.state is RunState.NOT_RESPONDING:
        what = "its script" if spec is None else run.target
        yield run.state_at + give_up, f"{what} has not been heard of for too long"
    if run.state is RunState.RUNNING and spec is not None and spec.max_run_duration_seconds and run.started_at:
        limit = timedelta(seconds=spec.max_run_duration_seconds)
        yield run.started_at + limit + grace, f"it may run for {limit}, and has not ended"
    if run.state in LONGEST:
        yield run.state_at + LONGEST[run.state], f"it has been {run.state.value} for more than {LONGEST[run.state]}"
