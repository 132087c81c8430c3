"""The hosts that other tests rely on are what they say: looked at with plain ssh."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hosts.client import Client
from tests.hosts.keys import Key
from tests.hosts.names import NameServer
from tests.hosts.network import Network


@pytest.fixture
def client(tmp_path: Path, network: Network) -> Client:
    return Client(tmp_path, network.key)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def test_a_key_lets_in(network: Network, client: Client) -> None:
    host = network.host("box")
    told = client.say(host, "id -un; hostname; pwd; cat /proc/sys/kernel/random/boot_id").split()
    assert told == [host.user, "box", str(host.inner_home), host.boot_id]


def test_a_password_lets_in_and_a_wrong_one_does_not(network: Network, client: Client) -> None:
    host = network.host()
    assert client.run(host, "id -un", password=host.password).stdout == f"{host.user}\n"
    assert "Permission denied" in client.run(host, "id -un", password="wrong").stderr


def test_one_that_takes_keys_only_asks_for_no_password(network: Network, client: Client) -> None:
    host = network.host(takes_passwords=False)
    assert "Permission denied (publickey)" in client.run(host, "true", password=host.password).stderr
    assert client.run(host, "true").returncode == 0


def test_one_that_takes_passwords_only_looks_at_no_key(network: Network, client: Client) -> None:
    host = network.host(takes_keys=False)
    assert "Permission denied (password)" in client.run(host, "true").stderr
    assert client.run(host, "true", password=host.password).returncode == 0


def test_a_certificate_lets_in(network: Network, client: Client, tmp_path: Path) -> None:
    authority, key = Key.make(tmp_path / "authority"), Key.make(tmp_path / "visitor")
    host = network.host(authority=authority, authorized=())
    assert "Permission denied" in client.run(host, "true", key=key).stderr
    authority.certify(key, host.user)
    assert client.run(host, "true", key=key).returncode == 0


def test_hosts_are_separate(network: Network, client: Client) -> None:
    one, two = network.host("one"), network.host("two")
    client.say(one, "sleep 600 >/dev/null 2>&1 & touch mine")
    # The shell may be gone before its child has become what it was told to be.
    wait_until(lambda: "sleep" in [process.name for process in one.processes()], "it sleeps")
    [sleeper] = [process for process in one.processes() if process.name == "sleep"]
    assert sleeper.argv == ("sleep", "600") and one.outer_pid(sleeper.inner_pid) == sleeper.pid
    assert "sleep" not in client.say(two, "ps ax")
    assert (one.home / "mine").exists() and not (two.home / "mine").exists()
    assert client.run(two, f"ls {one.inner_home}").returncode != 0
    assert one.boot_id != two.boot_id
    assert client.say(one, f"bash -c 'exec 3<>/dev/tcp/{two.address}/22; head -c3 <&3'") == "SSH"


def test_one_behind_another_is_reached_through_it_only(network: Network, client: Client) -> None:
    jump = network.host("jump")
    inner = network.host("inner", behind=jump)
    client.meet(jump, inner)
    assert client.run(inner, "true", "-oConnectTimeout=1").returncode == 255
    through = " ".join(client.argv(jump, "-i", str(network.key.path), "-W", "%h:%p"))
    assert client.run(inner, "hostname", f"-oProxyCommand={through}").stdout == "inner\n"


def test_several_host_keys_are_offered_as_asked(network: Network, client: Client) -> None:
    host = network.host(host_keys=("ed25519", "ecdsa", "rsa"))
    for kind in ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512"):
        assert client.run(host, "true", f"-oHostKeyAlgorithms={kind}").returncode == 0


def test_one_that_was_replaced_is_another_at_the_same_address(network: Network, client: Client) -> None:
    old = network.host()
    client.say(old, "touch mine")
    new = network.replace(old)
    assert new.address == old.address
    changed = client.run(old, "true")
    assert changed.returncode == 255 and "REMOTE HOST IDENTIFICATION HAS CHANGED" in changed.stderr
    client.forget()
    assert client.say(new, "ls; cat /proc/sys/kernel/random/boot_id").split() == [new.boot_id]
    assert new.boot_id != old.boot_id


def test_one_that_was_set_up_anew_may_keep_its_host_key(network: Network, client: Client) -> None:
    old = network.host()
    client.say(old, "touch mine")
    new = network.replace(old, keeps_key=True)
    assert client.say(new, "ls; cat /proc/sys/kernel/random/boot_id").split() == [new.boot_id]
    assert new.boot_id != old.boot_id


def test_names_lead_where_the_test_says(network: Network, tmp_path: Path) -> None:
    host = network.host()
    with NameServer.serving(network.address) as names:
        ask = [*names.wrapper(tmp_path), "getent", "ahostsv4", "box.test"]
        assert subprocess.run(ask, capture_output=True, timeout=60).returncode == 2
        names.known["box.test"] = host.address
        found = subprocess.run(ask, capture_output=True, text=True, timeout=60)
        assert found.stdout.split()[0] == host.address
        names.is_failing = True
        assert subprocess.run(ask, capture_output=True, timeout=60).returncode == 2


def test_a_reboot_kills_all_and_keeps_the_disk(network: Network, client: Client) -> None:
    host = network.host()
    client.say(host, "setsid sleep 600 >/dev/null 2>&1 & touch mine")
    before = host.boot_id
    host.reboot()
    assert [process.name for process in host.processes()] == ["sshd"]
    assert client.say(host, "ls; cat /proc/sys/kernel/random/boot_id").split() == ["mine", host.boot_id]
    assert host.boot_id != before


def test_nothing_is_left_of_a_network_whose_maker_was_killed(tmp_path: Path) -> None:
    """Neither its hosts' processes, nor its folder, nor its wire."""
    program = """
import os, signal, time
from tests.hosts.network import Network
network = Network()
host = network.host()
host.run("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &")
print(network.folder, host.pid, network.interface, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60
    )
    folder, pid, interface = told.stdout.split()
    left = (Path(folder), Path("/proc", pid), Path("/sys/class/net", interface))
    wait_until(lambda: not any(map(os.path.exists, left)), f"{left} went")
