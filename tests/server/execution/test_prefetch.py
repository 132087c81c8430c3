"""Runs that are pre-staged before they have a slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import SecretStr

from tests.scenarios.stage import TARGET, WORKSPACE, staged
from tests.store.makers import with_slots
from windlass.server.execution.driver_cache import DriverCache
from windlass.server.execution.job_builder import JobBuilder
from windlass.server.execution.prefetch import Prefetcher
from windlass.server.security.run_secrets import RunSecrets
from windlass.store import Leased


class Interrupted(RunSecrets):
    """Something else happens while they are opened."""

    meanwhile: Callable[[], None]

    def open(self, leased: Leased) -> Mapping[str, SecretStr]:
        self.meanwhile()
        return super().open(leased)


def test_a_run_that_is_evicted_while_it_is_planned_is_started_all_the_same(store_url: str, tmp_path: Path) -> None:
    with staged(store_url, tmp_path) as stage:
        stage.store.targets.update(WORKSPACE, TARGET, slots=1)
        stage.submit(sleep="1000")
        run = stage.submit()
        run_secrets = Interrupted(stage.store, stage.secret_store)
        jobs = JobBuilder(stage.store, stage.connections, stage.settings, "http://127.0.0.1:1", b"key", run_secrets)
        prefetcher = Prefetcher(stage.store, jobs, DriverCache(stage.store, jobs))
        prefetcher.prefetch(WORKSPACE, TARGET)
        assert prefetcher.is_ready(run.id)
        [leased] = stage.store.runs.admit(WORKSPACE, TARGET, "somebody", with_slots(2), 30)
        run_secrets.meanwhile = prefetcher.evict
        plan = prefetcher.plan(leased)
        assert (plan.job.id, plan.job.fence) == (f"{run.id}.1", leased.fence)
        assert not prefetcher.is_ready(run.id)
