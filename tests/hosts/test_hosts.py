"""The hosts that other tests rely on are what they say: looked at with plain ssh."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.client import Client
from tests.hosts.network import Network


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def test_a_key_lets_in(network: Network, client: Client) -> None:
    host = network.host("box")
    client.meet(host)
    done = client.run(host, "id -un; hostname; pwd; cat /proc/sys/kernel/random/boot_id", key=network.key.path)
    assert done.stdout.split() == [host.user, "box", str(host.inner_home), host.boot_id], done.stderr


def test_a_password_lets_in_and_a_wrong_one_does_not(network: Network, client: Client) -> None:
    host = network.host()
    client.meet(host)
    assert client.run(host, "id -un", password=host.password).stdout == f"{host.user}\n"
    assert "Permission denied" in client.run(host, "id -un", password="wrong").stderr


def test_one_that_takes_keys_only_asks_for_no_password(network: Network, client: Client) -> None:
    host = network.host(takes_passwords=False)
    client.meet(host)
    assert "Permission denied (publickey)" in client.run(host, "true", password=host.password).stderr
    assert client.run(host, "true", key=network.key.path).returncode == 0


def test_hosts_are_separate(network: Network, client: Client) -> None:
    one, two = network.host("one"), network.host("two")
    client.meet(one, two)
    assert client.run(one, "sleep 600 >/dev/null 2>&1 & touch mine", key=network.key.path).returncode == 0
    assert [process.argv for process in one.processes() if process.name == "sleep"] == [("sleep", "600")]
    assert "sleep" not in client.run(two, "ps ax", key=network.key.path).stdout
    assert (one.home / "mine").exists() and not (two.home / "mine").exists()
    assert client.run(two, f"ls {one.inner_home}", key=network.key.path).returncode != 0
    assert one.boot_id != two.boot_id


def test_a_host_that_is_cut_off_is_silent_until_it_heals(network: Network, client: Client) -> None:
    host = network.host()
    client.meet(host)
    with host.partition():
        assert client.run(host, "true", "-oConnectTimeout=1", key=network.key.path).returncode == 255
    assert client.run(host, "true", key=network.key.path).returncode == 0
