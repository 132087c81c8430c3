"""Runs that are made ready before they are started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import SecretStr

from tests.scenarios.stage import TARGET, WORKSPACE, staged
from windlass.server.execution.driver_cache import Reach
from windlass.server.execution.job_builder import Jobs
from windlass.server.execution.prefetch import Ahead
from windlass.server.grants import Grants
from windlass.store import Leased


class Interrupted(Grants):
    """Something else happens while they are opened."""

    meanwhile: Callable[[], None]

    def open(self, leased: Leased) -> Mapping[str, SecretStr]:
        self.meanwhile()
        return super().open(leased)


def test_one_that_is_tidied_up_while_it_is_taken_is_started_all_the_same(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path) as stage:
        stage.store.targets.update(WORKSPACE, TARGET, slots=1)
        stage.submit(sleep="1000")
        run = stage.submit()
        grants = Interrupted(stage.store, stage.keystore)
        jobs = Jobs(stage.store, stage.connections, stage.settings, "http://127.0.0.1:1", b"key", grants)
        ahead = Ahead(stage.store, jobs, Reach(stage.store, jobs))
        ahead.look(WORKSPACE, TARGET)
        assert ahead.is_ready(run.id)
        [leased] = stage.store.runs.admit(WORKSPACE, TARGET, "somebody", 2, 30)
        grants.meanwhile = ahead.tidy
        plan = ahead.take(leased)
        assert plan is not None and (plan.job.id, plan.job.fence) == (f"{run.id}.1", leased.fence)
        assert not ahead.is_ready(run.id)
