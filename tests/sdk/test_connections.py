"""Connections from Python: added, found by coordinates in any spelling, changed and removed on a real server."""

from __future__ import annotations

import os
from typing import Any

import pytest

from windlass import ComputeTarget, ComputeTargetException, Connection, DatabricksCompute, RemoteCompute, Workspace

CANARY = "the-canary-sings"
HOST = "https://adb-1.2.azuredatabricks.net"
ID = "/subscriptions/12f4/resourceGroups/RG/providers/Microsoft.Databricks/workspaces/WS"


@pytest.fixture
def own(ws: Workspace) -> Workspace:
    """A workspace whose connections no other test sees."""
    return Workspace.create(f"connections-{os.urandom(4).hex()}")


def test_a_connection_is_added_found_changed_and_removed(own: Workspace) -> None:
    added = Connection.add(own, "bricks", "databricks", resource_id=ID, host=HOST, credentials={"token": CANARY})
    assert (added.subscription_id, added.resource_group, added.resource_name) == ("12f4", "RG", "WS")
    assert list(own.connections) == ["bricks"] == [each.name for each in Connection.list(own)]
    assert Connection.get(own, "bricks").settings == {"host": HOST}
    assert CANARY not in repr(added) + str(vars(added)) + str(vars(Connection.get(own, "bricks")))
    for place in ({"resource_group": "rg", "resource_name": "ws"}, {"resource_id": ID.upper()}):
        assert Connection.find(own, "databricks", **place).name == "bricks"
    with pytest.raises(ComputeTargetException, match="There is a connection bricks already"):
        Connection.add(own, "bricks", "databricks", "rg", "two", host=HOST, credentials={"token": "other"})
    changed = Connection.add(
        own, "bricks", "databricks", "rg", "two", host=f"{HOST}/", credentials={"token": "other"}, exist_ok=True
    )
    assert changed.resource_name == "two" and changed.settings == {"host": HOST}
    changed.remove()
    assert own.connections == {}
    with pytest.raises(ComputeTargetException, match="There is no connection bricks"):
        changed.remove()


def test_of_several_that_fit_none_is_guessed(own: Workspace) -> None:
    for name, subscription in (("first", "s1"), ("second", "s2")):
        Connection.add(own, name, "vm", "rg", "box", subscription_id=subscription, address="10.0.0.7")
    with pytest.raises(ComputeTargetException, match="Several connections fit .*: first, second; name the subscript"):
        Connection.find(own, "vm", "rg", "box")
    assert Connection.find(own, "vm", "rg", "box", "S2").name == "second"
    with pytest.raises(ComputeTargetException, match="no connections of kind 'teapot'; use aks, databricks"):
        Connection.find(own, "teapot", "rg", "box")


def test_one_for_the_subscription_wins_over_a_general_one(own: Workspace) -> None:
    for name, subscription in (("any", None), ("first", "s1")):
        Connection.add(own, name, "vm", "rg", "box", subscription_id=subscription, address="10.0.0.7")
    for subscription, found in (("S1", "first"), ("s2", "any"), (None, "any")):
        assert Connection.find(own, "vm", "rg", "box", subscription).name == found


def test_an_attach_that_names_unknown_coordinates_has_the_line_to_type(own: Workspace) -> None:
    config = RemoteCompute.attach_configuration(
        "jane", subscription_id="s", resource_group="my group", vm_name="box", password=CANARY
    )
    with pytest.raises(ComputeTargetException) as caught:
        ComputeTarget.attach(own, "gpu-box", config)
    line = "windlass connection add vm NAME --resource-group 'my group' --vm-name box --subscription s --address HOST"
    assert caught.value.message == (
        f"No connection says what box of the resource group my group means here; add one: {line}"
    )


def test_a_kind_without_a_driver_is_refused_before_its_connection_is_looked_for(own: Workspace) -> None:
    config = DatabricksCompute.attach_configuration(resource_group="rg", workspace_name="ws", access_token=CANARY)
    with pytest.raises(ComputeTargetException, match="no driver for targets of kind databricks") as caught:
        ComputeTarget.attach(own, "spark", config)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "resource", "settings", "word"),
    [
        ("a/b", "vm", "box", {"address": "10.0.0.7"}, "name"),
        ("bad", "teapot", "box", {}, "kind"),
        ("bad", "vm", None, {"address": "10.0.0.7"}, "resource's name"),
        ("bad", "vm", "a/b", {"address": "10.0.0.7"}, "no '/'"),
        ("bad", "vm", "box", {"address": "-oProxyCommand=x"}, "address"),
        ("bad", "databricks", "ws", {"host": HOST}, "needs token"),
    ],
)
def test_what_cannot_be_is_azures_exception(
    own: Workspace, name: str, kind: str, resource: str | None, settings: dict[str, Any], word: str
) -> None:
    with pytest.raises(ComputeTargetException) as caught:
        Connection.add(own, name, kind, "rg", resource, **settings)
    assert word in caught.value.message and own.connections == {}
