"""Group E: addresses, ports, accounts, keys and machines that are not what they should be.

The server on SQLite is a private one, whose user may go anywhere; the one on PostgreSQL is shared.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.hosts.network import Network
from tests.inputs.outside import WS, Answer, Outside

TARGETS = f"{WS}/targets"


def ask(server: Outside, path: str = "/targets", credentials: dict[str, Any] | None = None, **config: Any) -> Answer:
    """An attach, or a question who is there, with this configuration."""
    given = {"address": "10.64.0.1", "username": "jane", "login": "password", **config}
    body: dict[str, Any] = {"kind": "ssh", "config": given}
    if path == "/targets":
        body |= {"name": "box", "credentials": {"password": "x"} if credentials is None else credentials}
    return server.call("POST", WS + path, body)


def both(server: Outside, **config: Any) -> list[Answer]:
    return [ask(server, **config), ask(server, "/probe", **config)]


@contextmanager
def listening() -> Iterator[tuple[int, list[Any]]]:
    """A port of this computer, and who has called there."""
    callers: list[Any] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as here:

        def accept() -> None:
            while True:
                try:
                    connection, caller = here.accept()
                except OSError:
                    return
                callers.append(caller)
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield here.getsockname()[1], callers
        here.shutdown(socket.SHUT_RDWR)


# Spellings that mean this computer to whoever resolves them, and are no address to us.
NO_ADDRESS = {
    "E3 zero": "0",
    "E4 one number": "2130706433",
    "E5 hexadecimal": "0x7f.1",
    "E5 hexadecimal whole": "0x7f000001",
    "E6 short": "127.1",
    "E6 octal": "0177.0.0.1",
    "E7 brackets": "[::1]",
    "E8 brackets around a mapped one": "[::ffff:127.0.0.1]",
    "E14 an option": "-oProxyCommand=touch {canary}",
    "E14 a host and an option": "host -oProxyCommand=touch {canary}",
    "E14 a short option": "-F/etc/passwd",
    "E15 with a user": "jane@host",
    "E15 as a URL": "ssh://host",
    "E15 as a web page": "http://169.254.169.254/",
    "E16 newline": "host\nProxyCommand touch {canary}",
    "E16 carriage return": "host\r",
    "E16 token of ssh": "%h",
    "E16 space": "a b",
    "E16 substitution": "$(touch {canary})",
    "E16 backquotes": "`touch {canary}`",
    "E16 semicolon": "host;touch {canary}",
    "E16 zone": "fe80::1%eth0",
    "E16 tilde": "~root",
    "E16 empty": "",
    "E16 65,536 characters": "a" * 65_536,
    "E16 dots": "a..b",
    "E16 other letters": "h\u00f6st",
}


@pytest.mark.parametrize("which", NO_ADDRESS)
def test_what_is_no_address_is_refused(sqlite: Outside, which: str) -> None:
    address = NO_ADDRESS[which].replace("{canary}", str(sqlite.canary))
    with sqlite.unchanged():
        for answer in both(sqlite, address=address):
            assert "address" in answer.refused(400).lower()


FORBIDDEN = {
    "E3 any": "0.0.0.0",
    "E3 any of IPv6": "::",
    "E9 metadata": "169.254.169.254",
    "E9 metadata, mapped": "::ffff:169.254.169.254",
    "E9 metadata, translated": "64:ff9b::a9fe:a9fe",
    "E9 link-local": "169.254.1.1",
    "E10 metadata of IPv6": "fd00:ec2::254",
    "E10 link-local of IPv6": "fe80::1",
    "E11 metadata by name": "metadata.google.internal",
    "E11 in capitals": "METADATA.google.internal.",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
}


@pytest.mark.parametrize("which", FORBIDDEN)
def test_where_nobody_may_be_sent(server: Outside, which: str) -> None:
    with server.unchanged():
        for answer in both(server, address=FORBIDDEN[which]):
            assert "nothing is attached there" in answer.refused(403)


OWN = {
    "E1 loopback": "127.0.0.1",
    "E1 another of loopback": "127.9.9.9",
    "E2 by name": "localhost",
    "E7 of IPv6": "::1",
    "E8 mapped": "::ffff:127.0.0.1",
    "E8 compatible": "::127.0.0.1",
}


@pytest.mark.parametrize("which", OWN)
def test_a_shared_server_does_not_call_on_its_own_machine(on_postgresql: Outside, which: str) -> None:
    with listening() as (port, callers), on_postgresql.unchanged():
        for answer in both(on_postgresql, address=OWN[which], port=port):
            assert "the server's own machine" in answer.refused(403)
        assert callers == []
    on_postgresql.check_unharmed()


def test_on_a_private_server_this_computer_is_its_users_own_business(sqlite: Outside) -> None:
    with listening() as (port, callers), sqlite.unchanged():
        answer = ask(sqlite, "/probe", address="127.0.0.1", port=port)
        assert answer.status == 503 and answer.error["code"] == "target_unreachable"
        assert callers, "it was tried"


def test_a_jump_host_is_a_target_that_is_there(server: Outside) -> None:
    with server.unchanged():
        for jump in ("nowhere", "local"):
            assert ask(server, "/probe", jump=jump).refused(400, 404)
        assert ask(server, jump="-oProxyCommand=x").refused(400)


@pytest.mark.parametrize("port", [0, 65_536, -1, "22;id", 22.5, True, 10**30, "22 -oX"])
def test_e17_what_is_no_port_is_refused(sqlite: Outside, port: Any) -> None:
    with sqlite.unchanged():
        for answer in both(sqlite, port=port):
            assert "port" in answer.refused(400)


@pytest.mark.parametrize(
    "user",
    ["-l", "root;id", "", "a" * 300, "a b", "a\nb", "$(id)", "`id`", "%u", "\u202e", "a:b", "root@-oX\n"],
)
def test_e18_what_is_no_account_is_refused(sqlite: Outside, user: str) -> None:
    with sqlite.unchanged():
        for answer in both(sqlite, username=user):
            assert "user name" in answer.refused(400)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"python": "python3; touch {canary}"}, "path"),
        ({"python": "-c"}, "path"),
        ({"root": "../../etc"}, "folder"),
        ({"login": "telepathy"}, "login"),
        ({"colour": "red"}, "colour"),
        ({"docker": "perhaps"}, "docker"),
    ],
)
def test_settings_that_cannot_be_are_named(sqlite: Outside, changes: dict[str, str], word: str) -> None:
    given: dict[str, Any] = {key: value.replace("{canary}", str(sqlite.canary)) for key, value in changes.items()}
    with sqlite.unchanged():
        assert word in ask(sqlite, **given).refused(400)


def test_what_is_no_host_key_is_not_pinned(sqlite: Outside) -> None:
    config = {"address": "10.64.0.1", "username": "jane", "login": "workspace-key"}
    with sqlite.unchanged():
        body = {"name": "box", "kind": "ssh", "config": config, "pin": "no key"}
        assert "host's public key" in sqlite.call("POST", TARGETS, body).refused(400)


CREDENTIALS: dict[str, tuple[dict[str, Any], str]] = {
    "E19 none": ({}, "needs password"),
    "E19 empty": ({"password": ""}, "password"),
    "E19 not a text": ({"password": 7}, "password"),
    "E19 NUL": ({"password": "a\0b"}, "NUL"),
    "E19 two lines": ({"password": "a\nb"}, "cannot be typed"),
    "E19 huge": ({"password": "x" * 5000}, "password"),
    "E19 public key": ({"private_key": "ssh-ed25519 AAAA"}, "public key"),
    "E19 PuTTY": ({"private_key": "PuTTY-User-Key-File-2: ssh-rsa\n"}, "PuTTY"),
    "E19 no key": ({"private_key": "hello"}, "not a private key"),
    "E19 NUL in a key": ({"private_key": "-----BEGIN OPENSSH PRIVATE KEY-----\n\0"}, "NUL"),
    "E19 10 MB": ({"private_key": "x" * 10_000_000}, "private_key"),
    "E19 passphrase alone": ({"passphrase": "x"}, "no private key"),
    "unknown": ({"pin": "1234"}, "pin"),
}


@pytest.mark.parametrize("which", CREDENTIALS)
def test_credentials_that_are_none_are_refused_and_not_repeated(sqlite: Outside, which: str) -> None:
    given, word = CREDENTIALS[which]
    with sqlite.unchanged():
        assert word in ask(sqlite, credentials=given).refused(400, 422)


@pytest.mark.parametrize("kind", ["", "local", "docker", "dummy", "SSH", "../ssh", "_openssh", "base", "x" * 10_000])
def test_kinds_that_are_not_attached(sqlite: Outside, kind: str) -> None:
    with sqlite.unchanged():
        for path, more in (("/targets", {"name": "box"}), ("/probe", {})):
            answer = sqlite.call("POST", WS + path, {"kind": kind, "config": {}, **more})
            assert answer.refused(400, 404, 422)


@pytest.mark.parametrize("name", ["local", "docker"])
def test_the_servers_own_targets_are_neither_replaced_nor_detached(server: Outside, name: str) -> None:
    with server.unchanged():
        config = {"address": "10.64.0.1", "username": "jane", "login": "workspace-key"}
        assert server.call("POST", TARGETS, {"name": name, "kind": "ssh", "config": config}).refused(409)
        assert server.call("DELETE", f"{TARGETS}/{name}").refused(409)
        assert server.call("DELETE", f"{TARGETS}/{name}?force=true").refused(409)


@pytest.mark.parametrize("query", ["?force=perhaps", "?force=true&force=false", "?really=true"])
def test_a_detach_that_cannot_be_read_does_nothing(sqlite: Outside, query: str) -> None:
    with sqlite.unchanged():
        assert sqlite.call("DELETE", f"{TARGETS}/nowhere{query}").refused(400)


def test_e26_of_those_who_attach_at_once_under_one_name_one_does(server: Outside, network: Network) -> None:
    machine = network.host("box")
    config = {"address": machine.address, "username": machine.user, "login": "password"}
    body = {"name": "twice", "kind": "ssh", "config": config, "credentials": {"password": machine.password}}
    answers: list[Answer] = []

    def attach(slots: int) -> None:
        answers.append(server.call("POST", TARGETS, {**body, "slots": slots}))

    threads = [threading.Thread(target=attach, args=(slots,)) for slots in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert sorted(answer.status for answer in answers) == [201, 409, 409]
        [made] = [answer.json for answer in answers if answer.status == 201]
        for answer in answers:
            if answer.status == 409:
                answer.refused(409)
        assert server.call("GET", f"{TARGETS}/twice").kept()["slots"] == made["slots"]
    finally:
        assert server.call("DELETE", f"{TARGETS}/twice").kept()["left"] == []
