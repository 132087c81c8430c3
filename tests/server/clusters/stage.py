"""A store with clusters and an autoscaler whose rounds are made by the test. Nothing is executed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.server.clusters.fake_nodes import FakeNodes
from windlass.core.entities import Resources, RunSpec, Target
from windlass.core.states import Reason, RunState, Step
from windlass.drivers import open_pool
from windlass.drivers.base import DriverContext, NodeSource, ThisComputer
from windlass.drivers.kinds.cluster import ClusterConfig, ClusterDriver
from windlass.server.clusters.autoscaler import Autoscaler
from windlass.server.clusters.capacity import Capacities
from windlass.server.execution.driver_context import shown
from windlass.store import Capacity, ComputerCapacity, Leased, NewRun, Store

OWNER, LEASE, WORKSPACE = "server", 3600.0, "default"


class NoSecrets:
    def get(self, name: str) -> Any:
        raise AssertionError("a cluster here has no secrets")


@dataclass
class ClusterStage:
    store: Store
    cores: float = 4.0
    memory_mb: int = 16_384
    gpus: int = 0
    sources: Mapping[str, FakeNodes] = field(default_factory=dict)  # of clusters, by name; others have embedded nodes
    started: dict[str, Leased] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        computer = ComputerCapacity("here", round(self.cores * 1000), self.memory_mb, self.gpus)
        self.capacity_of = Capacities(computer)
        self.evicted: list[str] = []
        self.scaler = Autoscaler(
            self.store, self.driver, self.capacity_of, self.admit, self.evicted.append, lambda workspace, run: None
        )
        self.store.workspaces.create(WORKSPACE)
        self.store.targets.ensure(WORKSPACE, "local", "local", {}, 4, True)

    def driver(self, workspace: str, name: str) -> ClusterDriver:
        target = self.store.targets.get(workspace, name)
        stage = self

        class Driver(ClusterDriver):
            def node_source(self) -> NodeSource:
                return stage.sources.get(self.name) or super().node_source()

        made = Driver(name, ClusterConfig(**target.config), NoSecrets(), open_pool(None))
        made.context = DriverContext(
            computer=ThisComputer(self.cores, self.memory_mb, self.gpus),
            nodes=lambda of: [shown(row) for row in self.store.nodes.rows(WORKSPACE, of)],
        )
        return made

    def cluster(self, name: str = "cpu", **config: Any) -> Target:
        return self.store.targets.ensure(WORKSPACE, name, "cluster", config, None, False)

    def capacity(self, name: str) -> Capacity:
        return self.capacity_of(WORKSPACE, self.store.targets.get(WORKSPACE, name))

    def submit(self, target: str = "cpu", priority: int = 0, parent: str | None = None, **asked: Any) -> str:
        spec = RunSpec(script="train.py", target=target, priority=priority, resources=Resources(**asked))
        id = f"run-{next(self.numbers)}"
        new = NewRun(id, WORKSPACE, "demo", "azureml.scriptrun", spec=spec, parent=parent, nonce="n")
        _, _, leased = self.store.runs.submit(new, OWNER, self.capacity_of, LEASE)
        self._take([leased] if leased is not None else [])
        return id

    def admit(self, workspace: str, target: str) -> None:
        self._take(self.store.runs.admit(workspace, target, OWNER, self.capacity_of, LEASE))

    def scale(self, target: str = "cpu") -> None:
        self.scaler.scale(WORKSPACE, target)

    def end(self, run: str) -> None:
        leased = self.started.pop(run)
        state = self.store.runs.get(WORKSPACE, run).state
        step = Step(RunState.COMPLETED, Reason.EXITED, "exit code 0", 0)
        _, admitted = self.store.runs.finish(
            run,
            expect=state,
            step=step,
            fence=leased.fence,
            ending=None,
            owner=OWNER,
            capacity_of=self.capacity_of,
            lease_seconds=LEASE,
        )
        self._take(admitted)

    def states(self, target: str = "cpu") -> list[str]:
        return [row.state for row in self.store.nodes.rows(WORKSPACE, target)]

    def message(self, run: str) -> str:
        return self.store.runs.get(WORKSPACE, run).message

    def _take(self, admitted: list[Leased]) -> None:
        for leased in admitted:
            assert leased.run.id not in self.started, "a run is dispatched once"
            self.started[leased.run.id] = leased
