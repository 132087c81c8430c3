"""Clusters: nodes come with the queue, go when they are idle, and are shares of one computer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.server.clusters.fake_nodes import FakeNodes
from tests.server.clusters.stage import WORKSPACE, ClusterStage
from windlass.core.errors import NotFound
from windlass.server.clusters import autoscaler
from windlass.server.clusters.autoscaler import SUBMIT_PATIENCE
from windlass.store import Store, open_store


@pytest.fixture
def store(store_url: str, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(store_url, tmp_path / "files")
    yield opened
    opened.close()


@pytest.fixture
def stage(store: Store) -> ClusterStage:
    return ClusterStage(store)


def test_from_zero_to_the_maximum_and_back(stage: ClusterStage) -> None:
    stage.cluster(vm_size="Standard_D1_v2", max_nodes=2, idle_seconds_before_scaledown=0)
    runs = [stage.submit() for _ in range(3)]
    assert stage.started == {} and stage.states() == []
    stage.scale()
    assert set(stage.started) == set(runs[:2]) and stage.states() == ["ready", "ready"]
    assert stage.message(runs[2]) == "0 of 2 nodes idle, 1 needed; 0 ahead"
    stage.end(runs[0])
    assert runs[2] in stage.started
    for run in runs[1:]:
        stage.end(run)
    stage.scale()
    assert stage.states() == []


def test_a_minimum_is_kept(stage: ClusterStage) -> None:
    stage.cluster(min_nodes=2, max_nodes=3, idle_seconds_before_scaledown=0)
    stage.scale()
    assert stage.states() == ["ready", "ready"]
    stage.scale()
    assert stage.states() == ["ready", "ready"]


def test_a_run_of_several_nodes_starts_on_all_of_them(stage: ClusterStage) -> None:
    stage.cluster(vm_size="Standard_D1_v2", max_nodes=3)
    run = stage.submit(nodes=3)
    stage.scale()
    shares = stage.started[run].allocation.shares
    assert len({share.node for share in shares}) == 3


def test_runs_that_declare_a_part_share_a_node(stage: ClusterStage) -> None:
    stage.cluster(vm_size="Standard_D2_v2", max_nodes=1, strict=True)
    runs = [stage.submit(cpus=1, memory_mb=1000) for _ in range(3)]
    stage.scale()
    assert set(stage.started) == set(runs[:2])  # a node has two cores
    assert {share.node for leased in stage.started.values() for share in leased.allocation.shares} == {
        row.id for row in stage.store.nodes.rows(WORKSPACE, "cpu")
    }


def test_small_parts_in_a_long_queue_are_all_counted(stage: ClusterStage) -> None:
    stage.cluster(vm_size="Standard_D2_v2", max_nodes=4, strict=True)
    for _ in range(autoscaler.FIRST_WAITING):
        stage.submit(cpus=0.02, memory_mb=1)
    stage.submit(cpus=2, memory_mb=1)
    stage.scale()
    assert len(stage.started) == autoscaler.FIRST_WAITING + 1 and stage.states() == ["ready", "ready"]


def test_targets_of_one_computer_account_together(stage: ClusterStage) -> None:
    """Four cores: `local` takes one for each of its four slots, a strict node takes two."""
    stage.cluster(vm_size="Standard_D2_v2", max_nodes=2, strict=True)
    local = [stage.submit("local") for _ in range(3)]
    run = stage.submit()
    stage.scale()
    assert run not in stage.started
    assert stage.message(run) == "the computer is in use: 2 cores needed, 1 of 4 free"
    last = stage.submit("local")
    assert last not in stage.started  # what the cluster's run waits for is reserved
    stage.end(local[0])
    assert run in stage.started and last not in stage.started
    stage.end(run)
    assert last in stage.started


def test_devices_are_never_given_twice(store: Store) -> None:
    stage = ClusterStage(store, gpus=2)
    stage.cluster(vm_size="Standard_NC6", max_nodes=2)
    first, second = stage.submit("local", gpus=1, cpus=0.1), stage.submit()
    stage.scale()
    third = stage.submit("local", gpus=1)
    given = [share.gpus for run in (first, second) for share in stage.started[run].allocation.shares]
    assert given == [(0,), (1,)] and third not in stage.started
    assert "1 GPUs needed, 0 of 2 free" in stage.message(third)


def test_a_parent_lends_its_node_to_its_children(stage: ClusterStage) -> None:
    stage.cluster(max_nodes=1)
    parent = stage.submit()
    stage.scale()
    child = stage.submit(parent=parent)
    assert child in stage.started
    assert stage.started[child].allocation == stage.started[parent].allocation


def test_a_dedicated_run_evicts_the_newest_node_of_low_priority(stage: ClusterStage) -> None:
    stage.cluster("spot", vm_size="Standard_D2_v2", vm_priority="lowpriority", max_nodes=2, strict=True)
    stage.cluster("cpu", vm_size="Standard_D2_v2", max_nodes=1, strict=True)
    victims = [stage.submit("spot")]
    stage.scale("spot")
    victims.append(stage.submit("spot"))
    stage.scale("spot")
    assert set(stage.started) == set(victims)
    run = stage.submit("cpu")
    stage.scale("cpu")
    assert stage.evicted == [victims[1]] and run not in stage.started
    stage.scale("cpu")
    assert stage.evicted == [victims[1]]  # one is enough
    assert stage.states("spot") == ["ready", "preempted"]
    stage.end(victims[1])
    assert run in stage.started


def test_low_priority_evicts_nothing(stage: ClusterStage) -> None:
    stage.cluster("spot", vm_size="Standard_D4_v2", vm_priority="lowpriority", max_nodes=2, strict=True)
    with_all = ClusterStage.submit(stage, "local", cpus=4)
    run = stage.submit("spot")
    stage.scale("spot")
    assert stage.evicted == [] and run not in stage.started and with_all in stage.started


def test_simulated_eviction(stage: ClusterStage) -> None:
    stage.cluster(max_nodes=2)
    run = stage.submit()
    stage.scale()
    with pytest.raises(NotFound, match="no node other"):
        stage.scaler.evict(WORKSPACE, "cpu", "other", "a test")
    [node] = stage.scaler.evict(WORKSPACE, "cpu", None, "a test")
    assert stage.evicted == [run] and stage.states() == ["preempted"]
    [share] = stage.started[run].allocation.shares
    assert share.node == node
    stage.end(run)
    stage.scale()
    assert stage.states() == []


def test_a_node_that_is_gone_loses_its_runs(store: Store) -> None:
    source = FakeNodes()
    stage = ClusterStage(store, sources={"cpu": source})
    stage.cluster(max_nodes=2)
    run = stage.submit()
    stage.scale()
    source.made.clear()
    source.made.add("cpu-stranger")
    stage.scaler._swept.clear()
    stage.scale()
    assert stage.evicted == [run] and stage.states() == ["unusable"]
    assert source.made == set()  # what has no row is deleted


def test_thirty_cycles_on_a_source_that_fails(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 % of the calls fail, 5 % fail although they were carried out: nothing leaks, and the maximum holds."""
    monkeypatch.setattr(autoscaler, "FIRST_RETRY", 0.0)
    monkeypatch.setattr(autoscaler, "SWEEP_EVERY", 0.0)
    source = FakeNodes(0.05, 0.05, seed=7)
    stage = ClusterStage(store, cores=8, sources={"cpu": source})
    stage.cluster(vm_size="Standard_D1_v2", max_nodes=4, idle_seconds_before_scaledown=0)
    for _ in range(30):
        runs = [stage.submit() for _ in range(4)]
        while set(runs) - set(stage.started):
            stage.scale()
        for run in runs:
            stage.end(run)
        while stage.states():
            stage.scale()
    assert source.most == 4 and source.made == set()


