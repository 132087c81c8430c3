"""Where the server may be sent, in every spelling; what a name resolves to is what counts."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hosts.network import Network
from windlass.core.errors import Denied, InvalidRequest, TargetUnreachable
from windlass.server.security import egress_policy
from windlass.server.security.egress_policy import check_ip, checked_address, is_shared
from windlass.server.settings import Settings

EVERYWHERE = [
    "0.0.0.0",
    "::",
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fd00:ec2::254",
    "100.100.100.200",
    "168.63.129.16",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "::a9fe:a9fe",
    "metadata.google.internal",
    "Metadata.Google.Internal.",
]
OWN = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]
OTHERS = ["10.0.0.7", "192.168.1.1", "172.16.0.1", "8.8.8.8", "fd12::7", "2001:4860::8888", "::ffff:10.0.0.7"]


@pytest.mark.parametrize("address", EVERYWHERE)
@pytest.mark.parametrize("is_shared", [False, True])
def test_nobody_is_sent_to_what_is_no_machine_of_theirs(address: str, is_shared: bool) -> None:
    with pytest.raises(Denied, match="allowed_addresses"):
        checked_address(address, is_shared)


@pytest.mark.parametrize("address", OWN)
def test_the_servers_own_machine_is_its_users_business_unless_it_is_shared(address: str) -> None:
    assert checked_address(address, is_shared=False) == str(ipaddress.ip_address(address))
    with pytest.raises(Denied, match="the server's own machine"):
        checked_address(address, is_shared=True)


def test_so_are_the_addresses_of_its_interfaces(network: Network) -> None:
    for address in (network.address, f"::ffff:{network.address}"):
        assert checked_address(address, is_shared=False)
        with pytest.raises(Denied, match="the server's own machine"):
            checked_address(address, is_shared=True)
        assert checked_address(address, True, [network.address])
    assert checked_address(network.host().address, is_shared=True)


@pytest.mark.parametrize("address", OTHERS)
@pytest.mark.parametrize("is_shared", [False, True])
def test_other_machines_are_fine(address: str, is_shared: bool) -> None:
    assert checked_address(address, is_shared) == str(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["0", "2130706433", "0x7f.1", "127.1", "[::1]", "-oX", "a@b", "", "a\nb"])
def test_what_is_no_address_is_refused_before_anybody_is_asked(address: str) -> None:
    with pytest.raises(InvalidRequest):
        checked_address(address, is_shared=False)


def test_an_administrator_may_allow_what_is_refused() -> None:
    given: dict[str, Any] = {"home": "/nowhere", "allowed_addresses": ["127.0.0.0/8", "169.254.7.7"]}
    allowed = Settings(**given).allowed_addresses
    assert checked_address("127.0.0.1", True, allowed) == "127.0.0.1"
    assert checked_address("::ffff:127.0.0.1", True, allowed)
    assert checked_address("169.254.7.7", False, allowed)
    with pytest.raises(Denied):
        checked_address("169.254.169.254", False, allowed)


class Names:
    """A name server with answers of ours, one list for each time it is asked."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}

    def __call__(self, host: str, port: Any, **more: Any) -> list[Any]:
        found = self.answers.get(host)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (ip, 0)) for ip in (found.pop(0) if len(found) > 1 else found[0])]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    known = Names()
    monkeypatch.setattr(socket, "getaddrinfo", known)
    yield known


def test_every_address_of_a_name_must_be_fine(resolver: Names) -> None:
    resolver.answers["two.example.org"] = [["8.8.8.8", "::1"]]
    assert checked_address("two.example.org", is_shared=False) == "8.8.8.8"
    with pytest.raises(Denied):
        checked_address("two.example.org", is_shared=True)


def test_a_name_that_changes_its_mind_is_checked_each_time(resolver: Names) -> None:
    resolver.answers["rebind.example.org"] = [["8.8.8.8"], ["127.0.0.1"]]
    assert checked_address("rebind.example.org", is_shared=True) == "8.8.8.8"
    with pytest.raises(Denied):
        checked_address("rebind.example.org", is_shared=True)


def test_a_name_that_only_ssh_knows_is_left_to_it_on_a_private_server(resolver: Names) -> None:
    assert checked_address("gpu-box", is_shared=False) is None
    with pytest.raises(TargetUnreachable, match="cannot be resolved"):
        checked_address("gpu-box", is_shared=True)


def test_a_name_server_that_hangs_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def silent(*_: Any, **__: Any) -> list[Any]:
        over.wait(30)
        raise socket.gaierror(socket.EAI_AGAIN, "later")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    monkeypatch.setattr(egress_policy, "RESOLVE_SECONDS", 0.05)
    try:
        with pytest.raises(TargetUnreachable, match="could not be resolved"):
            checked_address("slow.example.org", is_shared=False)
    finally:
        over.set()


def test_an_address_that_was_looked_up_elsewhere_is_held_to_the_same() -> None:
    with pytest.raises(Denied, match="box"):
        check_ip("box", ipaddress.ip_address("169.254.169.254"), is_shared=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"host": "localhost"}, False),
        ({"host": "0.0.0.0", "behind_proxy": True}, True),
        ({"behind_proxy": True}, True),
        ({"public_url": "https://windlass.example.org"}, True),
        ({"database": "postgresql://localhost/windlass"}, True),
    ],
)
def test_a_server_is_shared_as_soon_as_others_may_come(changes: dict[str, Any], expected: bool) -> None:
    assert is_shared(Settings(**{"home": "/nowhere", **changes})) is expected
