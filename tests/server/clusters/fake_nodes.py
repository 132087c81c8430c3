"""A kind of cluster whose nodes are made by a fake: it fails as providers fail, and remembers what it has made."""

from __future__ import annotations

import random
from typing import Any, ClassVar

from windlass.core.errors import TargetUnreachable
from windlass.drivers.base import NodeSource
from windlass.drivers.kinds.cluster import ClusterConfig, ClusterDriver


class FakeNodes(NodeSource):
    """Of all calls, a share fails; of those, some have done what was asked for all the same."""

    def __init__(self, failing: float = 0.0, failing_but_done: float = 0.0, seed: int = 0) -> None:
        self.made: set[str] = set()
        self.most = 0
        self._failing, self._but_done = failing, failing_but_done
        self._chance = random.Random(seed)

    def create_node(self, id: str) -> bool:
        chance = self._chance.random()
        if chance < self._failing:
            raise TargetUnreachable("the fake provider has failed")
        self.made.add(id)
        self.most = max(self.most, len(self.made))
        if chance < self._failing + self._but_done:
            raise TargetUnreachable("the fake provider has failed, after it made the node")
        return True

    def delete_node(self, id: str) -> None:
        self.made.discard(id)
        if self._chance.random() < self._failing:
            raise TargetUnreachable("the fake provider has failed")

    def nodes(self) -> list[str]:
        return sorted(self.made)


class FakeCluster(ClusterDriver):
    """A cluster with the nodes of a fake source, one for all drivers of the class."""

    kind = "fake-cluster"
    config_model: ClassVar[type[ClusterConfig]] = ClusterConfig
    source: ClassVar[FakeNodes] = FakeNodes()

    def node_source(self) -> NodeSource:
        return type(self).source


def fake_kind(source: FakeNodes) -> type[FakeCluster]:
    fields: dict[str, Any] = {"source": source}
    return type("FakeCluster", (FakeCluster,), fields)
