"""Hosts that are odd in one way each."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest

from tests.hosts.client import Client
from tests.hosts.fakes import Act, fake_closing, fake_endless, fake_server, fake_silent, fake_tarpit, fake_web
from tests.hosts.network import Network


@pytest.fixture
def client(tmp_path: Path, network: Network) -> Client:
    return Client(tmp_path, network.key)


def test_without_python(network: Network, client: Client) -> None:
    host = network.host(has_python=False)
    assert client.run(host, "python3 -V").returncode == 127
    assert client.say(host, "ls /usr/bin/python* 2>/dev/null | wc -l") == "0\n"
    assert client.say(host, "echo still") == "still\n"


def test_with_another_python(network: Network, client: Client) -> None:
    host = network.host(python_prefix=Path(sys.base_prefix))
    version = client.say(host, "python3 -c 'import sys, json; print(sys.version)'")
    assert version.strip() == sys.version.strip()


def test_a_shell_that_is_a_script(network: Network, client: Client) -> None:
    host = network.host(shell='#!/bin/sh\necho noise\nexec /bin/sh "$@"\n')
    assert client.say(host, "echo word") == "noise\nword\n"


@pytest.mark.parametrize("shell", ["/usr/sbin/nologin", "/bin/false"])
def test_a_shell_that_lets_nobody_in(network: Network, client: Client, shell: str) -> None:
    assert client.run(network.host(shell=shell), "echo word").returncode == 1


def test_one_that_hangs_up_after_login(network: Network, client: Client) -> None:
    host = network.host(shell="#!/bin/sh\nkill -9 $PPID\n")
    assert client.run(host, "echo word").returncode == 255
    assert "Accepted publickey" in host.log


def test_a_forced_command_and_a_profile_that_talks(network: Network, client: Client) -> None:
    assert client.say(network.host(forced_command="/bin/echo forced"), "echo word") == "forced\n"
    host = network.host()
    (host.home / ".bashrc").write_text("echo profile\n")
    assert client.say(host, "echo word") == "profile\nword\n"


def test_settings_and_variables(network: Network, client: Client) -> None:
    host = network.host(environment={"A": "a b", "B": "c"}, settings=("MaxSessions 0",))
    assert client.run(host, "true").returncode == 255
    host = network.host(environment={"A": "a b", "B": "c"})
    assert client.say(host, "echo $A-$B") == "a b-c\n"


def test_a_home_that_cannot_be_written(network: Network, client: Client) -> None:
    host = network.host(is_home_read_only=True)
    assert "Read-only file system" in client.run(host, "touch x").stderr


def test_a_disk_that_is_full_and_gets_room(network: Network, client: Client) -> None:
    host = network.host(disk_kb=1024)
    assert "No space left" in client.run(host, "head -c 4M /dev/zero > big").stderr
    (host.home / "big").unlink()
    assert client.say(host, "head -c 1000 /dev/zero > small; wc -c < small") == "1000\n"


def test_nothing_may_be_executed_from_the_home(network: Network, client: Client) -> None:
    host = network.host(is_noexec=True)
    for folder in ("~", "/tmp"):
        assert client.run(host, f"cd {folder} && cp /bin/true mine && ./mine").returncode == 126


def test_a_clock_that_is_wrong_and_jumps(network: Network, client: Client) -> None:
    host = network.host(clock="+10y")
    told = int(client.say(host, "date +%s"))
    assert abs(told - time.time() - 10 * 365 * 86400) < 100_000
    assert client.say(host, "python3 -c 'import time; time.sleep(0.01); print(1)'") == "1\n"
    host.set_clock("-1h")
    assert abs(int(client.say(host, "date +%s")) - time.time() + 3600) < 60


@pytest.mark.parametrize("act", [fake_silent, fake_endless, fake_web, fake_closing])
def test_what_is_no_ssh_server(network: Network, client: Client, act: Act) -> None:
    host = network.host()
    with fake_server(network.address, act) as port:
        options = (f"-oHostName={network.address}", f"-p{port}", "-oConnectTimeout=1")
        assert client.run(host, "true", *options).returncode == 255


def test_a_tarpit_says_something_all_the_time_and_never_who_it_is(network: Network) -> None:
    """ssh's own ConnectTimeout may never come: it counts the waiting, and stops counting when a letter ends it."""
    with fake_server(network.address, fake_tarpit) as port, socket.create_connection((network.address, port)) as call:
        heard = b"".join(call.recv(100) for _ in range(20))
    assert heard.startswith(b"xxx") and b"SSH" not in heard
