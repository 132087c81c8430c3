"""A fake server with one attached machine, as `windlass compute` sees it. Beside ours it has kinds of its own."""

from __future__ import annotations

from typing import Any, cast

from tests.cli.fake import FakeSession, W
from windlass.core.errors import NotFound
from windlass.server.api.compute.kinds import kind_views

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx5"
PRINT = "SHA256:abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
IDENTITY = {
    "pin": KEY,
    "shown_as": PRINT,
    "what": "host key",
    "how_to_compare": "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
    "details": {"key_type": "ssh-ed25519", "accepts": ["publickey", "password"]},
}
PROBED = {"identity": IDENTITY, "location": "jane@10.0.0.7", "endpoint": "10.0.0.7:22"}
PUBLIC = {"public": "ssh-ed25519 AAAAworkspace windlass-default"}
CONFIG = {"address": "10.0.0.7", "port": None, "username": "jane", "login": "password", "python": "python3",
          "root": "~/.windlass/ssh", "docker": False}  # fmt: skip
BOX: dict[str, Any] = {
    "name": "box",
    "kind": "ssh",
    "config": CONFIG,
    "created_at": "2026-01-31T12:00:00.000000Z",
    "is_attached": True,
    "slots": 8,
    "attached_by": "owner",
    "quarantine": None,
    "pin": KEY,
    "pin_confirmed": False,
    "pin_shown_as": PRINT,
    "location": "jane@10.0.0.7",
    "depends_on": [],
    "provisioning_state": "Succeeded",
    "provisioning_message": "",
    "inventory": {
        "cores": 8,
        "memory_mb": 16000,
        "gpus": ["A100", "A100"],
        "python": "3.11.2",
        "problems": [{"level": "missing", "message": "Git is not installed there.", "fix": "sudo apt-get install git"}],
    },
    "active_runs": 1,
    "queued_runs": 2,
}


def cli(*options: str, metavar: str = "", flags: dict[str, list[str]] | None = None, is_file: bool = False) -> Any:
    return {"options": list(options), "metavar": metavar, "flags": flags or {}, "is_file": is_file}


def optional(kind: str, description: str, **more: Any) -> dict[str, Any]:
    bounds: dict[str, Any] = {key: more.pop(key) for key in ("minimum", "maximum") if key in more}
    shapes = [{"type": kind, **bounds}, {"type": "null"}]
    return {"anyOf": shapes, "default": None, "description": description, **more}


[SSH] = [cast(dict[str, Any], view) for view in kind_views() if view["kind"] == "ssh"]
# A kind that only this server has: attached with a token and a certificate, and without anything that is pinned.
TEAPOT: dict[str, Any] = {
    "kind": "teapot",
    "description": "A teapot that brews.",
    "is_attachable": True,
    "is_managed": False,
    "has_nodes": False,
    "has_workspace_credential": False,
    "mutable_settings": ["cups", "leaf", "is_hot", "tags"],
    "config_schema": {
        "$defs": {"Leaf": {"enum": ["green", "black"], "type": "string"}},
        "required": ["url"],
        "properties": {
            "cups": {"type": "integer", "default": 2, "minimum": 1, "description": "How many cups at once."},
            "url": {"type": "string", "description": "Where it is."},
            "is_hot": {"type": "boolean", "default": True, "description": "Whether it is kept hot."},
            "leaf": {"anyOf": [{"$ref": "#/$defs/Leaf"}, {"type": "null"}], "default": None, "description": "The tea."},
            "strength": {"type": "number", "exclusiveMinimum": 0, "description": "How strong."},
            "additions": {"type": "array", "items": {"type": "string"}, "description": "What goes in."},
            "tags": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Words on it."},
            "slots": {"type": "string", "description": "The same name as an option of every kind."},
            "secret_recipe": {"type": "string", "description": "Not shown.", "cli": cli("")},
        },
    },
    "credentials_schema": {
        "required": ["api_token"],
        "properties": {
            "api_token": {"type": "string", "description": "The token of its API.", "cli": cli("--token")},
            "certificate": optional("string", "The certificate of the client.", cli=cli(is_file=True)),
        },
    },
}
# A kind that only this server has: created by it, with nodes.
KITCHEN: dict[str, Any] = {
    "kind": "kitchen",
    "description": "A kitchen with stoves.",
    "is_attachable": False,
    "is_managed": True,
    "has_nodes": True,
    "has_workspace_credential": False,
    "mutable_settings": ["max_nodes", "idle_seconds_before_scaledown"],
    "config_schema": {
        "required": ["max_nodes"],
        "properties": {
            "max_nodes": {"type": "integer", "minimum": 1, "maximum": 100, "description": "The most stoves."},
            "idle_seconds_before_scaledown": {
                "type": "integer",
                "default": 120,
                "description": "How long a stove may be idle.",
                "cli": cli("--idle-seconds", metavar="SECONDS"),
            },
        },
    },
    "credentials_schema": {"properties": {}},
}
LOCAL: dict[str, Any] = {
    "kind": "local",
    "description": "This computer.",
    "is_attachable": False,
    "is_managed": False,
    "has_nodes": False,
    "has_workspace_credential": False,
    "mutable_settings": [],
    "config_schema": {"properties": {}},
    "credentials_schema": None,
}
KINDS = {"kinds": [LOCAL, {**LOCAL, "kind": "docker"}, KITCHEN, SSH, TEAPOT]}


def server(**more: Any) -> FakeSession:
    answers = {
        f"GET {W}/kinds": KINDS,
        f"POST {W}/probe": PROBED,
        f"POST {W}/targets/box/probe": PROBED,
        f"POST {W}/targets": BOX,
        f"GET {W}/targets/box": BOX,
        f"GET {W}/kinds/ssh/workspace-credential": PUBLIC,
        f"GET {W}/targets": {"targets": [BOX, {**BOX, "name": "local", "kind": "local", "config": {}, "slots": 4}]},
    }
    return FakeSession({**answers, **more})


def free(**more: Any) -> FakeSession:
    """The same server, on which the name `box` is free."""
    return server(**{f"GET {W}/targets/box": NotFound("There is no target box."), **more})


def sent(session: FakeSession, what: str = f"POST {W}/targets") -> Any:
    [body] = [body for asked, body, _ in session.asked if asked == what]
    return body
