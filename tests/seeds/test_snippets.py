"""The documents' Python snippets, executed as they stand: `azureml` is imported, `ws` is the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hosts.host import Host
from tests.seeds.items import ITEMS
from windlass import ComputeTarget, ComputeTargetException, Environment, RemoteCompute, Run, Workspace


def execute(at: str, ws: Workspace, /, *, given: tuple[str, Any] | None = None, **facts: str) -> dict[str, Any]:
    """Run a snippet of the table. Returns its variables."""
    namespace = {"ws": ws, **dict([given] if given else [])}
    exec(compile(ITEMS[at].text(**facts), f"document {at}", "exec"), namespace)
    return namespace


def test_a_machine_is_attached(ws: Workspace, machine: Host, capsys: pytest.CaptureFixture[str]) -> None:
    found = execute("1:81", ws, address=machine.address, user=machine.user, password=machine.password)
    assert capsys.readouterr().out.endswith('Provisioning operation finished, operation "Succeeded"\n')
    assert type(found["compute"]) is RemoteCompute
    assert type(ComputeTarget(ws, "attached-vm")) is RemoteCompute


def test_targets_are_found_and_listed(ws: Workspace) -> None:
    assert execute("5:13", ws)["target"].name == "local"
    listed = execute("5:22", ws)["targets"]
    assert {"local", "docker"} <= {target.name for target in listed}
    assert all(isinstance(target, ComputeTarget) for target in listed)


MADE = {"1:58": "cpu_cluster", "1:99": "databricks_compute", "1:126": "adla_compute", "1:177": "batch_compute",
        "3:52": "aks_target", "3:119": "cpu_cluster", "5:72": "cpu_cluster"}  # fmt: skip


@pytest.mark.parametrize("at", MADE)
def test_a_kind_that_may_be_missing(ws: Workspace, kinds: set[str], at: str) -> None:
    """Once the server has the kind, the snippet must succeed."""
    if ITEMS[at].kind in kinds:
        made = execute(at, ws)[MADE[at]]
        assert made.name in ws.compute_targets and made.provisioning_state == "Succeeded"
        return
    before = set(ws.compute_targets)
    with pytest.raises(ComputeTargetException) as caught:
        execute(at, ws)
    assert caught.value.message == ITEMS[at].error
    assert set(ws.compute_targets) == before


def test_hdinsight(ws: Workspace, kinds: set[str], machine: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """The snippet goes on after a ComputeTargetException that it has printed, and then lacks its variable."""

    def attach() -> dict[str, Any]:
        return execute("1:153", ws, address=machine.address, user=machine.user, password=machine.password)

    if "spark" in kinds:
        assert attach()["hdi_compute"].provisioning_state == "Succeeded"
        return
    with pytest.raises(NameError, match="hdi_compute"):
        attach()
    assert capsys.readouterr().out == f"Caught = {ITEMS['1:153'].error}\n"
    assert "hdi-box" not in ws.compute_targets


@pytest.mark.parametrize(
    ("at", "attaching", "name"), [("3:76", "3:52", "aks_target"), ("3:144", "3:119", "cpu_cluster")]
)
def test_training_on_a_target(
    ws: Workspace, kinds: set[str], project: Path, at: str, attaching: str, name: str
) -> None:
    """On `local`, as long as the kind is missing. What the curated environment installs is not waited for."""
    (project / "notebook-scripts").mkdir()
    (project / "notebook-scripts" / "train.py").write_text("print('trained')\n")
    target = execute(attaching, ws)[name] if ITEMS[at].kind in kinds else ComputeTarget(ws, "local")
    found = execute(at, ws, given=(name, target))
    run = found["run"]
    assert isinstance(run, Run) and isinstance(found["myenv"], Environment)
    run.cancel()
    assert (run.experiment.name, run.get_details()["target"]) == ("aks_vs_amlcompute", target.name)
