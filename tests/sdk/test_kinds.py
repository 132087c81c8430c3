"""Targets of kinds that Azure does not have, from Python: attached and created by what their drivers declare."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.fake_kinds import FARMS, POTS, FakeBackend, FakeFarm, kinds
from tests.server.real import real_server
from windlass import (
    ComputeTarget,
    ComputeTargetException,
    KindAttachConfiguration,
    KindProvisioningConfiguration,
    Workspace,
)

__all__ = ["kinds"]


@pytest.fixture
def ws(kinds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    for name in [name for name in os.environ if name.startswith(("WINDLASS_", "AZUREML_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    with real_server(tmp_path / "home") as server:
        monkeypatch.setenv("WINDLASS_URL", server.url)
        monkeypatch.setenv("WINDLASS_TOKEN", server.token)
        yield Workspace.from_config()


def test_a_target_is_attached_checked_updated_trusted_and_detached(
    ws: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    pot = POTS["kitchen"] = FakeBackend()
    configuration = KindAttachConfiguration("teapot", {"host": "kitchen"}, {"token": pot.token})
    compute = ComputeTarget.attach(ws, "pot", configuration)
    assert "pot: pinned the first certificate that kitchen showed: <certificate-1>" in capsys.readouterr().err
    compute.wait_for_completion()
    assert compute.check()["inventory"] == {"cores": 2, "taste": "green"}
    compute.update_settings(tea="black")
    compute.wait_for_completion()
    assert compute.check()["inventory"]["taste"] == "black"
    pot.certificate = "certificate-2"
    with pytest.raises(ComputeTargetException, match="shows another certificate"):
        compute.check()
    assert compute.get_status() == "Failed"
    compute.trust(compute.probe()["identity"]["pin"])
    assert compute.get_status() == "Succeeded" and compute.check()["ok"]
    with pytest.raises(ComputeTargetException, match="Delete is not supported"):
        compute.delete()
    compute.detach()
    compute.wait_for_completion(is_delete_operation=True)
    with pytest.raises(ComputeTargetException, match="ComputeTargetNotFound"):
        ComputeTarget(ws, "pot")


def test_what_is_missing_is_the_servers_own_sentence(ws: Workspace) -> None:
    with pytest.raises(ComputeTargetException, match="teapot://kitchen needs a token"):
        ComputeTarget.attach(ws, "pot", KindAttachConfiguration("teapot", {"host": "kitchen"}))


def test_a_target_is_created_updated_and_deleted(ws: Workspace) -> None:
    farm = FARMS["acre"] = FakeFarm()
    compute = ComputeTarget.create(ws, "acre", KindProvisioningConfiguration("farm", {"nodes": 2}))
    assert compute.provisioning_state == "Creating"
    compute.wait_for_completion()
    assert [node["id"] for node in compute.nodes()] == ["n0", "n1"]
    compute.update_settings(nodes=3)
    compute.wait_for_completion()
    assert len(compute.nodes()) == 3
    compute.delete()
    compute.wait_for_completion(is_delete_operation=True)
    assert farm.nodes == 0
