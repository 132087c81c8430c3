"""Clusters by the SDK, against a real server: Azure's snippet, a cluster for one run, its limits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from windlass import (
    AmlCompute,
    ComputeTarget,
    ComputeTargetException,
    Experiment,
    RunConfiguration,
    ScriptRunConfig,
    Workspace,
)
from windlass.client.submit.run_cluster import RunCluster
from windlass.core.errors import InvalidRequest, NotFound, WindlassError


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text("print('trained')\n")
    return str(tmp_path)


def once(source: str, **amlcompute: Any) -> ScriptRunConfig:
    config = RunConfiguration()
    config.target = "amlcompute"
    config.environment.python.user_managed_dependencies = True
    for name, value in amlcompute.items():
        setattr(config.amlcompute, name, value)
    return ScriptRunConfig(source, "train.py", run_config=config)


def test_the_snippet_of_the_documents(ws: Workspace, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ComputeTargetException):
        ComputeTarget(ws, "cpu-cluster")
    config = AmlCompute.provisioning_configuration(
        vm_size="STANDARD_D2_V2", max_nodes=1, idle_seconds_before_scaledown=2400
    )
    cluster = ComputeTarget.create(ws, "cpu-cluster", config)
    cluster.wait_for_completion(show_output=True)
    assert "Minimum number of nodes requested have been provisioned" in capsys.readouterr().out
    run = Experiment(ws, "snippet").submit(ScriptRunConfig(source, "train.py", compute_target="cpu-cluster"))
    run.wait_for_completion()
    status = cluster.get_status().serialize()
    assert status["currentNodeCount"] == 1 and status["vmSize"] == "STANDARD_D2_V2"
    assert status["scaleSettings"]["nodeIdleTimeBeforeScaleDown"] == "PT2400S"
    assert isinstance(cluster, AmlCompute) and len(cluster.list_nodes()) == 1
    usage = {each["name"]["value"]: each["currentValue"] for each in AmlCompute.list_usages(ws)}
    assert usage["standardDv2Family"] == 2
    cluster.delete()
    cluster.wait_for_completion(is_delete_operation=True)


def test_a_cluster_is_made_for_one_run_and_goes_after_it(ws: Workspace, source: str) -> None:
    run = Experiment(ws, "once").submit(once(source, vm_size="STANDARD_D2_V2"))
    target = run.wait_for_completion()["target"]
    assert target == f"run-{run.id[-8:]}"
    deadline = time.monotonic() + 60
    while target in ws.compute_targets:
        assert time.monotonic() < deadline, "its cluster stays"
        time.sleep(0.1)


def test_a_cluster_that_is_retained_is_used_again(ws: Workspace, source: str) -> None:
    config = once(source, vm_size="STANDARD_D2_V2", retain_cluster=True, name="kept-cluster", cluster_max_node_count=2)
    for _ in range(2):
        assert Experiment(ws, "kept").submit(config).wait_for_completion()["target"] == "kept-cluster"
    kept = ComputeTarget(ws, "kept-cluster")
    assert isinstance(kept, AmlCompute) and kept.scale_settings.maximum_node_count == 2
    kept.delete()


@pytest.mark.parametrize(
    ("section", "nodes", "text"),
    [
        ({}, 1, "whose VM size is not given"),
        ({"vmSize": "STANDARD_D2_V2", "clusterMaxNodeCount": 2}, 3, "cluster_max_node_count is 2, and the run needs 3"),
        ({"vmSize": "STANDARD_D2_V2", "name": "no name"}, 1, "A target's name has"),
    ],
)
def test_its_limits_are_said(section: dict[str, Any], nodes: int, text: str) -> None:
    spec = {"definition": {"amlcompute": section}, "resources": {"nodes": nodes}}
    with pytest.raises(InvalidRequest, match=text):
        RunCluster(spec, "demo_1_00000001")


def test_a_cluster_whose_run_is_refused_is_deleted_again(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, str]] = []

    def ask(method: str, path: str, body: dict[str, Any] | None) -> Any:
        asked.append((method, path))
        if method == "GET":
            raise NotFound("There is none.")
        if method == "DELETE":
            raise WindlassError("It is busy.")
        return {}

    cluster = RunCluster({"definition": {"amlcompute": {"vmSize": "d2_v2"}}}, "demo_1_0000000a")
    with pytest.raises(ValueError, match="refused"), cluster.created(ask):
        raise ValueError("refused")
    assert asked == [("GET", "/targets/run-0000000a"), ("POST", "/targets"), ("DELETE", "/targets/run-0000000a")]
    assert capsys.readouterr().err == "Warning: the cluster run-0000000a is left: It is busy.\n"
