"""Targets in the SDK: their classes, the request that attaches one, and Azure's texts to the letter."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.fake import FakeSession
from windlass import (
    AdlaCompute,
    AksCompute,
    AmlCompute,
    BatchCompute,
    ComputeInstance,
    ComputeTarget,
    ComputeTargetException,
    DatabricksCompute,
    DataFactoryCompute,
    DsvmCompute,
    HDInsightCompute,
    KindAttachConfiguration,
    KindProvisioningConfiguration,
    KubernetesCompute,
    KustoCompute,
    RemoteCompute,
    RunConfiguration,
    SynapseCompute,
    Workspace,
)
from windlass.client.http.session import Session
from windlass.core.errors import Conflict, NotFound

W = "/workspaces/default"
WORKSPACE = {
    "name": "default",
    "subscription_id": "s",
    "resource_group": "g",
    "location": "here",
    "created_at": "2026-01-31T12:00:00.000000Z",
    "tags": {},
}
ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/default/computes/box"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx5"
BOX: dict[str, Any] = {
    "name": "box",
    "kind": "ssh",
    "config": {"address": "10.0.0.7", "port": 2222, "username": "jane", "login": "password"},
    "created_at": "2026-01-31T12:00:00.000000Z",
    "is_attached": True,
    "slots": None,
    "quarantine": None,
    "inventory": {"cores": 8, "problems": []},
    "pin": KEY,
    "pin_confirmed": False,
    "pin_shown_as": "SHA256:abc",
    "location": "jane@10.0.0.7:2222",
    "depends_on": [],
    "provisioning_state": "Succeeded",
    "provisioning_message": "",
    "active_runs": 0,
    "queued_runs": 0,
}
LOCAL = {**BOX, "name": "local", "kind": "local", "config": {}, "inventory": None}


def workspace(**answers: Any) -> tuple[Workspace, FakeSession]:
    """A workspace on a fake server with these answers beside its own view and the target `box`."""
    session = FakeSession({f"GET {W}": WORKSPACE, f"GET {W}/targets/box": BOX, **answers})
    made = Workspace("", "", "default", _check=False)
    made._session = cast(Session, session)
    return made, session


def attachable(answer: Any = None, *kinds: str) -> tuple[Workspace, FakeSession]:
    """A workspace on a fake server with drivers for these kinds beside its own, and this answer to an attach."""
    listed = {"kinds": [{"kind": kind} for kind in ("local", "ssh", *kinds)]}
    return workspace(**{f"POST {W}/targets": answer or BOX, f"GET {W}/kinds": listed})


def sent(session: FakeSession) -> dict[str, Any]:
    [body] = [body for asked, body, _ in session.asked if asked == f"POST {W}/targets"]
    return cast(dict[str, Any], body)


def config(**changes: Any) -> Any:
    return RemoteCompute.attach_configuration(
        **{"address": "10.0.0.7", "username": "jane", "password": "hunter2", **changes}
    )


@pytest.mark.parametrize("look_up", [ComputeTarget, RemoteCompute, DsvmCompute])
def test_a_target_is_found_as_an_object_of_its_kind(look_up: Callable[..., ComputeTarget]) -> None:
    ws, _ = workspace()
    box = look_up(ws, "box")
    assert type(box) is RemoteCompute
    assert (box.name, box.type, box.id, box.location) == ("box", "VirtualMachine", ID, "here")
    assert (box.address, box.ssh_port, box.username) == ("10.0.0.7", 2222, "jane")
    assert (box.provisioning_state, box.provisioning_errors, box.get_status()) == ("Succeeded", None, "Succeeded")
    assert box.created_on == box.modified_on == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert box.is_attached is True and box.tags is None and box.description is None


def test_one_that_is_not_there_has_azures_words() -> None:
    ws, _ = workspace()
    for name in ("gpu", "../x", "a b"):
        with pytest.raises(ComputeTargetException) as caught:
            ComputeTarget(ws, name)
        message = f"ComputeTargetNotFound: Compute Target with name {name} not found in provided workspace"
        assert caught.value.message == message
        assert str(caught.value) == (
            f"ComputeTargetException:\n\tMessage: {message}\n\tInnerException None\n\tErrorResponse \n"
            f'{{\n    "error": {{\n        "message": "{message}"\n    }}\n}}'
        )


def test_a_list_has_each_in_its_class() -> None:
    ws, _ = workspace(**{f"GET {W}/targets": {"targets": [BOX, LOCAL]}})
    assert [type(target) for target in ComputeTarget.list(ws)] == [RemoteCompute, ComputeTarget]
    assert {name: target.type for name, target in ws.compute_targets.items()} == {
        "box": "VirtualMachine",
        "local": "local",
    }


def test_it_is_shown_as_azure_shows_it() -> None:
    ws, _ = workspace()
    box = ComputeTarget(ws, "box")
    assert repr(box) == (
        f"RemoteCompute(workspace={ws!r}, name=box, id={box.id}, type=VirtualMachine, provisioning_state=Succeeded, "
        f"location={box.location}, tags=None)"
    )
    assert repr(RemoteCompute(None, None)).startswith("RemoteCompute(workspace=None, name=None, id=None")


def test_a_description_makes_the_same_target_again() -> None:
    ws, session = workspace()
    box = ComputeTarget(ws, "box")
    described = box.serialize()
    assert described == {
        "id": ID,
        "name": "box",
        "tags": None,
        "location": "here",
        "properties": {
            "computeType": "VirtualMachine",
            "computeLocation": "here",
            "description": None,
            "resourceId": None,
            "isAttachedCompute": True,
            "provisioningErrors": None,
            "provisioningState": "Succeeded",
            "properties": {"virtualMachineSize": None, "address": "10.0.0.7", "sshPort": 2222},
        },
    }
    asked = len(session.asked)
    for again in (ComputeTarget.deserialize(ws, described), RemoteCompute.deserialize(ws, described)):
        assert type(again) is RemoteCompute and again.serialize() == described
    assert len(session.asked) == asked, "no request is sent for that"
    assert copy.copy(box).serialize() == described


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"name": "x"}, "Invalid cluster payload:\n"),
        ({"properties": {"computeType": "AKS"}}, 'Invalid cluster payload, not "VirtualMachine":\n'),
        ({"name": "x", "properties": {"computeType": "VirtualMachine"}}, 'Invalid cluster payload, missing ["id"]:\n'),
    ],
)
def test_what_describes_no_machine_is_refused(described: dict[str, Any], message: str) -> None:
    ws, _ = workspace()
    with pytest.raises(ComputeTargetException) as caught:
        RemoteCompute.deserialize(ws, described)
    assert caught.value.message == f"{message}{described}"


def test_one_in_quarantine_has_failed_and_says_why() -> None:
    ws, _ = workspace(**{f"GET {W}/targets/box": {**BOX, "quarantine": "its host key changed"}})
    box = ComputeTarget(ws, "box")
    assert box.get_status() == "Failed"
    assert box.provisioning_errors == [{"error": {"code": "TargetQuarantined", "message": "its host key changed"}}]


def test_the_status_is_that_of_now() -> None:
    ws, session = workspace()
    box = ComputeTarget(ws, "box")
    assert box.get_status() == "Succeeded"
    session.answers[f"GET {W}/targets/box"] = {**BOX, "quarantine": "its host key changed"}
    assert (box.provisioning_state, box.get_status(), box.provisioning_state) == ("Succeeded", "Failed", "Failed")


# attaching


def test_what_is_sent_to_attach_with_a_password() -> None:
    ws, session = attachable()
    box = ComputeTarget.attach(ws, "box", config(ssh_port="2222"))
    assert type(box) is RemoteCompute
    assert sent(session) == {
        "name": "box",
        "kind": "ssh",
        "config": {"address": "10.0.0.7", "port": 2222, "username": "jane", "login": "password"},
        "credentials": {"password": "hunter2"},
        "exist_ok": True,
    }


def test_a_private_key_is_read_here_and_sent(tmp_path: Path) -> None:
    ws, session = attachable()
    (tmp_path / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    key = config(password="", private_key_file=str(tmp_path / "key"), private_key_passphrase="open")
    ComputeTarget.attach(ws, "box", key)
    assert sent(session)["config"]["login"] == "key"
    assert sent(session)["credentials"] == {
        "private_key": "-----BEGIN OPENSSH PRIVATE KEY-----\n",
        "passphrase": "open",
    }


@pytest.mark.parametrize(
    ("changes", "login", "credentials"),
    [
        ({"password": "", "use_workspace_key": True}, "workspace-key", {}),
        ({"use_workspace_key": True}, "workspace-key", {"password": "hunter2"}),
        ({"password": None, "use_agent": True}, "agent", {}),
    ],
)
def test_other_ways_in(changes: dict[str, Any], login: str, credentials: dict[str, str]) -> None:
    ws, session = attachable()
    ComputeTarget.attach(ws, "box", config(**changes))
    assert (sent(session)["config"]["login"], sent(session)["credentials"]) == (login, credentials)


def test_settings_of_the_kind_go_along() -> None:
    ws, session = attachable()
    ComputeTarget.attach(ws, "box", config(jump="gate", docker=True, host_key=KEY, root="/data/windlass"))
    given = sent(session)["config"]
    assert (given["jump"], given["docker"], given["root"]) == ("gate", True, "/data/windlass")
    assert sent(session)["pin"] == KEY and "pin_confirmed" not in sent(session) and "host_key" not in given


def test_whom_it_took_for_the_machine_and_what_is_missing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    problem = {"message": "Docker is not installed there.", "fix": "sudo apt-get install docker.io"}
    notes = ["pinned the first host key that 10.0.0.7:22 showed: SHA256:abc"]
    ws, _ = attachable({**BOX, "inventory": {"problems": [problem]}, "notes": notes})
    ComputeTarget.attach(ws, "box", config())
    assert capsys.readouterr().err == (
        "box: pinned the first host key that 10.0.0.7:22 showed: SHA256:abc\n"
        "box: Docker is not installed there.\n  sudo apt-get install docker.io\n"
    )
    ws, _ = attachable(BOX)
    ComputeTarget.attach(ws, "box", config())
    assert capsys.readouterr() == ("", "")


def test_a_long_name_is_taken_and_said_to_be_long(capsys: pytest.CaptureFixture[str]) -> None:
    ws, _ = attachable({**BOX, "name": "a-name-of-17-char"})
    assert ComputeTarget.attach(ws, "a-name-of-17-char", config()).name == "a-name-of-17-char"
    assert "longer than the 16 characters" in capsys.readouterr().err


def test_waiting_after_attach_says_what_azure_says(capsys: pytest.CaptureFixture[str]) -> None:
    ws, _ = attachable()
    box = ComputeTarget.attach(ws, "box", config())
    capsys.readouterr()
    box.wait_for_completion(show_output=True)
    assert capsys.readouterr().out == 'SucceededProvisioning operation finished, operation "Succeeded"\n'
    box.wait_for_completion()
    assert capsys.readouterr().out == 'Provisioning operation finished, operation "Succeeded"\n'


def test_there_is_nothing_to_wait_for_on_one_that_was_found() -> None:
    ws, _ = workspace()
    with pytest.raises(ComputeTargetException) as caught:
        ComputeTarget(ws, "box").wait_for_completion(show_output=True)
    assert caught.value.message == (
        "Long running operation information not known, unable to poll. Current state is Succeeded"
    )


TEAPOT = {**BOX, "kind": "teapot", "config": {"tea": "green"}}


def test_a_target_of_any_kind_that_the_server_has_is_attached() -> None:
    ws, session = attachable(TEAPOT, "teapot")
    configuration = KindAttachConfiguration("teapot", {"tea": "green"}, {"token": "t"}, pin="p", pin_confirmed=True)
    box = ComputeTarget.attach(ws, "box", configuration)
    assert type(box) is ComputeTarget and box.type == "teapot"
    assert sent(session) == {
        "name": "box",
        "kind": "teapot",
        "config": {"tea": "green"},
        "credentials": {"token": "t"},
        "exist_ok": True,
        "pin": "p",
        "pin_confirmed": True,
    }
    with pytest.raises(ComputeTargetException, match="no driver for targets of kind samovar"):
        ComputeTarget.attach(ws, "box", KindAttachConfiguration("samovar"))
    with pytest.raises(ComputeTargetException, match="A kind of targets is a name"):
        KindAttachConfiguration(cast(str, None))


def test_a_target_of_any_kind_is_created_and_then_deleted() -> None:
    farm = {**TEAPOT, "is_attached": False, "provisioning_state": "Creating"}
    ws, session = attachable(farm, "teapot")
    box = ComputeTarget.create(ws, "box", KindProvisioningConfiguration("teapot", {"tea": "green"}, slots=3))
    assert box.provisioning_state == "Creating" and sent(session)["slots"] == 3
    failed = {**farm, "provisioning_state": "Failed", "provisioning_message": "There is no tea."}
    session.answers[f"GET {W}/targets/box"] = failed
    assert box.get_status() == "Failed"
    assert box.provisioning_errors == [{"error": {"code": "ProvisioningFailed", "message": "There is no tea."}}]
    with pytest.raises(ComputeTargetException, match="Detach is not supported for ComputeTarget object"):
        box.detach()
    session.answers[f"DELETE {W}/targets/box"] = None
    box.delete()
    assert box.provisioning_state == "Deleting"


def test_a_target_of_any_kind_is_checked_updated_and_trusted() -> None:
    there = f"{W}/targets/box"
    answers = {
        f"POST {there}/check": {"ok": True, "message": "fine", "inventory": {}},
        f"GET {there}/nodes": {"nodes": [{"id": "n1", "state": "idle"}]},
        f"PATCH {there}": {**TEAPOT, "provisioning_state": "Updating"},
        f"POST {there}/probe": {"identity": {"pin": "new"}, "location": "here", "endpoint": "here"},
        f"POST {there}/trust": TEAPOT,
    }
    ws, session = workspace(**answers)
    box = ComputeTarget(ws, "box")
    assert box.check()["ok"] and box.nodes() == [{"id": "n1", "state": "idle"}]
    box.update_settings(tea="black")
    assert box.provisioning_state == "Updating"
    box.wait_for_completion()
    assert box.probe()["identity"]["pin"] == "new"
    box.trust("new")
    bodies = {asked: body for asked, body, _ in session.asked}
    assert bodies[f"PATCH {there}"] == {"config": {"tea": "black"}}
    assert bodies[f"POST {there}/trust"] == {"pin": "new", "confirmed": True}


CLASSES = {
    "ssh": RemoteCompute,
    "cluster": AmlCompute,
    "instance": ComputeInstance,
    "spark": HDInsightCompute,
    "databricks": DatabricksCompute,
    "analytics": AdlaCompute,
    "batch": BatchCompute,
    "slurm": BatchCompute,
    "azurebatch": BatchCompute,
    "kubernetes": KubernetesCompute,
    "local": ComputeTarget,
    "teapot": ComputeTarget,
}


@pytest.mark.parametrize("kind", CLASSES)
def test_every_kind_has_its_class_and_a_description_that_makes_it_again(kind: str) -> None:
    ws, _ = workspace(**{f"GET {W}/targets/box": {**BOX, "kind": kind, "config": {}}})
    for look_up in (ComputeTarget, AmlCompute, BatchCompute):
        assert type(look_up(ws, "box")) is CLASSES[kind], "every class looks up the same"
    box = ComputeTarget(ws, "box")
    for again in (ComputeTarget.deserialize(ws, box.serialize()), CLASSES[kind].deserialize(ws, box.serialize())):
        assert type(again) is CLASSES[kind] and again.serialize() == box.serialize()


def test_a_cluster_that_was_attached_as_aks_is_one() -> None:
    config = {"connection": "c", "cluster_purpose": "DevTest"}
    ws, _ = workspace(**{f"GET {W}/targets/box": {**BOX, "kind": "kubernetes", "config": config}})
    cluster = ComputeTarget(ws, "box")
    assert type(cluster) is AksCompute and cluster.cluster_purpose == "DevTest"
    assert cluster.serialize()["properties"]["properties"] == {"clusterPurpose": "DevTest"}


REFUSALS = {
    AmlCompute: ("", "Detach is not supported for AmlCompute object. Try to use delete instead."),
    ComputeInstance: ("", "Detach is not supported for ComputeInstance object. Try to use delete instead."),
    DsvmCompute: ("", "Detach is not supported for DSVM object. Try to use delete instead."),
    RemoteCompute: ("Delete is not supported for RemoteCompute object. Try to use detach instead.", ""),
    HDInsightCompute: ("Delete is not supported for HDICompute object. Try to use detach instead.", ""),
    DatabricksCompute: ("Delete is not supported for Databricks object. Try to use detach instead.", ""),
    BatchCompute: ("Delete is not supported for Batch object. Try to use detach instead.", ""),
    KubernetesCompute: ("Delete is not supported for KubernetesCompute object. Try to use detach instead.", ""),
    KustoCompute: ("Delete is not supported for Kusto object. Try to use detach instead.", ""),
    SynapseCompute: ("Delete is not supported for Synapse object. Try to use detach instead.", ""),
    AdlaCompute: ("", ""),
    AksCompute: ("", ""),
    DataFactoryCompute: ("", ""),
}


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.__name__)
def test_what_was_made_is_deleted_and_what_was_attached_is_detached(kind: type[ComputeTarget]) -> None:
    for name, refusal in zip(("delete", "detach"), REFUSALS[kind], strict=True):
        ws, session = workspace(**{f"DELETE {W}/targets/box": None})
        target = kind(None, None)
        target._fill(ws, {**BOX, "kind": "x"})
        if not refusal:
            getattr(target, name)()
            assert session.asked[-1][0] == f"DELETE {W}/targets/box" and target.provisioning_state == "Deleting"
            continue
        with pytest.raises(ComputeTargetException) as caught:
            getattr(target, name)()
        assert caught.value.message == refusal


def states(*found: Any) -> Callable[[Any, Any], Any]:
    """An answer that is another one each time, the last one for good; an exception is raised."""
    waiting = list(found)

    def answer(body: Any, query: Any) -> Any:
        state = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(state, Exception):
            raise state
        return {**BOX, **state}

    return answer


def test_waiting_shows_each_state_until_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    creating, done = {"provisioning_state": "Creating"}, {"provisioning_state": "Succeeded"}
    ws, session = attachable()
    box = ComputeTarget.attach(ws, "box", config())
    capsys.readouterr()
    session.answers[f"GET {W}/targets/box"] = states(creating, creating, done)
    box.wait_for_completion(show_output=True)
    assert capsys.readouterr().out == ('Creating.\nSucceededProvisioning operation finished, operation "Succeeded"\n')


@pytest.mark.parametrize(
    "end", [{"provisioning_state": "Failed", "provisioning_errors": ["no room"]}, NotFound("gone")]
)
def test_an_operation_that_failed_is_said_to_have(end: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ws, session = attachable()
    box = ComputeTarget.attach(ws, "box", config())
    session.answers[f"GET {W}/targets/box"] = states({"provisioning_state": "Creating"}, end)
    with pytest.raises(ComputeTargetException, match="reached non-successful terminal state"):
        box.wait_for_completion()
    assert "Succeeded" not in capsys.readouterr().out


# what becomes of it


def test_it_is_detached_and_not_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    ws, session = workspace(**{f"DELETE {W}/targets/box": None})
    box = ComputeTarget(ws, "box")
    with pytest.raises(ComputeTargetException) as caught:
        box.delete()
    assert caught.value.message == "Delete is not supported for RemoteCompute object. Try to use detach instead."
    box.detach()
    assert session.asked[-1][0] == f"DELETE {W}/targets/box"
    del session.answers[f"GET {W}/targets/box"]
    assert box.provisioning_state == "Deleting"
    box.wait_for_completion(show_output=True, is_delete_operation=True)
    assert capsys.readouterr().out == 'SucceededProvisioning operation finished, operation "Succeeded"\n'


def test_one_with_runs_stays() -> None:
    ws, _ = workspace(**{f"DELETE {W}/targets/box": Conflict("2 runs go on there.", "windlass cancel ...")})
    with pytest.raises(ComputeTargetException, match="2 runs go on there"):
        ComputeTarget(ws, "box").detach()


def test_nobody_reads_what_lets_us_in() -> None:
    ws, _ = workspace()
    box = ComputeTarget(ws, "box")
    assert isinstance(box, RemoteCompute)
    assert box.get_credentials() == {
        "computeType": "VirtualMachine",
        "administratorAccount": {
            "username": "jane",
            "password": None,
            "publicKeyData": None,
            "privateKeyData": None,
        },
    }


def test_a_target_stands_for_its_name_in_a_run_configuration() -> None:
    ws, _ = workspace()
    configuration = RunConfiguration()
    configuration.target = ComputeTarget(ws, "box")
    assert configuration.target == "box"


def test_a_target_can_be_pickled() -> None:
    ws, _ = workspace()
    box = ComputeTarget(ws, "box")
    assert pickle.loads(pickle.dumps(box)).serialize() == box.serialize()  # noqa: S301
