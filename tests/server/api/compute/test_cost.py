"""Node-seconds and cost per run and target, the shares of a run, and evictions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.serving import HOME, Server
from tests.store.catalog.test_node_usage import give, spend


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
    assert {run["submitted_by"] for run in found["runs"]} == {"owner"}
    prices = {each["name"]: each["price_per_hour"] for each in server.call("GET", f"{HOME}/targets").json["targets"]}
    assert (prices["cpu"], prices["gpu"], prices["local"]) == (0.146, pytest.approx(0.18), None)
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


def test_the_cost_of_runs_on_a_cluster_that_was_deleted(server: Server) -> None:
    """One of the same name and another size does not change the price of what ran before."""
    runs = []
    for size in ("STANDARD_D2_V2", "STANDARD_NC6"):
        cluster(server, "cpu", vm_size=size)
        runs.append(run_on(server, "cpu", 3600))
        for run in server.store.runs.active():
            server.store.runs.request_cancel("default", run)
        server.store.attachments.begin_deletion("default", "cpu", "jane", force=True)
        assert server.store.attachments.finish_deletion("default", "cpu", "jane")
    found = server.call("GET", f"{HOME}/cost").json
    assert {run["run"]: run["cost"] for run in found["runs"]} == {runs[0]: 0.146, runs[1]: 0.9}
    assert [(row["vm_size"], row["cost"]) for row in found["targets"]] == [
        ("STANDARD_NC6", 0.9), ("STANDARD_D2_V2", 0.146),
    ]  # fmt: skip


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


def test_only_nodes_of_clusters_are_taken_away(server: Server) -> None:
    refused = server.call("POST", f"{HOME}/targets/local/simulate-eviction", {})
    assert (refused.status, refused.json["error"]["code"]) == (422, "not_supported")
    assert server.call("POST", f"{HOME}/targets/none/simulate-eviction", {}).status == 404