def test_small_runs_fill_a_node(stage: ClusterStage) -> None:
    stage.cluster(vm_size="Standard_D1_v2", max_nodes=1, strict=True)
    runs = [stage.submit(cpus=0.1, memory_mb=10) for _ in range(12)]
    stage.scale()
    assert set(stage.started) == set(runs[:10])


def test_a_round_says_whether_it_changed_anything(stage: ClusterStage) -> None:
    stage.cluster(vm_size="Standard_D1_v2", max_nodes=1)
    run = stage.submit()
    assert stage.scaler.scale(WORKSPACE, "cpu")
    stage.submit()
    assert not stage.scaler.scale(WORKSPACE, "cpu")
    assert not stage.scaler.scale(WORKSPACE, "local") and not stage.scaler.scale(WORKSPACE, "gone")
    assert set(stage.started) == {run}


def test_a_cluster_for_one_run_whose_run_never_comes_is_deleted(stage: ClusterStage) -> None:
    """Its client died between the two requests."""
    stage.cluster("one", for_run=True)
    stage.scale("one")
    assert stage.store.targets.get(WORKSPACE, "one").provisioning_state == "Succeeded"
    stage.store.targets.update(WORKSPACE, "one", created_at=datetime.now(UTC) - SUBMIT_PATIENCE)
    stage.scale("one")
    assert stage.store.targets.get(WORKSPACE, "one").provisioning_state == "Deleting"


def test_a_cluster_for_one_run_waits_for_its_own_run(stage: ClusterStage) -> None:
    """Not for that of an earlier cluster of its name."""
    stage.cluster("one", for_run=True)
    run = stage.submit("one")
    stage.scale("one")
    stage.end(run)
    stage.store.targets.update(WORKSPACE, "one", created_at=datetime.now(UTC))  # as if it were created anew
    stage.scale("one")
    assert stage.store.targets.get(WORKSPACE, "one").provisioning_state == "Succeeded"
    stage.end(stage.submit("one"))
    stage.scale("one")
    assert stage.store.targets.get(WORKSPACE, "one").provisioning_state == "Deleting"
