"""E25, E31 to E34: coordinates, addresses and credentials of connections that are not what they should be.

The server on SQLite is a private one, the one on PostgreSQL is shared.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.inputs.outside import WS, Answer, Outside

CONNECTIONS = f"{WS}/connections"
CANARY = "the-canary-sings"
KUBECONFIG = f"""
clusters: [{{name: c, cluster: {{server: "https://k8s:6443"}}}}]
users: [{{name: u, user: {{token: {CANARY}}}}}]
contexts: [{{name: main, context: {{cluster: c, user: u}}}}]
current-context: main
"""
LEVELS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


def add(server: Outside, kind: str = "vm", **changes: Any) -> Answer:
    usual: dict[str, dict[str, Any]] = {
        "vm": {"config": {"address": "10.64.0.1"}},
        "databricks": {"config": {"host": "https://bricks"}, "credentials": {"token": CANARY}},
        "aks": {"credentials": {"kubeconfig": KUBECONFIG}},
        "adla": {"config": {"folder": "abfss://files@lake/data"}},
    }
    place = {"resource_group": "rg", "resource_name": "box"}
    return server.call("POST", CONNECTIONS, {"name": "bad", "kind": kind, **place, **usual[kind], **changes})


PARTS = ["", " ", "a/b", "..//", "a\nb", "a\tb", "a\0b", "\x1b[31m", "\u202e", "\u2028", "x" * 261, "x" * 100_000]


@pytest.mark.parametrize("part", PARTS, ids=ascii)
def test_e31_what_is_no_part_of_coordinates_is_refused(sqlite: Outside, part: str) -> None:
    with sqlite.unchanged():
        for field in ("resource_group", "resource_name"):
            add(sqlite, **{field: part}).refused(400)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "/" * 8,
        "subscriptions/s/resourceGroups/g/providers/p/t/n",
        "/subscriptions/s/resourceGroups/g/providers/p/t/n/more",
        "/subscriptions/s/resourceGroups/../providers/p/t/a\x1b[31m",
        "/subscriptions//resourceGroups//providers/p/t/",
        "x" * 3000,
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_e31_what_is_no_resource_id_is_refused(sqlite: Outside, text: str) -> None:
    with sqlite.unchanged():
        add(sqlite, resource_id=text, resource_group="", resource_name="").refused(400)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        *(("vm", {"address": address}) for address in ("-oProxyCommand=x", "user@host", "ssh://host", "0x7f.1", "a b")),
        *(("vm", {"address": "a", "port": port}) for port in (0, 65_536, "22;id", True)),
        *(
            ("databricks", {"host": host})
            for host in ("http://a", "file:///etc/passwd", "https://", "https://a\nb", f"https://u:{CANARY}@a", "a")
        ),
        *(("adla", {"folder": folder}) for folder in ("", "data", "../data", "/a\nb", "/a\x1b[31m")),
    ],
    ids=ascii,
)
def test_e25_places_that_cannot_be_are_refused(sqlite: Outside, kind: str, config: dict[str, Any]) -> None:
    with sqlite.unchanged():
        assert CANARY not in add(sqlite, kind, config=config).refused(400)


@pytest.mark.parametrize(
    "text",
    [
        "\0",
        "- a",
        "[" * 5000,
        "a: !!python/object/apply:os.system [id]",
        LEVELS,
        "contexts: &x [*x]",
        KUBECONFIG.replace("user: {token", "user: {client-key: /etc/shadow, token"),
        "x" * 10_000_000,
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_e32_kubeconfigs_that_are_none_are_refused_and_not_repeated(sqlite: Outside, text: str) -> None:
    with sqlite.unchanged():
        assert CANARY not in add(sqlite, "aks", credentials={"kubeconfig": text}).refused(400, 413)


def test_e33_a_shared_server_keeps_nothing_that_uses_its_own_account(on_postgresql: Outside) -> None:
    starts_a_program = KUBECONFIG.replace(f"token: {CANARY}", "exec: {command: id}")
    with on_postgresql.unchanged():
        said = add(on_postgresql, "aks", credentials={"kubeconfig": starts_a_program}).refused(400)
        assert "share this server" in said
        assert "share this server" in add(on_postgresql, "adla", config={"folder": "/etc"}).refused(400)
    on_postgresql.check_unharmed()


def test_e34_of_those_that_name_the_same_coordinates_at_once_one_is_added(server: Outside) -> None:
    answers: dict[str, Answer] = {}

    def ask(spelling: str) -> None:
        answers[spelling] = add(server, name=spelling, resource_name=spelling)

    threads = [threading.Thread(target=ask, args=(spelling,)) for spelling in ("box", "Box", "BOX")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = [name for name, answer in answers.items() if answer.status == 201]
    try:
        assert len(kept) == 1
        for name in answers.keys() - kept:
            assert f"The connection {kept[0]} has these coordinates" in answers[name].refused(409)
    finally:
        for name in kept:
            server.call("DELETE", f"{CONNECTIONS}/{name}").kept()
