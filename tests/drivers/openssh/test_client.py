"""Calls of OpenSSH's client: a machine may print anything, and every process that is started ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.drivers.kinds.test_ssh import (
    by_key,
    config,
    connections,
    driver_of,
    look_at_processes,
    pinned,
    stand_in,
    with_user_config,
)
from tests.hosts.keys import Key
from tests.hosts.network import Network
from windlass.core.errors import TargetRejected, TargetUnreachable
from windlass.drivers.base import ConnectionPool, DriverContext
from windlass.drivers.openssh import keys
from windlass.drivers.openssh.askpass import serve_password
from windlass.drivers.openssh.client import _agent

__all__ = ["connections"]


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_who_talks_without_end_is_not_listened_to(
    network: Network, connections: ConnectionPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    stand_in(tmp_path / "ssh", f"#!/bin/sh\nexec yes{stream}\n", monkeypatch)
    with pytest.raises(TargetUnreachable, match="prints without end"):
        by_key(network, network.host(), connections).probe()


def test_no_configuration_of_the_user_vouches_for_another_host_key(network: Network, tmp_path: Path) -> None:
    host = network.host()
    other = Key.make(tmp_path / "other")
    program = tmp_path / "vouch"
    program.write_text(f'#!/bin/sh\necho "$1 {pinned(host)}"\n')
    program.chmod(0o755)
    text = f"Host *\n  KnownHostsCommand {program} %H\n  VerifyHostKeyDNS yes\n"
    given, pin = config(host, login="password"), keys.host_key(other.public)
    kind, message = with_user_config(tmp_path, text, given, pin, {"target/box/password": host.password})
    assert kind == "TargetQuarantined" and "pinned" in message
    assert "Accepted" not in host.log and "Failed password" not in host.log


def test_no_agent_is_lent_to_a_machine_whatever_the_user_configured(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = network.host(shell='#!/bin/sh\nenv > ~/variables\nexec /bin/sh "$@"\n')
    with _agent(tmp_path / "agent", SecretStr(network.key.path.read_text())) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        found = with_user_config(tmp_path, "Host *\n  ForwardAgent yes\n", config(host, login="agent"), pinned(host))
    assert found == [pinned(host), host.boot_id]
    variables = (host.home / "variables").read_text()
    assert "SSH_CONNECTION=" in variables and "SSH_AUTH_SOCK=" not in variables


def test_a_server_that_people_share_follows_no_configuration_of_its_account(network: Network, tmp_path: Path) -> None:
    host, elsewhere = network.host(), network.host()
    text = f"Host *\n  HostName {elsewhere.address}\n"
    given, secrets = config(host, login="password"), {"target/box/password": host.password}
    assert with_user_config(tmp_path, text, given, pinned(host), secrets, server="shared") == [
        pinned(host),
        host.boot_id,
    ]
    kind, _ = with_user_config(tmp_path, text, given, pinned(host), secrets)
    assert kind == "TargetQuarantined", "on a private server what the user configured counts"


def test_no_connection_of_the_user_is_shared(network: Network, tmp_path: Path) -> None:
    """One that is open already would not be asked for its host key again."""
    host, shared = network.host(), tmp_path / "shared"
    text = f"Host *\n  ControlMaster auto\n  ControlPath {shared}\n  ControlPersist 30\n"
    given, secrets = config(host, login="password"), {"target/box/password": host.password}
    assert with_user_config(tmp_path, text, given, pinned(host), secrets) == [pinned(host), host.boot_id]
    assert not shared.exists()


def test_keys_of_the_account_do_not_open_what_was_attached_with_another(network: Network, tmp_path: Path) -> None:
    host = network.host()
    folder = tmp_path / "dot-ssh"
    folder.mkdir(mode=0o700)
    shutil.copy(network.key.path, folder / "id_ed25519")
    assert with_user_config(tmp_path, "", config(host, login="agent"), pinned(host)) == [pinned(host), host.boot_id]
    other = {"target/box/private-key": Key.make(tmp_path / "other").path.read_text()}
    kind, _ = with_user_config(tmp_path, "", config(host, login="key"), pinned(host), other)
    assert kind == "LoginRefused"


@pytest.mark.parametrize(
    ("prompt", "is_answered"),
    [
        ("ann@box's password: ", True),
        ("(ann@box) Password: ", True),
        ("ann@gate's password: ", False),
        ("(ann@box) Verification code: ", False),
        ("The authenticity of host 'box' can't be established. Are you sure (yes/no)? ", False),
        ("Enter passphrase for key '/home/ann/.ssh/id_rsa': ", False),
    ],
)
def test_only_who_asks_for_the_password_of_this_machine_gets_it(tmp_path: Path, prompt: str, is_answered: bool) -> None:
    with serve_password(tmp_path / "ask", "box", SecretStr("s3cret")) as given:
        argv = [given["SSH_ASKPASS"], prompt]
        done = subprocess.run(argv, env={**os.environ, **given}, capture_output=True, timeout=30, check=False)
    assert (done.stdout, done.returncode) == ((b"s3cret\n", 0) if is_answered else (b"", 1))


def test_a_server_that_people_share_now_does_not_lend_its_account(
    network: Network, connections: ConnectionPool
) -> None:
    driver = driver_of(network.host(), connections, {}, login="agent")
    driver.context = DriverContext(reads_user_files=False)
    with pytest.raises(TargetRejected, match="keys of the account that this server runs by"):
        driver.check()


def test_an_agent_ends_with_its_login(tmp_path: Path) -> None:
    """Not ten seconds later, when it would notice by itself; or as soon as somebody calls it, so nobody does here."""
    with _agent(tmp_path / "agent", SecretStr(Key.make(tmp_path / "key").path.read_text())) as path:
        assert str(path).encode() in look_at_processes()
    deadline = time.monotonic() + 8
    while str(path).encode() in look_at_processes():
        assert time.monotonic() < deadline, "the agent goes on with the key in it"
        time.sleep(0.01)


HOLD_AN_AGENT = """
import sys, time
from pathlib import Path
from pydantic import SecretStr
from windlass.drivers.openssh.client import _agent
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
