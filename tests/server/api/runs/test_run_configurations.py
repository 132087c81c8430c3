"""Saved run configurations over HTTP: valid specs without a snapshot, written by those who may submit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.serving import HOME, Server

AT = f"{HOME}/run-configurations"
CONTENT: dict[str, Any] = {
    "script": "train.py",
    "arguments": ["--alpha", "0.1"],
    "target": "gpu",
    "environment": {"pip": ["numpy"]},
    "environment_variables": {"A": "1"},
    "resources": {"gpus": 1},
}


def test_a_configuration_is_saved_listed_and_removed(server: Server) -> None:
    saved = server.call("PUT", f"{AT}/big", {"content": CONTENT})
    assert saved.status == 200
    assert (saved.json["name"], saved.json["changed_by"]) == ("big", "owner")
    content = saved.json["content"]
    assert {key: content[key] for key in ("script", "arguments", "target")} == {
        key: CONTENT[key] for key in ("script", "arguments", "target")
    }
    assert content["environment"]["pip"] == ["numpy"] and content["resources"]["gpus"] == 1
    assert server.call("GET", f"{AT}/big").json == saved.json
    assert server.call("GET", AT).json == {"run_configurations": [saved.json]}
    again = server.call("PUT", f"{AT}/big", {"content": content})
    assert again.json["content"] == content, "what was read can be written back"
    assert server.call("DELETE", f"{AT}/big").status == 204
    assert server.call("DELETE", f"{AT}/big").status == 404
    assert server.call("GET", f"{AT}/big").code == "not_found"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("-", CONTENT),
        ("a/b", CONTENT),
        ("big", {"arguments": ["x"]}),
        ("big", {**CONTENT, "colour": "red"}),
        ("big", {**CONTENT, "script": "../train.py"}),
        ("big", {**CONTENT, "environment_variables": {"LD_PRELOAD": "x"}}),
        ("big", {**CONTENT, "snapshot": "0" * 64}),
        ("big", "train.py"),
    ],
)
def test_only_valid_ones_are_saved(shared: Server, name: str, content: Any) -> None:
    refused = shared.call("PUT", f"{AT}/{name.replace('/', '%2F')}", {"content": content})
    assert refused.status in (400, 404), refused.raw
    assert shared.call("GET", AT).json == {"run_configurations": []}


def test_readers_read_and_contributors_write(server: Server) -> None:
    server.call("PUT", f"{AT}/big", {"content": CONTENT})
    reader, contributor = (
        server.store.tokens.create("m", role, "default", None)[1] for role in ("reader", "contributor")
    )
    assert server.call("GET", f"{AT}/big", token=reader).status == 200
    assert server.call("PUT", f"{AT}/big", {"content": CONTENT}, token=reader).status == 403
    assert server.call("DELETE", f"{AT}/big", token=reader).status == 403
    assert server.call("PUT", f"{AT}/big", {"content": CONTENT}, token=contributor).json["changed_by"] == "m"
