"""Attaching machines from Python: the lines of Azure's documents, on real machines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.hosts.host import Host
from tests.hosts.network import Network
from windlass import (
    ComputeTarget,
    ComputeTargetException,
    Connection,
    Experiment,
    RemoteCompute,
    ScriptRunConfig,
    Workspace,
)


@pytest.fixture
def machine(network: Network) -> Host:
    return network.host("gpu-box")


@pytest.fixture
def ws(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    for name in [name for name in os.environ if name.startswith(("WINDLASS_", "AZUREML_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WINDLASS_HOME", str(shell.home))
    monkeypatch.chdir(tmp_path)
    yield Workspace.from_config()


def test_the_lines_of_the_documents(
    ws: Workspace, machine: Host, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attach_config = RemoteCompute.attach_configuration(
        address=machine.address, ssh_port=22, username=machine.user, password=machine.password
    )
    compute = ComputeTarget.attach(ws, "attach-dsvm", attach_config)
    pinned = capsys.readouterr().err
    assert "pinned the first host key" in pinned and "SHA256:" in pinned and machine.password not in pinned
    compute.wait_for_completion(show_output=True)
    assert capsys.readouterr().out == 'SucceededProvisioning operation finished, operation "Succeeded"\n'
    assert type(compute) is RemoteCompute and compute.get_status() == "Succeeded"
    assert compute.name in ws.compute_targets and type(ws.compute_targets["attach-dsvm"]) is RemoteCompute
    source = ScriptRunConfig(source_directory=str(project), script="train.py", compute_target=compute)
    run = Experiment(ws, "remote").submit(source)
    run.wait_for_completion(show_output=True)
    assert "hello from gpu-box" in capsys.readouterr().out
    compute.detach()
    with pytest.raises(ComputeTargetException, match="ComputeTargetNotFound"):
        ComputeTarget(ws, "attach-dsvm")


def test_what_goes_wrong_is_azures_exception_and_leaves_nothing(ws: Workspace, machine: Host) -> None:
    wrong = RemoteCompute.attach_configuration(address=machine.address, username=machine.user, password="wrong")
    with pytest.raises(ComputeTargetException) as caught:
        ComputeTarget.attach(ws, "box", wrong)
    assert "does not let us in" in caught.value.message
    assert "box" not in ws.compute_targets


def test_attached_again_it_has_the_new_credentials(ws: Workspace, network: Network, machine: Host) -> None:
    by_key = RemoteCompute.attach_configuration(
        address=machine.address, username=machine.user, private_key_file=str(network.folder / "key")
    )
    by_password = RemoteCompute.attach_configuration(
        address=machine.address, username=machine.user, password=machine.password
    )
    ComputeTarget.attach(ws, "box", by_key)
    again = ComputeTarget.attach(ws, "box", by_password)
    again.wait_for_completion()
    assert isinstance(again, RemoteCompute) and again.address == machine.address


def test_another_machine_in_its_place_is_not_taken_for_it(ws: Workspace, network: Network, machine: Host) -> None:
    def attach(host: Host) -> ComputeTarget:
        config = RemoteCompute.attach_configuration(address=host.address, username=host.user, password=host.password)
        return ComputeTarget.attach(ws, "box", config)

    attach(machine)
    other = network.replace(machine)
    with pytest.raises(ComputeTargetException, match="not the one that is expected"):
        attach(other)
    assert "Accepted" not in other.log and "Failed" not in other.log


def test_a_colleague_uses_the_target_and_reads_no_secret(ws: Workspace, machine: Host) -> None:
    config = RemoteCompute.attach_configuration(
        address=machine.address, username=machine.user, password=machine.password
    )
    ComputeTarget.attach(ws, "box", config)
    found = ComputeTarget(ws, "box")
    assert isinstance(found, RemoteCompute)
    assert machine.password not in repr(found) + str(found.serialize()) + str(found.get_credentials())
    assert found.get_credentials()["administratorAccount"]["username"] == machine.user


def test_a_machine_that_is_named_by_its_resource_is_reached_by_its_connection(ws: Workspace, machine: Host) -> None:
    vm = "/subscriptions/s/resourceGroups/lab/providers/Microsoft.Compute/virtualMachines/gpu"
    config = RemoteCompute.attach_configuration(machine.user, resource_id=vm, password=machine.password)
    with pytest.raises(ComputeTargetException, match="windlass connection add vm NAME --resource-id /subscriptions/s/"):
        ComputeTarget.attach(ws, "box", config)
    added = Connection.add(ws, "gpu-vm", "vm", resource_group="LAB", resource_name="GPU", address=machine.address)
    try:
        attached = ComputeTarget.attach(ws, "box", config)
    finally:
        added.remove()
    assert isinstance(attached, RemoteCompute) and attached.address == machine.address
    assert attached.get_status() == "Succeeded", "the target has its address, and needs the connection no longer"
