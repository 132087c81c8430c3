"""OpenSSH's client as we call it: whoever answers may say anything, and what we start ends with us."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.drivers.test_ssh import Given, by_key, config, links, pinned, stand_in, with_user_config
from tests.hosts.keys import Key
from tests.hosts.network import Network
from windlass.core.errors import TargetRejected, TargetUnreachable
from windlass.drivers import _keys
from windlass.drivers.base import Links, Surroundings
from windlass.drivers.ssh import SshDriver

__all__ = ["links"]


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_who_talks_without_end_is_not_listened_to(
    network: Network, links: Links, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    stand_in(tmp_path / "ssh", f"#!/bin/sh\nexec yes{stream}\n", monkeypatch)
    with pytest.raises(TargetUnreachable, match="prints without end"):
        by_key(network, network.host(), links).identify()


def test_no_configuration_of_the_user_vouches_for_another_host_key(network: Network, tmp_path: Path) -> None:
    host = network.host()
    other = Key.make(tmp_path / "other")
    program = tmp_path / "vouch"
    program.write_text(f'#!/bin/sh\necho "$1 {pinned(host)}"\n')
    program.chmod(0o755)
    text = f"Host *\n  KnownHostsCommand {program} %H\n  VerifyHostKeyDNS yes\n"
    given = config(host, login="password", host_key=_keys.host_key(other.public))
    kind, message = with_user_config(tmp_path, text, given, {"target/box/password": host.password})
    assert kind == "TargetQuarantined" and "pinned" in message
    assert "Accepted" not in host.log and "Failed password" not in host.log


def test_a_server_that_people_share_now_does_not_lend_its_account(network: Network, links: Links) -> None:
    driver = SshDriver("box", config(network.host(), login="agent"), Given(), links)
    driver.surroundings = Surroundings(reads_user_files=False)
    with pytest.raises(TargetRejected, match="keys of the account that this server runs by"):
        driver.check()


HOLD_AN_AGENT = """
import sys, time
from pathlib import Path
from pydantic import SecretStr
from windlass.drivers._openssh import _agent
with _agent(Path(sys.argv[1]), SecretStr(sys.stdin.read())) as path:
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_an_agent_ends_with_who_is_killed(tmp_path: Path) -> None:
    path, key = tmp_path / "agent", Key.make(tmp_path / "key")
    argv = [sys.executable, "-c", HOLD_AN_AGENT, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdin.write(key.path.read_bytes())
        holder.stdin.close()
        assert holder.stdout.readline() == b"up\n"
        assert is_listening(path)
        holder.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30  # it looks every ten seconds
    while is_listening(path):
        assert time.monotonic() < deadline, "the agent goes on with the key in it"
        time.sleep(0.1)


def is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as line:
        return line.connect_ex(str(path)) == 0
