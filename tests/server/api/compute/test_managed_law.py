"""The law of managed kinds: created, updated and deleted in the background, whatever is restarted in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.api.compute.test_attach_law import final, submit
from tests.server.fake_kinds import FARMS, FakeFarm, kinds
from tests.server.real import RealServer, real_server
from windlass.core.errors import TargetRejected, TargetUnreachable

__all__ = ["kinds"]

FARM = {"name": "acre", "kind": "farm", "config": {"nodes": 2}}


@pytest.fixture
def server(kinds: Any, tmp_path: Path) -> Any:
    with real_server(tmp_path / "home") as running:
        yield running


@pytest.fixture
def farm(kinds: Any) -> FakeFarm:
    FARMS["acre"] = FakeFarm()
    return FARMS["acre"]


def until(server: RealServer, state: str) -> Any:
    return server.until("/targets/acre", lambda found: found["provisioning_state"] == state)


def until_gone(server: RealServer) -> None:
    server.until("/targets", lambda found: "acre" not in [target["name"] for target in found["targets"]])


def test_its_whole_life(server: RealServer, farm: FakeFarm) -> None:
    created = server.ask("POST", "/targets", {**FARM, "credentials": {"water": "w"}}, 201)
    assert (created["provisioning_state"], created["is_attached"], created["slots"]) == ("Creating", False, None)
    assert created["location"] == "behind the house"
    waiting = submit(server, "acre")
    assert (waiting["state"], waiting["message"]) == ("Queued", "acre is being created")
    assert waiting["reason"] == "waiting_for_target"
    assert until(server, "Succeeded")["provisioning_message"] == ""
    assert final(server, waiting["id"])["state"] == "Completed"

    nodes = server.ask("GET", "/targets/acre/nodes")["nodes"]
    assert [(node["id"], node["state"], node["resources"]) for node in nodes] == [
        ("n0", "idle", {"cores": 2}),
        ("n1", "idle", {"cores": 2}),
    ]
    assert server.ask("PATCH", "/targets/acre", {"config": {"nodes": 3}})["provisioning_state"] == "Updating"
    until(server, "Succeeded")
    assert len(server.ask("GET", "/targets/acre/nodes")["nodes"]) == 3
    assert "soil" in server.refused("PATCH", "/targets/acre", {"config": {"soil": "x"}}, 400)["message"]
    assert server.ask("PATCH", "/targets/acre", {"config": {"nodes": 3}})["provisioning_state"] == "Succeeded"

    assert server.ask("DELETE", "/targets/acre") == {"name": "acre", "left": []}
    assert "is being deleted" in server.refused("POST", "/runs", {
        "experiment": "tea", "spec": {"command": ["true"], "target": "acre"},
    })["message"]  # fmt: skip
    until_gone(server)
    assert farm.nodes == 0
    assert farm.calls == ["create"] * 2 + ["update from 2"] * 2 + ["delete"] * 2
    assert server.audit() == [
        "owner target.create",
        "server target.provision",
        "owner target.change",
        "server target.provision",
        "owner target.change",
        "owner target.delete",
        "server target.deleted",
    ]


@pytest.mark.parametrize("operation", ["create", "update", "delete"])
def test_every_operation_goes_on_after_a_restart(kinds: Any, farm: FakeFarm, tmp_path: Path, operation: str) -> None:
    with real_server(tmp_path / "home") as server:
        server.ask("POST", "/targets", FARM, 201)
        if operation != "create":
            until(server, "Succeeded")
        farm.error = TargetUnreachable("The weather is bad.")
        if operation == "update":
            server.ask("PATCH", "/targets/acre", {"config": {"nodes": 5}})
        elif operation == "delete":
            server.ask("DELETE", "/targets/acre")
        found = server.until("/targets/acre", lambda found: found["provisioning_message"] == "The weather is bad.")
        assert (
            found["provisioning_state"] == {"create": "Creating", "update": "Updating", "delete": "Deleting"}[operation]
        )
    farm.error = None
    with real_server(tmp_path / "home") as server:
        if operation == "delete":
            until_gone(server)
        else:
            until(server, "Succeeded")
            assert farm.nodes == (5 if operation == "update" else 2)


def test_a_creation_that_fails_says_why_and_takes_no_runs(server: RealServer, farm: FakeFarm) -> None:
    farm.steps = 1000
    server.ask("POST", "/targets", FARM, 201)
    waiting = submit(server, "acre")
    farm.error = TargetRejected("There is no land.")
    assert until(server, "Failed")["provisioning_message"] == "There is no land."
    ended = final(server, waiting["id"])
    assert (ended["state"], ended["reason"]) == ("Failed", "rejected")
    assert "could not be created: There is no land." in ended["message"]
    refused = submit(server, "acre", 409)["error"]
    assert "There is no land." in refused["message"] and "compute show acre" in refused["hint"]
    assert "cannot be updated" in server.refused("PATCH", "/targets/acre", {"config": {"nodes": 1}})["message"]
    farm.error, farm.steps, farm.done = None, 1, 0
    server.ask("POST", "/targets", {**FARM, "exist_ok": True}, 201)
    until(server, "Succeeded")
    assert final(server, submit(server, "acre")["id"])["state"] == "Completed"


def test_an_update_that_fails_can_be_repeated(server: RealServer, farm: FakeFarm) -> None:
    server.ask("POST", "/targets", FARM, 201)
    until(server, "Succeeded")
    farm.error = TargetRejected("There is no more land.")
    server.ask("PATCH", "/targets/acre", {"config": {"nodes": 9}})
    until(server, "Failed")
    farm.error = None
    server.ask("PATCH", "/targets/acre", {"config": {"nodes": 4}})
    assert until(server, "Succeeded")["config"]["nodes"] == 4
    assert farm.calls[-2:] == ["update from 2"] * 2, "the settings before the failed update are those that count"


def test_a_driver_that_breaks_is_called_again(server: RealServer, farm: FakeFarm) -> None:
    farm.error = ZeroDivisionError("a bug")
    server.ask("POST", "/targets", FARM, 201)
    server.until("/targets/acre", lambda found: "ZeroDivisionError" in found["provisioning_message"])
    farm.error = None
    until(server, "Succeeded")


def test_the_same_request_again_gets_the_same_target(server: RealServer, farm: FakeFarm) -> None:
    server.ask("POST", "/targets", FARM, 201)
    server.ask("POST", "/targets", FARM, 201)
    other = {**FARM, "config": {"nodes": 7}}
    assert server.refused("POST", "/targets", other)["code"] == "already_exists"
    assert server.refused("POST", "/targets", {**other, "exist_ok": True})["code"] == "already_exists"
    assert server.refused("POST", "/targets", {**FARM, "credentials": {"wine": "x"}}, 400)
    assert server.refused("POST", "/targets/acre/probe", status=422)
    until(server, "Succeeded")


def test_one_in_creation_is_deleted(server: RealServer, farm: FakeFarm) -> None:
    farm.steps = 1000
    server.ask("POST", "/targets", FARM, 201)
    server.until("/targets/acre", lambda found: found["provisioning_message"].startswith("step 1"))
    server.ask("DELETE", "/targets/acre")
    assert "is being deleted" in server.refused("POST", "/targets", FARM)["message"]
    farm.steps = 1
    until_gone(server)
    assert farm.calls[-1] == "delete"


def test_with_runs_it_is_deleted_by_force_only(server: RealServer, farm: FakeFarm) -> None:
    farm.steps = 1000
    server.ask("POST", "/targets", FARM, 201)
    run = submit(server, "acre")["id"]
    assert server.refused("DELETE", "/targets/acre")["details"] == {"runs": 1}
    assert server.ask("DELETE", "/targets/acre?force=true")["left"] == [run]
    ended = final(server, run)
    assert (ended["state"], ended["message"]) == ("Failed", "its target acre was deleted before it was started")
    farm.steps = 1
    until_gone(server)
