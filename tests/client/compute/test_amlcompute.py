"""Clusters in the SDK: Azure's checks and texts, and the requests to a server with the kind `cluster`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.fake import FakeSession
from tests.client.compute.test_target import BOX, W, attachable, sent, states, workspace
from windlass import (
    AmlCompute,
    AmlComputeStatus,
    BatchAiCompute,
    ComputeTarget,
    ComputeTargetException,
    NotProvided,
    ScaleSettings,
)
from windlass.client.compute import amlcompute

SETTINGS = {"vm_size": "STANDARD_D2_V2", "vm_priority": "lowpriority", "min_nodes": 1, "max_nodes": 4}
CLUSTER: dict[str, Any] = {
    **BOX,
    "kind": "cluster",
    "is_attached": False,
    "config": {**SETTINGS, "idle_seconds_before_scaledown": 300},
    "nodes": {"idle": 1, "running": 2},
    "target_nodes": 4,
}
INVALID = "Invalid provisioning configuration,"
NO_LOGIN = (
    "Invalid user credentials, no password or key information provided. Please provide either a password or SSH key "
    "information."
)
NO_IDS = "Invalid configuration, identity_id cannot be set when identity type is not user assigned."
ACCOUNT = (
    "Invalid user credentials, admin username must be provided along with either a password or SSH key information."
)
NET = (
    "Invalid configuration, not all virtual net information provided. To use a custom virtual net, please provide vnet "
    "name, vnet resource group and subnet name"
)


def cluster(*found: Any) -> tuple[AmlCompute, FakeSession]:
    """A created cluster on a fake server with these answers about it."""
    ws, session = workspace(**{f"GET {W}/targets/box": CLUSTER})
    made = ComputeTarget(ws, "box")
    assert type(made) is AmlCompute
    if found:
        session.answers[f"GET {W}/targets/box"] = states(*({**CLUSTER, **each} for each in found))
    return made, session


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, f"{INVALID} max nodes count is mandatory"),
        ({"max_nodes": -1}, f"{INVALID} max nodes count must be greater than or equal to 0"),
        ({"max_nodes": 1, "min_nodes": -1}, f"{INVALID} min nodes count must be greater than or equal to 0"),
        (
            {"max_nodes": 1, "min_nodes": 2},
            f"{INVALID} max nodes count must be greater than or equal to min nodes count",
        ),
        ({"max_nodes": "4"}, f"{INVALID} max nodes count must be a whole number, not '4'"),
        ({"max_nodes": 1, "admin_username": "jane"}, NO_LOGIN),
        ({"max_nodes": 1, "admin_user_password": "Secret-1"}, ACCOUNT),
        ({"max_nodes": 1, "admin_user_ssh_key": "ssh-ed25519 AAAA"}, ACCOUNT),
        ({"max_nodes": 1, "vnet_name": "n"}, NET),
        ({"max_nodes": 1, "vnet_name": "n", "subnet_name": "s"}, NET),
        (
            {"max_nodes": 1, "identity_type": "Mine"},
            "Invalid configuration, identity_type must be set to 'UserAssigned' or 'SystemAssigned'.",
        ),
        ({"max_nodes": 1, "identity_type": "SystemAssigned", "identity_id": ["a"]}, NO_IDS),
        ({"max_nodes": 1, "identity_id": ["a"]}, NO_IDS),
        (
            {"max_nodes": 1, "identity_type": "UserAssigned"},
            "Invalid configuration, please pass the identity_id of the user assigned identity as a list "
            "(eg. ['resource_ID1','resourceID2',...])",
        ),
        ({"max_nodes": 1, "vm_priority": "high"}, "vm_priority must be 'dedicated' or 'lowpriority', not 'high'"),
        (
            {"max_nodes": 1, "idle_seconds_before_scaledown": "soon"},
            "idle_seconds_before_scaledown is a number of seconds, such as 1800, not 'soon'",
        ),
    ],
)
def test_what_cannot_be_a_cluster_is_said_in_azures_words(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ComputeTargetException) as caught:
        AmlCompute.provisioning_configuration(**given)
    assert caught.value.message == message


def test_a_password_has_three_sorts_of_characters() -> None:
    for password in ("secret_1A", "Secret1", "Secret_word"):
        AmlCompute.provisioning_configuration(max_nodes=1, admin_username="jane", admin_user_password=password)
    with pytest.raises(ComputeTargetException) as caught:
        AmlCompute.provisioning_configuration(max_nodes=1, admin_username="jane", admin_user_password="secret1")
    assert caught.value.message == (
        "Invalid admin user password provided. The admin user password must have 3 of the following: 1 lowercase "
        "character, 1 uppercase character, 1 number, and 1 special character `~!@#$%^&*()=+_[]{}|;:./'\",<>?"
    )


def test_batch_ais_names_for_the_nodes() -> None:
    config = BatchAiCompute.provisioning_configuration(
        vm_size="STANDARD_D2_V2", autoscale_enabled=True, cluster_min_nodes=1, cluster_max_nodes=4
    )
    assert (config.min_nodes, config.max_nodes) == (1, 4)
    with pytest.raises(ComputeTargetException, match="must be provided and equal when autoscale is False"):
        BatchAiCompute.provisioning_configuration(
            vm_size="STANDARD_D2_V2", autoscale_enabled=False, cluster_min_nodes=1, cluster_max_nodes=4
        )


@pytest.mark.parametrize("idle", [300, "300"])
def test_idle_seconds_are_a_number_or_its_text(idle: Any) -> None:
    config = AmlCompute.provisioning_configuration(max_nodes=4, idle_seconds_before_scaledown=idle)
    described = config.scale_settings.serialize()
    assert described == {"minNodeCount": 0, "maxNodeCount": 4, "nodeIdleTimeBeforeScaleDown": "PT300S"}
    again = ScaleSettings.deserialize(described)
    assert again is not None and again.idle_seconds_before_scaledown == 300


@pytest.mark.parametrize(
    ("text", "idle"), [("PT5M", 300), ("PT1H30S", 3630), ("P1D", None), ("PT", None), (None, None)]
)
def test_other_durations_are_read(text: str, idle: int | None) -> None:
    found = ScaleSettings.deserialize({"minNodeCount": 0, "nodeIdleTimeBeforeScaleDown": text})
    assert found is not None and found.idle_seconds_before_scaledown == idle


def test_while_the_server_has_no_clusters_that_is_said_and_nothing_is_sent() -> None:
    ws, session = attachable()
    with pytest.raises(ComputeTargetException) as caught:
        ComputeTarget.create(ws, "cpu", AmlCompute.provisioning_configuration(max_nodes=4))
    assert caught.value.message == (
        "Creating a cluster is not provided in this version, as the server has no driver for targets of kind cluster; "
        "use the target local, or a machine attached with RemoteCompute.attach_configuration(address=...)."
    )
    assert [asked for asked, *_ in session.asked] == [f"GET {W}/kinds"]


def test_what_is_sent_once_the_server_has_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    ws, session = attachable(CLUSTER, "cluster")
    config = AmlCompute.provisioning_configuration(
        vm_size="STANDARD_D2_V2",
        max_nodes=4,
        idle_seconds_before_scaledown="2400",
        admin_username="jane",
        admin_user_password="Secret-1",
        tags={"team": "a"},
    )
    made = ComputeTarget.create(ws, "box", config)
    assert type(made) is AmlCompute is BatchAiCompute
    assert sent(session) == {
        "name": "box",
        "kind": "cluster",
        "config": {
            "vm_size": "STANDARD_D2_V2",
            "vm_priority": "dedicated",
            "min_nodes": 0,
            "max_nodes": 4,
            "idle_seconds_before_scaledown": 2400,
            "admin_username": "jane",
            "tags": {"team": "a"},
        },
        "credentials": {"admin_user_password": "Secret-1"},
        "exist_ok": True,
    }
    assert capsys.readouterr().err == ""


def test_the_status_has_azures_words() -> None:
    made, _ = cluster()
    status = made.get_status()
    assert status is not None
    described = status.serialize()
    assert described == {
        "currentNodeCount": 3,
        "targetNodeCount": 4,
        "nodeStateCounts": {
            "preparingNodeCount": 0,
            "runningNodeCount": 2,
            "idleNodeCount": 1,
            "unusableNodeCount": 0,
            "leavingNodeCount": 0,
            "preemptedNodeCount": 0,
        },
        "allocationState": "Steady",
        "allocationStateTransitionTime": None,
        "errors": None,
        "creationTime": "2026-01-31T12:00:00+00:00",
        "modifiedTime": "2026-01-31T12:00:00+00:00",
        "provisioningState": "Succeeded",
        "provisioningStateTransitionTime": None,
        "scaleSettings": {"minNodeCount": 1, "maxNodeCount": 4, "nodeIdleTimeBeforeScaleDown": "PT300S"},
        "vmPriority": "LowPriority",
        "vmSize": "STANDARD_D2_V2",
    }
    again = AmlComputeStatus.deserialize(described)
    assert again is not None and again.serialize() == described
    assert AmlComputeStatus.deserialize(None) is None


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("Creating", "AmlCompute is getting created. Consider calling wait_for_completion() first\n\n"),
        ("Failed", "AmlCompute is in a failed state, try deleting and recreating\n\n"),
    ],
)
def test_before_it_is_there_it_has_no_status(state: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = cluster({"provisioning_state": state})
    assert made.get_status() is None
    assert capsys.readouterr().out == text


# waiting

FINISHED = "AmlCompute wait for completion finished\n\n"
READY = "Minimum number of nodes requested have been provisioned\n"


def test_waiting_for_one_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = cluster()
    made.wait_for_completion(show_output=True)
    assert capsys.readouterr().out == f"Succeeded\n{FINISHED}{READY}"
    made.wait_for_completion(show_output=False, min_node_count=None, timeout_in_minutes=20)
    assert capsys.readouterr() == ("", "")


def test_waiting_for_one_that_is_created(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = cluster({"provisioning_state": "Creating", "nodes": {}}, {})
    made.wait_for_completion(show_output=True)
    assert capsys.readouterr().out == f"Creating\nSucceeded\n{FINISHED}{READY}"


def test_waiting_for_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    preparing = {"nodes": {"preparing": 3}}
    made, _ = cluster(preparing, preparing, {"nodes": {"idle": 2, "preparing": 1}}, {"nodes": {"idle": 3}})
    made.wait_for_completion(show_output=True, min_node_count=3)
    assert capsys.readouterr().out == (
        "Succeeded\nWaiting for cluster to scale. 0 out of 3 nodes ready.."
        f"\nWaiting for cluster to scale. 2 out of 3 nodes ready.\nSucceeded\n{FINISHED}{READY}"
    )


TIMEOUT = (
    "Wait timeout has been reached\n"
    'Current provisioning state of AmlCompute is "Succeeded" and current node count is "0"\n'
)


def test_nodes_that_do_not_come_in_time_are_not_said_to_have(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = cluster({"nodes": {"preparing": 4}})
    made.wait_for_completion(show_output=True, min_node_count=4, timeout_in_minutes=0)
    waiting = "Waiting for cluster to scale. 0 out of 4 nodes ready."
    assert capsys.readouterr() == (f"Succeeded\n{waiting}\n{FINISHED}{TIMEOUT}", "")
    made.wait_for_completion(min_node_count=4, timeout_in_minutes=0)
    assert capsys.readouterr() == ("", TIMEOUT), "also where no output is asked for"


def test_a_cluster_that_failed_is_said_to_have(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = cluster({"provisioning_state": "Failed", "provisioning_errors": ["no room"]})
    made.wait_for_completion(show_output=True)
    assert capsys.readouterr().out == (
        f'Failed\n{FINISHED}Terminal state of "Failed" has been reached\n'
        "There were errors reported from AmlCompute:\n['no room']\n"
    )


def test_waiting_for_its_deletion(capsys: pytest.CaptureFixture[str]) -> None:
    made, session = cluster()
    session.answers[f"DELETE {W}/targets/box"] = None
    made.delete()
    del session.answers[f"GET {W}/targets/box"]
    made.wait_for_completion(show_output=True, is_delete_operation=True)
    assert capsys.readouterr().out == 'SucceededProvisioning operation finished, operation "Succeeded"\n'


# changing and listing


def test_only_what_is_named_is_changed() -> None:
    made, session = cluster()
    session.answers[f"PATCH {W}/targets/box"] = CLUSTER
    made.update(max_nodes=8, idle_seconds_before_scaledown="60")
    changes = {"max_nodes": 8, "idle_seconds_before_scaledown": 60}
    assert [body for asked, body, _ in session.asked if asked.startswith("PATCH")] == [{"config": changes}]
    made.update(min_nodes=0)
    assert [body for asked, body, _ in session.asked if asked.startswith("PATCH")][1:] == [{"config": {"min_nodes": 0}}]
    made.update()
    with pytest.raises(ComputeTargetException, match="max nodes count must be greater than or equal to min nodes"):
        made.update(max_nodes=0)


def test_nodes_are_listed_in_azures_words() -> None:
    made, session = cluster()
    where = {"private_ip": "10.0.0.5", "port": 22}
    node = {"id": "n1", "state": "running", "runs": ["demo_1"], "resources": where, "message": ""}
    session.answers[f"GET {W}/targets/box/nodes"] = {"nodes": [node]}
    assert made.list_nodes() == [
        {
            "nodeId": "n1",
            "privateIpAddress": "10.0.0.5",
            "publicIpAddress": None,
            "port": 22,
            "nodeState": "running",
            "runId": "demo_1",
        }
    ]


def test_active_runs_are_those_that_have_not_ended() -> None:
    made, session = cluster()
    session.answers[f"GET {W}/runs"] = {"runs": [], "next": None}
    assert list(made.get_active_runs(tags={"a": "b"})) == []
    query = session.asked[-1][2]
    assert (query["target"], query["state"], query["tag"]) == ("box", "active", ["a:b"])


def test_parameters_without_meaning_are_kept_and_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    amlcompute._warned.clear()
    ws, session = attachable(CLUSTER, "cluster")
    config = AmlCompute.provisioning_configuration(
        vm_size="STANDARD_D2_V2", max_nodes=4, location="westeurope", enable_node_public_ip=False
    )
    for _ in range(2):
        ComputeTarget.create(ws, "box", config)
        assert sent(session)["config"]["recorded"] == {"location": "westeurope", "enable_node_public_ip": False}
        session.asked.clear()
    assert capsys.readouterr().err == (
        "Warning: location, enable_node_public_ip have no meaning here, and are only kept with the cluster.\n"
    )


def test_nodes_that_come_and_go_are_a_cluster_that_is_resizing() -> None:
    made, _ = cluster({"nodes": {"idle": 1, "preparing": 1, "leaving": 1}, "target_nodes": 2})
    status = made.get_status()
    assert status is not None and (status.allocation_state, status.current_node_count) == ("Resizing", 3)


QUOTAS: list[dict[str, Any]] = [
    {"family": "Standard Dv2 Family", "limit": 24, "used": 8},
    {"family": "Standard NC Family", "limit": None, "used": 6},
    {"family": "Standard DSv2 Family", "limit": None, "used": 0},
]


def test_usages_and_quotas_have_azures_shape() -> None:
    made, session = cluster()
    ws = made.workspace
    session.answers[f"GET {W}/quotas"] = {"quotas": QUOTAS}
    usages = AmlCompute.list_usages(ws)
    assert [(each["name"]["value"], each["currentValue"], each["limit"]) for each in usages] == [
        ("standardDv2Family", 8, 24),
        ("standardNCFamily", 6, -1),
    ]
    assert len(AmlCompute.list_usages(ws, show_all=True)) == 3
    (quota,) = AmlCompute.list_quotas(ws)
    assert quota["id"].endswith("/quotas/standardDv2Family") and quota["unit"] == "Count"
    assert quota["name"]["localizedValue"] == "Standard Dv2 Family vCPUs"
    session.answers[f"PUT {W}/quotas"] = {**QUOTAS[0], "limit": 32}
    (changed,) = AmlCompute.update_quotas(ws, "standardDv2Family", 32)
    assert (changed["limit"], changed["status"]) == (32, "Success")
    assert session.asked[-1][1] == {"family": "standardDv2Family", "cores": 32}
    AmlCompute.update_quotas(ws, ["Dv2"], -1)
    assert session.asked[-1][1] == {"family": "Dv2", "cores": None}


def test_sizes_are_listed_and_identities_are_not_provided() -> None:
    made, session = cluster()
    size = {"name": "Standard_NC6", "family": "Standard NC Family", "cores": 6, "memory_gb": 56.0, "gpus": 1}
    session.answers[f"GET {W}/vm-sizes"] = {"sizes": [size]}
    sizes = {size["name"]: size for size in AmlCompute.supported_vmsizes(made.workspace)}
    assert sizes["Standard_NC6"] == {"name": "Standard_NC6", "vCPUs": 6, "gpus": 1, "memoryGB": 56.0}
    with pytest.raises(NotProvided):
        made.add_identity("SystemAssigned")
    with pytest.raises(NotProvided):
        made.remove_identity()
