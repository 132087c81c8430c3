"""RemoteCompute.attach_configuration: contradictions are refused with Azure's texts, before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.client.compute.test_target import W, attachable, config, sent
from windlass import AmlCompute, ComputeTarget, ComputeTargetException, DsvmCompute, RemoteCompute, UserErrorException
from windlass.core.errors import LoginRefused, ServerUnavailable

USERNAME = "username is not provided."
WHERE = (
    "Please provide subscription_id, resource_group, vm_name or provide resource_id or address for virtual machine "
    "being attached."
)
VM = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/v"
OTHER = VM.replace("Compute", "Web")
ALL = {"subscription_id": "s", "resource_group": "g", "vm_name": "v"}
IF = "If subscription_id, resource_group, vm_name are provided, please do not provide"
CONNECTION: dict[str, Any] = {
    "name": "lab",
    "kind": "vm",
    "subscription_id": "",
    "resource_group": "g",
    "resource_name": "v",
    "config": {"address": "10.0.0.9", "port": 2222},
}
MISMATCH = "Invalid resource_id provided, resource type Microsoft.Web does not match for virtual machine"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"username": "", "address": "a"}, USERNAME),
        ({"username": None, "address": "a"}, USERNAME),
        ({}, WHERE),
        ({"subscription_id": "s", "resource_group": "g"}, WHERE),
        ({**ALL, "address": "a"}, f"{IF} address."),
        ({**ALL, "resource_id": VM}, f"{IF} resource_id."),
        ({"resource_id": "/a/b"}, "Invalid resource_id provided: /a/b"),
        ({"resource_id": OTHER}, MISMATCH),
        ({"resource_id": VM, "address": "a"}, "Since resource_id is provided, please do not provide address."),
        *(
            ({"resource_id": VM, name: "x"}, f"Since resource_id is provided, please do not provide {name}.")
            for name in ALL
        ),
        *(({"address": "a", name: "x"}, f"Since address is provided, please do not provide {name}.") for name in ALL),
    ],
)
def test_what_does_not_go_together_is_said_in_azures_words(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ComputeTargetException) as caught:
        RemoteCompute.attach_configuration(**{"username": "jane", **given})
    assert caught.value.message == message


@pytest.mark.parametrize("given", [ALL, {"resource_id": VM}, {"resource_id": VM.replace("/g/", "/G/")}])
def test_a_machine_that_is_named_by_its_resource_is_found_through_a_connection(given: dict[str, Any]) -> None:
    ws, session = attachable()
    session.answers[f"GET {W}/connections"] = {"connections": [{**CONNECTION, "resource_group": "G"}]}
    ComputeTarget.attach(ws, "box", RemoteCompute.attach_configuration("jane", password="x", **given))
    assert (sent(session)["config"]["address"], sent(session)["config"]["port"]) == ("10.0.0.9", 2222)
    other_port = RemoteCompute.attach_configuration("jane", password="x", ssh_port=2200, **given)
    session.asked.clear()
    ComputeTarget.attach(ws, "box", other_port)
    assert sent(session)["config"]["port"] == 2200, "a port that was given counts"
    assert sent(session)["config"].get("resource_id") == given.get("resource_id")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (ALL, "--resource-group g --vm-name v --subscription s"),
        ({**ALL, "vm_name": "my vm"}, "--resource-group g --vm-name 'my vm' --subscription s"),
        ({"resource_id": VM}, f"--resource-id {VM}"),
    ],
)
def test_without_a_connection_the_line_that_adds_it_is_said(given: dict[str, Any], line: str) -> None:
    ws, session = attachable()
    session.answers[f"GET {W}/connections"] = {"connections": [{**CONNECTION, "resource_name": "other"}]}
    with pytest.raises(ComputeTargetException) as caught:
        ComputeTarget.attach(ws, "box", RemoteCompute.attach_configuration("jane", password="x", **given))
    assert caught.value.message.endswith(f"add one: windlass connection add vm NAME {line} --address HOST")
    assert not [asked for asked, *_ in session.asked if asked.startswith("POST")], "nothing is sent"


NEITHER = "Error, no password or key information provided. Please provide either a password or key information."
BOTH = (
    "Invalid attach information, both password and key information provided. Please provide either a password or key "
    "information"
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"password": ""}, NEITHER),
        ({"password": None, "private_key_file": None}, NEITHER),
        ({"private_key_file": __file__}, BOTH),
        ({"ssh_port": None}, "Error, missing ssh-port."),
        ({"ssh_port": "abc"}, "ssh_port is a number from 1 to 65535, not 'abc'."),
        ({"ssh_port": 65536}, "ssh_port is a number from 1 to 65535, not 65536."),
        (
            {"password": "", "private_key_file": "/no/such/key"},
            "Error while reading key information:\n"
            "FileNotFoundError: [Errno 2] No such file or directory: '/no/such/key'",
        ),
    ],
)
def test_how_to_be_let_in_must_be_clear(changes: dict[str, Any], message: str) -> None:
    ws, session = attachable()
    with pytest.raises(ComputeTargetException) as caught:
        ComputeTarget.attach(ws, "box", config(**changes))
    assert caught.value.message == message
    assert not [asked for asked, *_ in session.asked if asked.startswith("POST")], "nothing is sent"


@pytest.mark.parametrize(
    ("given", "host", "port"),
    [
        ({"address": "gpu.lab:2222"}, "gpu.lab", 2222),
        ({"address": "gpu.lab:2222", "ssh_port": "2222"}, "gpu.lab", 2222),
        ({"address": "[fd00::7]:2222"}, "fd00::7", 2222),
        ({"address": "fd00::7", "ssh_port": 2222}, "fd00::7", 2222),
    ],
)
def test_an_address_may_have_its_port_with_it(given: dict[str, Any], host: str, port: int) -> None:
    ws, session = attachable()
    ComputeTarget.attach(ws, "box", config(**given))
    assert (sent(session)["config"]["address"], sent(session)["config"]["port"]) == (host, port)


def test_two_ports_are_refused() -> None:
    with pytest.raises(ComputeTargetException, match="address names port 2222, and ssh_port 2200"):
        config(address="gpu.lab:2222", ssh_port=2200)


def test_a_key_may_be_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("the key\n")
    ws, session = attachable()
    ComputeTarget.attach(ws, "box", config(password="", private_key_file="~/key"))
    assert sent(session)["credentials"] == {"private_key": "the key\n"}


def test_what_the_machine_refuses_is_a_compute_target_exception_with_the_line_that_helps() -> None:
    ws, _ = attachable(LoginRefused("box does not let us in: Permission denied (password).", "Check the password."))
    with pytest.raises(ComputeTargetException) as caught:
        ComputeTarget.attach(ws, "box", config())
    assert caught.value.message == "box does not let us in: Permission denied (password).\nCheck the password."
    assert isinstance(caught.value.inner_exception, LoginRefused)
    assert "hunter2" not in str(caught.value)


def test_that_there_is_no_server_stays_what_it_is() -> None:
    ws, _ = attachable(ServerUnavailable("no server there"))
    with pytest.raises(ServerUnavailable):
        ComputeTarget.attach(ws, "box", config())


@pytest.mark.parametrize("name", ["amlcompute", "local", "containerinstance", "docker"])
def test_some_names_are_reserved(name: str) -> None:
    ws, session = attachable()
    size = AmlCompute.provisioning_configuration(max_nodes=1)
    for attempt, configuration in ((ComputeTarget.attach, config()), (ComputeTarget.create, size)):
        with pytest.raises(UserErrorException) as caught:
            attempt(ws, name, configuration)
        assert caught.value.message == f"Please specify a different target name. {name} is a reserved name."
    assert not session.asked


def test_what_is_no_configuration_is_refused() -> None:
    ws, _ = attachable()
    with pytest.raises(UserErrorException, match="attach_configuration"):
        ComputeTarget.attach(ws, "box", {"address": "10.0.0.7"})
    with pytest.raises(UserErrorException, match="provisioning_configuration"):
        ComputeTarget.create(ws, "box", config())


def test_the_old_way_to_attach_says_what_to_write_instead() -> None:
    ws, _ = attachable()
    with pytest.raises(ComputeTargetException, match="This method is DEPRECATED. Please use the following") as caught:
        RemoteCompute.attach(ws, "box", "jane", "10.0.0.7", ssh_port=22, password="x")
    assert caught.value.message.endswith("compute = ComputeTarget.attach(workspace, name, attach_config)")


def test_machines_are_not_made() -> None:
    ws, session = attachable()
    configuration = DsvmCompute.provisioning_configuration(vm_size="Standard_D2_v2", ssh_port="5022")
    assert configuration.vm_size == "Standard_D2_v2"
    with pytest.raises(ComputeTargetException) as caught:
        ComputeTarget.create(ws, "box", configuration)
    assert caught.value.message == (
        "Creating a virtual machine is not provided in this version, as the server has no driver for targets of kind "
        "dsvm; use RemoteCompute.attach_configuration(address=...) for a machine that is there."
    )
    with pytest.raises(ComputeTargetException, match="ssh_port"):
        DsvmCompute.provisioning_configuration(ssh_port=-1)
