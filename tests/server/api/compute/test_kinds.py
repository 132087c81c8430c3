"""The kinds of targets: what forms and command lines are generated from, and the check of what is typed into a form."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.serving import HOME, Server


def check(server: Server, kind: str, config: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    found = server.call("POST", f"{HOME}/kinds/{kind}/check", {"config": config, **more}).json["problems"]
    return [(problem["field"], problem["message"]) for problem in found]


def test_each_kind_has_a_title_and_a_place(shared: Server) -> None:
    kinds = shared.call("GET", f"{HOME}/kinds").json["kinds"]
    assert {kind["kind"]: (kind["title"], kind["group"]) for kind in kinds} == {
        "cluster": ("Compute cluster", "clusters"),
        "docker": ("Containers on this computer", "built-in"),
        "local": ("This computer", "built-in"),
        "ssh": ("Machine by SSH", "attached"),
    }


def test_every_field_can_be_shown_in_a_form(shared: Server) -> None:
    for kind in shared.call("GET", f"{HOME}/kinds").json["kinds"]:
        schemas = (kind["config_schema"], kind["credentials_schema"])
        for name, field in [item for schema in schemas for item in schema.get("properties", {}).items()]:
            assert field["title"] and field["description"], f"{kind['kind']}.{name}"
            assert field.get("group", "") in ("", "login", "containers", "advanced")


def test_the_form_of_a_cluster_asks_for_what_the_documents_ask(shared: Server) -> None:
    kinds = {kind["kind"]: kind for kind in shared.call("GET", f"{HOME}/kinds").json["kinds"]}
    fields = kinds["cluster"]["config_schema"]["properties"]
    plain = [name for name, field in fields.items() if not field.get("group") and not field.get("hidden")]
    assert plain == ["vm_size", "vm_priority", "min_nodes", "max_nodes", "idle_seconds_before_scaledown"]
    assert fields["vm_size"]["format"] == "vm-size"
    assert fields["vm_priority"]["labels"] == {"dedicated": "Dedicated", "lowpriority": "Low priority"}
    assert (fields["min_nodes"]["minimum"], fields["max_nodes"]["maximum"]) == (0, 10_000)
    assert fields["idle_seconds_before_scaledown"]["unit"] == "seconds"
    assert fields["admin_username"]["group"] == fields["admin_user_ssh_key"]["group"] == "advanced"
    assert fields["for_run"]["hidden"] and fields["recorded"]["hidden"]


@pytest.mark.parametrize(
    ("kind", "config", "fields"),
    [
        ("cluster", {"vm_size": "STANDARD_D2_V2", "max_nodes": 4}, []),
        ("cluster", {"vm_size": "STANDARD_D2_V2", "min_nodes": 5, "max_nodes": 4}, [""]),
        ("cluster", {"vm_size": "Standard_Dream", "max_nodes": 4}, ["vm_size"]),
        ("cluster", {"max_nodes": -1, "min_nodes": True}, ["max_nodes", "min_nodes"]),
        ("cluster", {"colour": "red"}, ["colour"]),
        ("ssh", {"address": "10.0.0.7", "username": "jane"}, []),
        ("ssh", {"address": "not a host", "username": "j e"}, ["address", "username"]),
        ("ssh", {"address": "10.0.0.7"}, ["username"]),
        ("ssh", {"address": "10.0.0.7:99", "port": 22, "username": "jane"}, [""]),
    ],
)  # fmt: skip
def test_problems_of_a_configuration_are_told_by_field(
    shared: Server, kind: str, config: dict[str, Any], fields: list[str]
) -> None:
    found = check(shared, kind, config)
    assert sorted(field for field, _ in found) == sorted(fields)
    assert all(message.endswith(".") and message[0].isupper() for _, message in found)


def test_the_name_is_checked_too(shared: Server) -> None:
    config = {"vm_size": "STANDARD_D2_V2"}
    assert check(shared, "cluster", config, name="cpu-cluster") == []
    assert check(shared, "cluster", config, name="local") == [("name", "There is a target local already.")]
    [(field, message)] = check(shared, "cluster", config, name="-")
    assert field == "name" and "2 to 32 letters" in message


def test_a_quota_is_told_before_anything_is_created(server: Server) -> None:
    server.call("PUT", f"{HOME}/quotas", {"family": "Standard Dv2 Family", "cores": 4})
    [(field, message)] = check(server, "cluster", {"vm_size": "STANDARD_D2_V2", "max_nodes": 4}, name="big")
    assert field == "" and message.startswith("The quota of Standard Dv2 Family is 4 cores")
    assert check(server, "cluster", {"vm_size": "STANDARD_D2_V2", "max_nodes": 2}, name="big") == []


def test_only_kinds_that_users_make_are_checked(shared: Server) -> None:
    assert shared.call("POST", f"{HOME}/kinds/local/check", {"config": {}}).code == "not_supported"
    assert shared.call("POST", f"{HOME}/kinds/dummy/check", {"config": {}}).code == "not_supported"
    assert shared.call("POST", f"{HOME}/kinds/moon/check", {"config": {}}).status == 404
