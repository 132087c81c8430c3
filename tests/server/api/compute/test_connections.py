"""Connections over HTTP: added by owners, read without credentials, refused where they cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.serving import HOME, Answer, Server
from windlass.drivers.openssh import keys

CONNECTIONS = f"{HOME}/connections"
CANARY = "the-canary-sings"
ID = "/subscriptions/12f4/resourceGroups/RG/providers/Microsoft.Databricks/workspaces/WS"
HOST = {"host": "https://adb-1.2.azuredatabricks.net/"}
KUBECONFIG = f"""
apiVersion: v1
clusters: [{{name: c, cluster: {{server: "https://k8s:6443", certificate-authority-data: QQ==}}}}]
users: [{{name: u, user: {{token: {CANARY}}}}}]
contexts: [{{name: main, context: {{cluster: c, user: u}}}}, {{name: other, context: {{cluster: c, user: u}}}}]
current-context: main
"""
SLURM = {"engine": "slurm", "address": "login.hpc", "username": "jane", "login": "password"}
BATCH = {"engine": "azurebatch", "url": "https://acc.westeurope.batch.azure.com"}


def body(kind: str = "databricks", **changes: Any) -> dict[str, Any]:
    usual: dict[str, dict[str, Any]] = {
        "databricks": {"config": HOST, "credentials": {"token": CANARY}},
        "aks": {"config": {"context": "other"}, "credentials": {"kubeconfig": KUBECONFIG}},
        "batch": {"config": SLURM, "credentials": {"password": CANARY}},
        "adla": {"config": {"folder": "abfss://files@lake/data"}},
        "vm": {"config": {"address": "10.0.0.7", "port": 2222}},
    }
    return {"name": "place", "kind": kind, "resource_group": "RG", "resource_name": "WS", **usual[kind], **changes}


def add(server: Server, kind: str = "databricks", **changes: Any) -> Answer:
    return server.call("POST", CONNECTIONS, body(kind, **changes))


def names(server: Server) -> list[str]:
    return [each["name"] for each in server.call("GET", CONNECTIONS).json["connections"]]


def acts(server: Server) -> list[tuple[str, str]]:
    entries = server.call("GET", f"{HOME}/audit").json["entries"]
    return [(entry["act"], entry["object"]) for entry in reversed(entries)]


def test_a_connection_is_added_shown_changed_and_removed(server: Server) -> None:
    added = add(server)
    assert added.status == 201
    view = {key: value for key, value in added.json.items() if not key.endswith("_at")}
    assert view == {
        "name": "place",
        "kind": "databricks",
        "subscription_id": "",
        "resource_group": "RG",
        "resource_name": "WS",
        "config": {"host": "https://adb-1.2.azuredatabricks.net"},
        "created_by": "owner",
    }
    assert server.call("GET", f"{CONNECTIONS}/place").json == added.json
    changed = add(server, exist_ok=True, credentials={"token": "another-token"})
    assert changed.status == 201 and changed.json["created_at"] == added.json["created_at"]
    assert kept(server, "token") == "another-token"
    assert server.call("DELETE", f"{CONNECTIONS}/place").status == 204
    assert server.call("DELETE", f"{CONNECTIONS}/place").status == 404
    assert names(server) == [] and server.store.secrets.find("default", "connection/place/token") is None
    assert acts(server) == [
        ("secret.set", "connection/place/token"),
        ("connection.add", "place"),
        ("secret.set", "connection/place/token"),
        ("connection.replace", "place"),
        ("secret.use", "connection/place/token"),
        ("secret.delete", "connection/place/token"),
        ("connection.remove", "place"),
    ]


def kept(server: Server, what: str, name: str = "place") -> str:
    return server.context.secret_store.use("default", f"connection/{name}/{what}", "owner", {}).get_secret_value()


def test_every_kind_keeps_what_opens_it(server: Server) -> None:
    key, _ = keys.make_key_pair("")
    for kind, what, value in (
        ("databricks", "token", CANARY),
        ("aks", "kubeconfig", KUBECONFIG),
        ("batch", "password", CANARY),
    ):
        assert add(server, kind, name=kind).status == 201
        assert kept(server, what, kind) == value
    by_key = {"config": {**SLURM, "login": "key", "port": 2222}, "credentials": {"private_key": key}}
    assert add(server, "batch", name="by-key", resource_name="two", **by_key).status == 201
    assert kept(server, "private-key", "by-key").startswith("-----BEGIN")
    account = {"config": BATCH, "credentials": {"account_key": CANARY}}
    assert add(server, "batch", name="account", resource_name="three", **account).status == 201
    assert kept(server, "account-key", "account") == CANARY
    for kind in ("adla", "vm"):
        assert add(server, kind, name=kind).status == 201
    assert names(server) == ["account", "adla", "aks", "batch", "by-key", "databricks", "vm"]


def test_a_resource_id_says_the_same_as_its_parts(server: Server) -> None:
    by_id = add(server, resource_id=ID, resource_group="", resource_name="")
    assert (by_id.json["subscription_id"], by_id.json["resource_group"], by_id.json["resource_name"]) == (
        "12f4",
        "RG",
        "WS",
    )
    parts = {"subscription_id": "12F4", "resource_group": "rg", "resource_name": "ws"}
    again = add(server, name="second", **parts)
    assert again.status == 409 and "place has these coordinates already" in again.json["error"]["message"]
    assert add(server, name="third", resource_id=ID).status == 400, "both are one too many"


def test_a_repeated_request_is_the_same_and_another_one_is_not(server: Server) -> None:
    first = add(server)
    assert (add(server).status, add(server).json) == (201, first.json)
    for change in ({"credentials": {"token": "other"}}, {"config": {"host": "https://b"}}, {"resource_name": "x"}):
        refused = add(server, **change)
        assert refused.status == 409 and refused.code == "already_exists"
    assert kept(server, "token") == CANARY
    assert add(server, "vm", exist_ok=True).status == 409, "a connection does not change its kind"


def test_credentials_are_shown_to_no_one_and_survive_a_rotation(server: Server) -> None:
    add(server)
    reader = server.make_token("reader")
    for path in (CONNECTIONS, f"{CONNECTIONS}/place", f"{HOME}/audit", f"{HOME}/secrets"):
        for token in ("", reader):
            assert CANARY.encode() not in server.call("GET", path, token=token).raw
    assert server.call("GET", f"{CONNECTIONS}/place", token=reader).status == 200
    assert server.call("POST", f"{HOME}/secrets/connection%2Fplace%2Ftoken/sealed").status in (400, 404)
    assert server.call("POST", f"{HOME}/keys/rotate").json["resealed"] == 1
    assert kept(server, "token") == CANARY


def test_one_that_a_target_uses_stays(server: Server) -> None:
    add(server)
    server.store.targets.ensure("default", "bricks", "local", {"connection": "place"}, None, True)
    refused = server.call("DELETE", f"{CONNECTIONS}/place")
    assert refused.status == 409 and "used by bricks" in refused.json["error"]["message"]


def test_a_shared_server_offers_nothing_of_its_own_account(server: Server) -> None:
    """The server on PostgreSQL is shared; the one on SQLite belongs to its user."""
    is_shared = server.context.settings.database.startswith("postgres")
    exec_plugin = KUBECONFIG.replace(f"token: {CANARY}", "exec: {command: aws}")
    for number, (kind, changes) in enumerate(
        [
            ("adla", {"config": {"folder": "/data/lake"}}),
            ("batch", {"config": {**SLURM, "login": "agent"}, "credentials": {}}),
            ("aks", {"credentials": {"kubeconfig": exec_plugin}}),
        ]
    ):
        answer = add(server, kind, name=f"n{number}", **changes)
        assert answer.status == (400 if is_shared else 201), answer.raw
        assert not is_shared or "share this server" in answer.json["error"]["message"]


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no such kind": ("databricks", {"kind": "teapot"}, "kind"),
    "no coordinates": ("databricks", {"resource_group": "", "resource_name": ""}, "resource group"),
    "no group": ("databricks", {"resource_group": ""}, "resource group"),
    "no name": ("databricks", {"resource_name": ""}, "name"),
    "slash in a group": ("databricks", {"resource_group": "a/b"}, "resource group"),
    "direction in a name": ("databricks", {"resource_name": "a\u202eb"}, "name"),
    "long group": ("databricks", {"resource_group": "x" * 300}, "resource_group"),
    "no id": ("databricks", {"resource_id": "/a/b", "resource_group": "", "resource_name": ""}, "id of a resource"),
    "no host": ("databricks", {"config": {}}, "host"),
    "plain http": ("databricks", {"config": {"host": "http://a"}}, "https"),
    "host with a user": ("databricks", {"config": {"host": f"https://{CANARY}@a"}}, "no user"),
    "unknown setting": ("databricks", {"config": {**HOST, "colour": "red"}}, "colour"),
    "no token": ("databricks", {"credentials": {}}, "needs token"),
    "empty token": ("databricks", {"credentials": {"token": ""}}, "token"),
    "token of another type": ("databricks", {"credentials": {"token": [CANARY]}}, "token"),
    "huge token": ("databricks", {"credentials": {"token": CANARY * 10_000}}, "token"),
    "other credentials": ("databricks", {"credentials": {"password": CANARY}}, "needs token"),
    "too many credentials": ("databricks", {"credentials": {"token": CANARY, "password": CANARY}}, "needs token"),
    "unknown credentials": ("databricks", {"credentials": {"pin": CANARY}}, "pin"),
    "credentials of a machine": ("vm", {"credentials": {"password": CANARY}}, "no credentials"),
    "no address": ("vm", {"config": {"address": "-oProxyCommand=x"}}, "address"),
    "no port": ("vm", {"config": {"address": "a", "port": 0}}, "port"),
    "no engine": ("batch", {"config": {"address": "a"}}, "engine"),
    "another engine": ("batch", {"config": {"engine": "pbs"}}, "engine"),
    "no account there": ("batch", {"config": {**SLURM, "username": "-l"}}, "user name"),
    "login without its secret": ("batch", {"credentials": {}}, "needs password"),
    "key that is none": (
        "batch",
        {"config": {**SLURM, "login": "key"}, "credentials": {"private_key": CANARY}},
        "private key",
    ),
    "no folder": ("adla", {"config": {"folder": "data"}}, "absolute folder"),
    "folder of two lines": ("adla", {"config": {"folder": "/a\nb"}}, "absolute folder"),
    "no YAML": ("aks", {"credentials": {"kubeconfig": "[" + CANARY}}, "no kubeconfig"),
    "no kubeconfig": ("aks", {"credentials": {"kubeconfig": CANARY}}, "no kubeconfig"),
    "levels without end": ("aks", {"credentials": {"kubeconfig": "[" * 5000}}, "no kubeconfig"),
    "no context": ("aks", {"credentials": {"kubeconfig": "contexts: []"}}, "no context"),
    "another context": ("aks", {"config": {"context": "third"}}, "no context"),
    "contexts of another type": ("aks", {"credentials": {"kubeconfig": "contexts: 5"}}, "no context"),
    "file of another computer": (
        "aks",
        {"credentials": {"kubeconfig": KUBECONFIG.replace(f"token: {CANARY}", "client-key: /k.pem")}},
        "client-key",
    ),
}


@pytest.mark.parametrize("which", BAD)
def test_what_cannot_be_a_connection_is_refused_and_not_repeated(shared: Server, which: str) -> None:
    kind, changes, word = BAD[which]
    answer = shared.call("POST", CONNECTIONS, {**body(kind, name="bad"), **changes})
    assert answer.status in (400, 413, 422) and word in answer.json["error"]["message"], answer.raw
    assert CANARY.encode() not in answer.raw
    assert "bad" not in names(shared)
