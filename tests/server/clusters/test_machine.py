"""Any sequence of submits, ends, rounds, evictions and failures keeps the promises of clusters."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests import sampling
from tests.databases import migrated_sqlite
from tests.server.clusters.fake_nodes import FakeNodes
from tests.server.clusters.stage import WORKSPACE, ClusterStage
from windlass.store import open_store

STEPS, EXAMPLES = 100, 260  # an example has 77 steps on average: 20,000 in `make test-all`
CLUSTERS = ("cpu", "spot")
MOST = {"cpu": 3, "spot": 2}
LEAST = {"cpu": 1, "spot": 0}


class Clusters(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-clusters-"))
        self.store = open_store(migrated_sqlite(self.folder), self.folder / "files")
        self.sources = {name: FakeNodes(0.1, 0.1) for name in CLUSTERS}
        self.stage = ClusterStage(self.store, cores=4, gpus=2, sources=self.sources)

    @initialize()
    def make(self) -> None:
        sizes: dict[str, dict[str, Any]] = {
            "cpu": {"vm_size": "Standard_D2_v2", "strict": True},
            "spot": {"vm_size": "Standard_NC6", "vm_priority": "lowpriority"},
        }
        for name in CLUSTERS:
            limits = {"min_nodes": LEAST[name], "max_nodes": MOST[name], "idle_seconds_before_scaledown": 0}
            self.stage.cluster(name, **sizes[name], **limits)

    @rule(nodes=st.integers(1, 2), part=st.booleans(), where=st.sampled_from(CLUSTERS), priority=st.integers(0, 1))
    def submit(self, nodes: int, part: bool, where: str, priority: int) -> None:
        asked: dict[str, Any] = {"cpus": 0.5, "memory_mb": 100} if part else {}
        self.stage.submit(where, priority, nodes=nodes, **asked)

    @rule(gpus=st.integers(0, 1), cpus=st.none() | st.integers(1, 3))
    def submit_locally(self, gpus: int, cpus: int | None) -> None:
        self.stage.submit("local", gpus=gpus or None, cpus=cpus)

    @precondition(lambda self: self.stage.started)
    @rule(which=st.integers(0, 100))
    def end(self, which: int) -> None:
        running = sorted(self.stage.started)
        self.stage.end(running[which % len(running)])

    @rule(where=st.sampled_from(CLUSTERS))
    def scale(self, where: str) -> None:
        self._rounds(where, 1)

    @rule(where=st.sampled_from(CLUSTERS))
    def take_nodes_away(self, where: str) -> None:
        self.stage.scaler.evict(WORKSPACE, where, None, "a test")

    @rule(where=st.sampled_from(CLUSTERS))
    def lose_a_node(self, where: str) -> None:
        made = self.sources[where].made
        if made:
            made.discard(min(made))

    @invariant()
    def nothing_is_given_twice(self) -> None:
        shares = [share for leased in self.stage.started.values() for share in leased.allocation.shares]
        assert sum(round(share.cores * 1000) for share in shares) <= 4000
        devices = [device for share in shares for device in share.gpus]
        assert len(devices) == len(set(devices))
        for name in CLUSTERS:
            for row in self.store.nodes.rows(WORKSPACE, name):
                assert min(row.free.millicores, row.free.memory_mb, row.free.gpus) >= 0, row

    @invariant()
    def limits_hold(self) -> None:
        for name in CLUSTERS:
            assert len(self.store.nodes.rows(WORKSPACE, name)) <= MOST[name]
            assert len(self.sources[name].made) <= MOST[name]

    def teardown(self) -> None:
        try:
            self._everything_starts_and_goes()
        finally:
            self.store.close()
            shutil.rmtree(self.folder)

    def _everything_starts_and_goes(self) -> None:
        """No run is starved, idle nodes go, and nothing is left at the source."""
        for _ in range(300):
            for run in sorted(self.stage.started):
                self.stage.end(run)
            for name in CLUSTERS:
                self._rounds(name, 1)
            self.stage.admit(WORKSPACE, "local")
            queued = sum(waiting for _, waiting in self.store.targets.counts(WORKSPACE).values())
            there = {name: len(self.store.nodes.rows(WORKSPACE, name)) for name in CLUSTERS}
            if not queued and not self.stage.started and there == LEAST:
                break
        else:
            raise AssertionError((queued, there, self.stage.started))
        for name in CLUSTERS:
            assert self.sources[name].made == {row.id for row in self.store.nodes.rows(WORKSPACE, name)}

    def _rounds(self, name: str, count: int) -> None:
        self.stage.scaler._retry_at.clear()  # time passes
        self.stage.scaler._swept.clear()
        for _ in range(count):
            self.stage.scale(name)


Clusters.TestCase.settings = settings(
    max_examples=3 if sampling.IS_ON else EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestClusters = Clusters.TestCase
