"""A few seconds of chaos on SQLite and this computer, so that `make test-chaos` works when it is needed."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.chaos import unleash
from tests.chaos.plan import Act, Victim, make_plan

# One whose first ten seconds have a kill of the server, of the host and of supervisors, and scripts of most kinds.
SEED = 2187


def test_a_moment_of_chaos_ends_with_the_truth(tmp_path: Path) -> None:
    unleash(tmp_path, SEED, minutes=1 / 6, runs=10, strikes=8).check()


def test_a_seed_gives_one_plan_with_everything_in_it() -> None:
    plan = make_plan(SEED, 1200.0, 500, 480, 2, 2)
    assert plan == make_plan(SEED, 1200.0, 500, 480, 2, 2)
    assert plan != make_plan(SEED + 1, 1200.0, 500, 480, 2, 2)
    assert {run.act for run in plan.runs} == set(Act)
    assert {(strike.victim, strike.is_stop) for strike in plan.strikes} >= {
        (victim, is_stop) for victim in (Victim.SERVER, Victim.HOST, Victim.SUPERVISOR) for is_stop in (False, True)
    }
    assert {run.machine for run in plan.runs} == {run.server for run in plan.runs} == {0, 1}
