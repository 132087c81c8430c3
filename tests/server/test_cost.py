"""Node-seconds and cost per run and target, the shares of a run, and evictions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.serving import HOME, Server
from tests.store.test_node_usage import give, spend
from windlass.core.errors import NotFound


def cluster(server: Server, name: str, **config: Any) -> None:
    server.store.targets.ensure("default", name, "local", config, None, False)


def run_on(server: Server, target: str, seconds: float | None = None) -> str:
    run: str = server.submit(spec={"script": "train.py", "target": target})["id"]
    if seconds is not None:
        spend(server.store, run, seconds)
    return run


def test_the_cost_of_runs_and_targets(server: Server) -> None:
    cluster(server, "cpu", vm_size="STANDARD_D2_V2")
    cluster(server, "gpu", vm_size="STANDARD_NC6", vm_priority="lowpriority")
    first, second, third = run_on(server, "cpu", 3600), run_on(server, "cpu", 1800), run_on(server, "gpu", 7200)
    run_on(server, "local")
    found = server.call("GET", f"{HOME}/cost").json
    assert found["currency"] == "USD"
    assert [(run["run"], run["cost"]) for run in found["runs"]] == [(third, 0.36), (first, 0.146), (second, 0.073)]
    assert found["targets"] == [
        {
            "target": "gpu", "vm_size": "STANDARD_NC6", "vm_priority": "lowpriority",
            "price_per_hour": pytest.approx(0.18), "runs": 1, "node_seconds": 7200.0, "cost": 0.36,
        },
        {
            "target": "cpu", "vm_size": "STANDARD_D2_V2", "vm_priority": None, "price_per_hour": 0.146, "runs": 2,
            "node_seconds": 5400.0, "cost": 0.219,
        },
    ]  # fmt: skip
    only = server.call("GET", f"{HOME}/cost?target=cpu&since=2020-01-01T00:00:00Z").json
    assert [run["run"] for run in only["runs"]] == [first, second]
    assert server.call("GET", f"{HOME}/cost?since=2100-01-01T00:00:00Z").json["runs"] == []


def test_without_a_price_there_is_the_time(server: Server) -> None:
    cluster(server, "odd", vm_size="unknown")
    run_on(server, "odd", 10)
    found = server.call("GET", f"{HOME}/cost").json
    assert (found["runs"][0]["node_seconds"], found["runs"][0]["cost"]) == (10.0, None)
    assert found["targets"][0]["price_per_hour"] is None


def test_an_active_run_shows_what_it_has(server: Server) -> None:
    cluster(server, "cpu", vm_size="STANDARD_D2_V2")
    run = run_on(server, "cpu")
    give(server.store, run, "cpu-1")
    found = server.call("GET", f"{HOME}/runs/{run}").json
    assert found["allocation"] == [{"node": "cpu-1", "cores": 1.5, "memory_mb": 512, "gpus": [1]}]


class Clusters:
    def __init__(self) -> None:
        self.asked: list[Any] = []

    def evict(self, workspace: str, target: str, node: str | None) -> list[str]:
        self.asked.append((workspace, target, node))
        if node == "gone":
            raise NotFound("cpu has no node gone.")
        return [node or "n0", *([] if node else ["n1"])]


def test_evictions_are_handed_to_the_clusters(server: Server) -> None:
    path = f"{HOME}/targets/cpu/simulate-eviction"
    cluster(server, "cpu")
    assert server.call("POST", path, {}).json["error"]["code"] == "not_supported"
    clusters = Clusters()
    object.__setattr__(server.context, "clusters", clusters)
    assert server.call("POST", path, {}).json == {"target": "cpu", "nodes": ["n0", "n1"]}
    assert server.call("POST", path, {"node": "n1"}).json["nodes"] == ["n1"]
    assert server.call("POST", path, {"node": "gone"}).status == 404
    assert server.call("POST", f"{HOME}/targets/none/simulate-eviction", {}).status == 404
    assert clusters.asked == [("default", "cpu", None), ("default", "cpu", "n1"), ("default", "cpu", "gone")]
