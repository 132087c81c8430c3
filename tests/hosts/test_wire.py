"""What can happen to a host's connection does happen, and heals."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.hosts.client import Client
from tests.hosts.host import Host
from tests.hosts.network import Network
from tests.hosts.proxy import Break, How


@pytest.fixture
def client(tmp_path: Path, network: Network) -> Client:
    return Client(tmp_path, network.key)


def call(host: Host) -> socket.socket:
    """A connection on which sshd has said who it is."""
    made = socket.create_connection((host.address, host.port), timeout=30)
    assert made.recv(4) == b"SSH-"
    return made


def hears(host: Host, patience: float = 0.5) -> bool:
    """Whether anybody answers at a new connection."""
    try:
        with socket.create_connection((host.address, host.port), timeout=patience) as made:
            return made.recv(4) == b"SSH-"
    except OSError:
        return False


def test_a_host_that_is_cut_off_is_silent_until_it_heals(network: Network, client: Client) -> None:
    host, other = network.host(), network.host()
    with call(host) as standing:
        with host.partition():
            assert not hears(host) and hears(other, 30)
            standing.sendall(b"SSH-2.0-me\r\n")
        assert standing.recv(1 << 16), "what was sent meanwhile arrives after all"
    assert client.say(host, "echo word") == "word\n"


@pytest.mark.parametrize("ways", [("incoming",), ("outgoing",), ("incoming", "outgoing")])
def test_one_way_or_both_can_be_dropped(network: Network, ways: tuple[str, ...]) -> None:
    host = network.host()
    host.block(**dict.fromkeys(ways, True))
    assert not hears(host)
    host.heal()
    assert hears(host, 30)


def test_one_behind_another_can_be_cut_off(network: Network) -> None:
    jump = network.host()
    inner = network.host(behind=jump)
    probe = ("bash", "-c", f"exec 3<>/dev/tcp/{inner.address}/22; head -c 4 <&3")
    assert jump.run(*probe) == "SSH-"
    with inner.partition():
        with pytest.raises(AssertionError):
            jump.run("timeout", "1", *probe)
    assert jump.run("timeout", "20", *probe) == "SSH-"


def test_connections_are_reset_and_new_ones_made(network: Network) -> None:
    host = network.host()
    with call(host) as standing:
        host.reset_connections()
        with pytest.raises(ConnectionResetError):
            while standing.recv(1 << 16):
                pass
    assert hears(host, 30)


def test_sessions_are_killed_and_sshd_goes_on(network: Network, client: Client) -> None:
    host = network.host()
    with client.start(host, "echo up; exec sleep 600") as session:
        assert session.stdout is not None and session.stdout.readline() == "up\n"
        host.kill_connections()
        assert session.wait(60) == 255
    assert client.say(host, "echo word") == "word\n"


def test_a_stopped_sshd_refuses(network: Network) -> None:
    host = network.host()
    host.stop_sshd()
    with pytest.raises(ConnectionRefusedError):
        call(host)
    host.start_sshd()
    assert hears(host, 30)


def test_lost_packets_are_sent_again(network: Network, client: Client) -> None:
    host = network.host()
    host.loss(20)
    # Whoever loses the same packet again and again waits twice as long each time.
    said = client.run(host, "head -c 100000 /dev/zero | wc -c", "-oConnectTimeout=280", seconds=300).stdout
    assert said == "100000\n"
    assert "statistic" in host.run("iptables", "-S", is_root=True)
    host.heal()
    assert "statistic" not in host.run("iptables", "-S", is_root=True)


def test_a_narrow_line_takes_its_time(network: Network, client: Client) -> None:
    host = network.host()
    host.bandwidth(1000)
    began = time.monotonic()
    said = client.run(host, "base64 /dev/urandom | head -c 200000")
    assert said.returncode == 0 and time.monotonic() - began > 1  # 1.6 Mbit less what the burst lets through
    host.heal()
    assert "tbf" not in host.run("tc", "qdisc", is_root=True)


def test_a_proxy_delays(network: Network) -> None:
    proxy = network.proxy(network.host())
    proxy.delay(0.2, 0.05)
    began = time.monotonic()
    with socket.create_connection((proxy.address, proxy.port), timeout=30) as made:
        assert made.recv(4) == b"SSH-"
    assert time.monotonic() - began >= 0.15


def test_a_proxy_breaks_a_connection_at_a_byte(network: Network) -> None:
    proxy = network.proxy(network.host())
    proxy.break_next(Break(How.CLOSE, down=3), Break(How.RESET, down=5), Break(How.STALL, down=7))
    expected: list[tuple[bytes, type[Exception] | None]] = [
        (b"SSH", None), (b"SSH-2", ConnectionResetError), (b"SSH-2.0", TimeoutError),
    ]  # fmt: skip
    for text, error in expected:
        with socket.create_connection((proxy.address, proxy.port), timeout=30) as made:
            heard = b""
            try:
                while piece := made.recv(100):
                    heard += piece
                    if error is TimeoutError and heard == text:
                        made.settimeout(0.5)  # nothing more comes
                ended: type[Exception] | None = None
            except OSError as e:
                ended = type(e)
        assert (heard, ended) == (text, error)
    with socket.create_connection((proxy.address, proxy.port), timeout=30) as made:
        assert made.recv(100).startswith(b"SSH-2.0-OpenSSH")
    assert proxy.connections == 4
