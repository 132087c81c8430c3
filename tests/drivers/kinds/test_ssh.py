"""Machines that are reached by SSH: every way in, and every way in which it can go wrong, on real hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.hosts import fakes
from tests.hosts.host import Host
from tests.hosts.keys import Key
from tests.hosts.network import Network
from windlass import drivers
from windlass.core.errors import (
    LoginRefused,
    NoCapacity,
    NotFound,
    TargetQuarantined,
    TargetRejected,
    TargetUnreachable,
    WindlassError,
)
from windlass.drivers.base import ConnectionPool, DriverContext, OtherTarget
from windlass.drivers.kinds.ssh import SshConfig, SshDriver
from windlass.drivers.openssh import keys as openssh_keys
from windlass.testing.harness import wait_until


class Given(dict[str, str]):
    """Secrets, by name."""

    def get(self, name: str) -> SecretStr:  # type: ignore[override]
        if name not in self:
            raise NotFound(f"There is no secret {name}.")
        return SecretStr(self[name])


@pytest.fixture
def connections() -> Iterator[ConnectionPool]:
    made = drivers.open_pool()
    yield made
    made.close()


def pinned(host: Host) -> str:
    return openssh_keys.host_key(next(iter(host.host_keys.values())).public)


def config(host: Host, **more: Any) -> SshConfig:
    return SshConfig(address=host.address, port=host.port, username=host.user, **more)


def driver_of(
    host: Host, connections: ConnectionPool, secrets: dict[str, str], pin: str | None = "its own", **more: Any
) -> SshDriver:
    """The driver of "box", which is that host; it is pinned unless another pin is given."""
    driver = SshDriver("box", config(host, **more), Given(secrets), connections)
    driver.pin = pinned(host) if pin == "its own" else pin
    return driver


def by_key(network: Network, host: Host, connections: ConnectionPool, **more: Any) -> SshDriver:
    return driver_of(host, connections, {"target/box/private-key": network.key.path.read_text()}, login="key", **more)


def by_password(host: Host, connections: ConnectionPool, password: str | None = None, **more: Any) -> SshDriver:
    return driver_of(host, connections, {"target/box/password": password or host.password}, login="password", **more)


KILL_THE_AGENT = """
import os, signal, socket
with socket.socket(socket.AF_UNIX) as line:
    line.connect(os.environ["SSH_AUTH_SOCK"])
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(bytes(1))
        except OSError:
            continue
        if words[0] == b"ssh-agent" and os.environ["SSH_AUTH_SOCK"].encode() in words:
            os.kill(int(pid), signal.SIGTERM)
    line.recv(1)
raise SystemExit(1)
"""


def stand_in(program: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it called in place of the program of that name."""
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


# ways in


def test_an_agent_of_ours_that_ends_is_no_fault_of_the_key(
    network: Network, connections: ConnectionPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for a machine waits on; a key that is refused would end his run."""
    stand_in(tmp_path / "ssh-add", f"#!{sys.executable}\n{KILL_THE_AGENT}", monkeypatch)
    with pytest.raises(TargetUnreachable, match="ssh-agent ended here"):
        by_key(network, network.host(), connections).check()


def test_by_private_key(network: Network, connections: ConnectionPool) -> None:
    host = network.host(takes_passwords=False)
    health = by_key(network, host, connections).check()
    assert health.ok and health.inventory["boot_id"] == host.boot_id
    assert host.home.joinpath(".windlass/ssh").stat().st_mode & 0o777 == 0o700


def test_by_password(network: Network, connections: ConnectionPool) -> None:
    host = network.host(takes_keys=False)
    assert by_password(host, connections).check().ok
    assert "Accepted password" in host.log


def test_by_keyboard_interactive_password(network: Network, connections: ConnectionPool) -> None:
    """Servers that ask through PAM ask so."""
    settings = ("KbdInteractiveAuthentication yes", "PasswordAuthentication no", "UsePAM yes")
    host = network.host(settings=settings, takes_keys=False)
    assert by_password(host, connections).probe().details["accepts"] == ["keyboard-interactive"]
    assert by_password(host, connections).check().ok


def test_by_the_workspaces_key_once_it_is_installed(network: Network, connections: ConnectionPool) -> None:
    host = network.host()
    private, public = openssh_keys.make_key_pair("windlass of default")
    ours = driver_of(host, connections, {"workspace/ssh-key": private}, login="workspace-key")
    with pytest.raises(LoginRefused):
        ours.check()
    for _ in range(2):
        by_password(host, connections).enroll(public)
    connections.drop(ours._key())
    assert ours.check().ok
    lines = host.home.joinpath(".ssh/authorized_keys").read_text().splitlines()
    assert lines == [*host.traits.authorized, public]


def test_a_key_that_is_only_a_comment_is_installed(network: Network, connections: ConnectionPool) -> None:
    host = network.host()
    _, public = openssh_keys.make_key_pair("windlass of default")
    with host.home.joinpath(".ssh/authorized_keys").open("a") as file:
        file.write(f"#{public}\n")
    by_password(host, connections).enroll(public)
    assert host.home.joinpath(".ssh/authorized_keys").read_text().splitlines()[-1] == public


def test_another_workspace_does_not_get_the_line_that_one_has_open(
    network: Network, connections: ConnectionPool
) -> None:
    """The same machine under the same name, and a key that it does not take."""
    host = network.host()
    (private, public), (other, _) = openssh_keys.make_key_pair("ours"), openssh_keys.make_key_pair("theirs")
    by_password(host, connections).enroll(public)
    ours = driver_of(host, connections, {"workspace/ssh-key": private}, login="workspace-key")
    theirs = driver_of(host, connections, {"workspace/ssh-key": other}, login="workspace-key")
    ours.context, theirs.context = DriverContext(workspace="ours"), DriverContext(workspace="theirs")
    assert ours.check().ok
    with pytest.raises(LoginRefused):
        theirs.check()


def test_through_a_jump_host_that_is_attached_too(network: Network, connections: ConnectionPool) -> None:
    """Each with its own password: the jump host does not get that of the machine behind it."""
    jump = network.host("jump", user="hopper", takes_keys=False)
    host = network.host("far", behind=jump, takes_keys=False)
    secrets = {"target/box/password": host.password, "target/jump/password": jump.password}
    driver = driver_of(host, connections, secrets, login="password", jump="jump")
    other = OtherTarget(config(jump, login="password").model_dump(), pinned(jump))
    driver.context = DriverContext(target={"jump": other}.__getitem__)
    assert driver.depends_on() == ("jump",) and driver.probe().pin == pinned(host)
    health = driver.check()
    assert health.inventory["boot_id"] == host.boot_id


IN_HOME = """
import json, sys
from pydantic import SecretStr
from windlass import drivers
from windlass.core.errors import WindlassError
from windlass.drivers.base import DriverContext
from windlass.drivers.kinds.ssh import SshConfig, SshDriver
class Given(dict):
    def get(self, name):
        return SecretStr(self[name])
connections = drivers.open_pool()
driver = SshDriver("box", SshConfig(**json.loads(sys.argv[1])), Given(json.loads(sys.argv[2])), connections)
driver.context = DriverContext(reads_user_files=sys.argv[3] == "private")
driver.pin = sys.argv[4]
try:
    boot_id = driver.check().inventory["boot_id"]
    print(json.dumps([driver.probe().pin, boot_id]))
except WindlassError as e:
    print(json.dumps([type(e).__name__, e.message]))
connections.close()
"""


def with_user_config(
    folder: Path, text: str, given: SshConfig, pin: str, secrets: dict[str, str] | None = None, server: str = "private"
) -> list[str]:
    """What the driver of a private or shared server finds, or how it fails, when this account has that ~/.ssh/config.
    ssh looks there whatever HOME says.
    """
    home = folder / "dot-ssh"
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config").write_text(text)
    (home / "config").chmod(0o600)
    there = os.path.expanduser("~root/.ssh")
    os.makedirs(there, 0o700, exist_ok=True)
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    argv = ["unshare", "--mount", "--", "sh", "-c", script, "sh", str(home), there, sys.executable, "-c", IN_HOME]
    argv += [given.model_dump_json(), json.dumps(secrets or {}), server, pin]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def test_by_the_users_own_configuration(network: Network, tmp_path: Path) -> None:
    """An alias, a key, a jump host: what `ssh lab` does, we do."""
    jump = network.host("jump", user="hopper")
    host = network.host("far", behind=jump)
    text = f"""
Host lab
  HostName {host.address}
  ProxyJump door
  IdentityFile {network.key.path}
  RemoteCommand tmux new -A
Host door
  HostName {jump.address}
  User {jump.user}
  IdentityFile {network.key.path}
  StrictHostKeyChecking accept-new
  UserKnownHostsFile {tmp_path}/known
"""
    given = SshConfig(address="lab", username=host.user)
    assert with_user_config(tmp_path, text, given, pinned(host)) == [pinned(host), host.boot_id]
    by_password, secrets = given.model_copy(update={"login": "password"}), {"target/box/password": host.password}
    assert with_user_config(tmp_path, text, by_password, pinned(host), secrets) == [pinned(host), host.boot_id]


@pytest.mark.parametrize("port", [None, 22])
def test_the_port_is_the_one_of_the_users_configuration_unless_one_is_named(
    network: Network, tmp_path: Path, port: int | None
) -> None:
    host = network.host(settings=() if port else ("Port 2222",))
    text = f"Host lab\n  HostName {host.address}\n  Port {2222 if port is None else 1}\n"
    given = SshConfig(address="lab", port=port, username=host.user, login="password")
    secrets = {"target/box/password": host.password}
    assert with_user_config(tmp_path, text, given, pinned(host), secrets) == [pinned(host), host.boot_id]


def test_who_does_not_answer_gets_no_credential_from_the_key_store(
    network: Network, connections: ConnectionPool, tmp_path: Path
) -> None:
    """Each use is a row of the audit, and a machine may be away for weeks. Without secrets, who asks hears NotFound."""
    host = network.host()
    host.stop_sshd()
    driver = driver_of(host, connections, {}, login="password")
    driver.context = DriverContext(reads_user_files=False)
    with pytest.raises(TargetUnreachable, match="box cannot be reached: .* refused"):
        driver.check()
    text = f"Host lab\n  HostName {host.address}\n"
    for address, sign in (("lab", "refused"), ("no-such-host.invalid", "resolve")):
        given = config(host, login="key").model_copy(update={"address": address})
        kind, message = with_user_config(tmp_path, text, given, pinned(host))
        assert kind == "TargetUnreachable" and sign in message


def test_by_a_certificate(network: Network, tmp_path: Path) -> None:
    authority, key = Key.make(tmp_path / "authority"), Key.make(tmp_path / "visitor")
    host = network.host(authority=authority, authorized=())
    authority.certify(key, host.user)
    text = f"Host *\n  IdentityFile {key.path}\n  CertificateFile {key.path}-cert.pub\n"
    assert with_user_config(tmp_path, text, config(host), pinned(host)) == [pinned(host), host.boot_id]


# who is there


def test_a_host_is_identified_before_anything_is_sent(network: Network, connections: ConnectionPool) -> None:
    host = network.host()
    driver = by_password(host, connections, pin=None)
    seen = driver.probe()
    assert seen.pin == driver.read_pin(f"{seen.pin} a comment") == pinned(host)
    assert seen.shown_as == driver.show_pin(seen.pin) == openssh_keys.fingerprint(pinned(host))
    assert set(seen.details["accepts"]) == {"publickey", "password"}
    assert "/etc/ssh/ssh_host_" in seen.how_to_compare
    assert "password for" not in host.log.lower()


@pytest.mark.parametrize("login", ["password", "key"])
def test_a_host_that_was_replaced_gets_nothing(network: Network, connections: ConnectionPool, login: str) -> None:
    """T7: neither a credential nor a byte of ours. By itself ssh would be content to send no password."""
    host = network.host()
    driver = by_password(host, connections) if login == "password" else by_key(network, host, connections)
    assert driver.check().ok
    other = network.replace(host)
    with pytest.raises(TargetUnreachable):
        driver.check()  # by the connection that broke
    with pytest.raises(TargetQuarantined, match="pinned") as caught:
        driver.check()
    assert "compute trust" in caught.value.hint
    with pytest.raises(TargetQuarantined):
        driver.enroll("ssh-ed25519 AAAA x")
    assert not other.home.joinpath(".windlass").exists()
    assert "Accepted" not in other.log and "Failed password" not in other.log


def test_a_host_that_has_only_a_key_of_another_kind_gets_nothing(network: Network, connections: ConnectionPool) -> None:
    host = network.host(host_keys=("ecdsa",))
    other = Key.make(host.folder / "never", "ed25519")
    with pytest.raises(TargetQuarantined):
        by_password(host, connections, pin=openssh_keys.host_key(other.public)).check()
    assert "Failed password" not in host.log


def test_a_host_with_a_further_key_is_still_itself(network: Network, connections: ConnectionPool) -> None:
    host = network.host(host_keys=("ecdsa", "ed25519"))
    for key in host.host_keys.values():
        assert by_password(host, connections, pin=openssh_keys.host_key(key.public)).check().ok


def test_a_machine_that_was_never_pinned_is_not_logged_into(network: Network, connections: ConnectionPool) -> None:
    host = network.host()
    with pytest.raises(WindlassError, match="pinned"):
        by_password(host, connections, pin=None).check()
    assert "Failed password" not in host.log and "Accepted" not in host.log


# what goes wrong


def test_wrong_credentials_are_told_as_such(network: Network, connections: ConnectionPool) -> None:
    host = network.host()
    with pytest.raises(LoginRefused, match="Permission denied") as caught:
        by_password(host, connections, password="wr0ng-canary").check()
    # Which is looked for elsewhere, to be sure that none was sent. It may be noted after it was told.
    wait_until(lambda: "Failed password" in host.log, "the refusal is noted")
    assert "wr0ng-canary" not in repr(caught.value) + str(caught.value) + repr(caught.value.__cause__)
    with pytest.raises(LoginRefused):
        by_password(host, connections, password="wr0ng-canary").check()  # told again at once, by its own name


@pytest.mark.parametrize(
    "act", [fakes.fake_silent, fakes.fake_endless, fakes.fake_tarpit], ids=["silent", "endless", "tarpit"]
)
def test_what_is_no_ssh_server_does_not_hold_us(
    network: Network, connections: ConnectionPool, act: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = network.host()
    monkeypatch.setattr("windlass.drivers.kinds.ssh._OPEN_SECONDS", 3.0)
    with fakes.fake_server(network.address, act) as port:
        given = config(host, login="password").model_copy(update={"address": network.address, "port": port})
        driver = SshDriver("box", given, Given({"target/box/password": "x"}), connections)
        driver.pin = pinned(host)
        with pytest.raises(TargetUnreachable):
            driver.probe()
        with pytest.raises(TargetUnreachable):
            driver.check()


def test_nobody_there(network: Network, connections: ConnectionPool) -> None:
    host = network.host()
    host.stop_sshd()
    with pytest.raises(TargetUnreachable, match="refused") as caught:
        by_password(host, connections).check()
    assert caught.value.hint
    given = config(host).model_copy(update={"address": "no-such-host.invalid"})
    with pytest.raises(TargetUnreachable, match="resolve"):
        SshDriver("box", given, Given(), connections).probe()


PRINTS = '#!/bin/sh\necho Welcome to the machine\necho It has news for you >&2\nexec /bin/sh "$@"\n'
BROKEN = '#!/bin/sh\nno-such-command\nexec /bin/sh "$@"\n'


@pytest.mark.parametrize(
    "shell", [PRINTS, BROKEN, "/bin/dash", "/bin/sh", "/usr/bin/fish"], ids=["prints", "broken", "dash", "sh", "fish"]
)
def test_login_shells_that_talk_do_no_harm(network: Network, connections: ConnectionPool, shell: str) -> None:
    assert by_key(network, network.host(shell=shell), connections).check().ok


@pytest.mark.parametrize(
    ("traits", "kind", "sentence"),
    [
        ({"shell": "/usr/sbin/nologin"}, LoginRefused, "no login shell"),
        ({"shell": "#!/bin/sh\nexit 1\n"}, TargetUnreachable, "cannot be reached"),
        ({"shell": "#!/bin/sh\nexec sleep 3600\n"}, TargetUnreachable, "did not greet"),
        ({"forced_command": "echo only backups here"}, TargetUnreachable, "only backups here"),
        ({"has_python": False}, TargetRejected, "no Python"),
        ({"shell": "#!/bin/sh\necho 'cat: notes: Permission denied' >&2; exit 127\n"}, TargetRejected, "no Python"),
        ({"is_home_read_only": True}, TargetRejected, "Read-only"),
        ({"disk_kb": 64}, NoCapacity, "No space left"),
    ],
    ids=[
        "nologin",
        "exit-1",
        "hangs",
        "forced-command",
        "no-python",
        "no-python-and-complaints",
        "read-only",
        "full-disk",
    ],
)
def test_machines_that_cannot_be_used_say_why(
    network: Network,
    connections: ConnectionPool,
    traits: dict[str, Any],
    kind: type[WindlassError],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if sentence == "did not greet":  # only who never does is not waited for long
        monkeypatch.setattr("windlass.drivers.kinds.ssh._OPEN_SECONDS", 5.0)
    with pytest.raises(kind, match=sentence) as caught:
        by_key(network, network.host(**traits), connections).check()
    if kind is not TargetUnreachable:
        assert caught.value.hint


def test_a_full_disk_is_waited_for_and_keeps_nothing_of_us(network: Network, connections: ConnectionPool) -> None:
    """A run waits for room, also where the runner itself finds none, as after an upgrade; an attach is told so."""
    host = network.host(disk_kb=64)
    with pytest.raises(NoCapacity, match="box has no room: .*No space left") as caught:
        by_key(network, host, connections).check()
    assert caught.value.transient and "--root" in caught.value.hint
    assert not [path for path in host.home.rglob("*") if path.is_file() and "runner" in path.name]


def test_a_disk_from_which_nothing_may_be_executed_is_enough(network: Network, connections: ConnectionPool) -> None:
    assert by_key(network, network.host(is_noexec=True), connections).check().ok


def test_a_python_that_is_too_old_says_so(network: Network, connections: ConnectionPool) -> None:
    old = sorted(Path.home().glob(".pyenv/versions/3.[67].*"))
    assert old, "this machine has no Python older than 3.8 to try"
    with pytest.raises(TargetRejected, match="too old") as caught:
        by_key(network, network.host(python_prefix=old[0]), connections).check()
    assert "python" in caught.value.hint


def test_a_clock_that_is_years_off_does_no_harm(network: Network, connections: ConnectionPool) -> None:
    driver = by_key(network, network.host(clock="+10y"), connections)
    assert driver.check().ok
    years = driver.clock_skew() / (365 * 86400)
    assert -11 < years < -9


@pytest.mark.parametrize(("is_ours", "mode"), [(True, 0o777), (True, 0o770), (False, 0o755)])
def test_a_folder_that_others_may_write_is_not_used(
    network: Network, connections: ConnectionPool, is_ours: bool, mode: int
) -> None:
    host = network.host()
    root = host.home / ".windlass/ssh"
    root.mkdir(parents=True)
    os.chown(root, host.uid if is_ours else host.uid + 1, host.uid)
    root.chmod(mode)
    with pytest.raises(TargetRejected, match="others"):
        by_key(network, host, connections).check()


def test_a_folder_below_one_that_others_may_write_is_not_used(network: Network, connections: ConnectionPool) -> None:
    """Another account of the machine would put its own runner in its place."""
    host = network.host()
    open_to_all = host.home / "shared"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    os.chown(open_to_all, host.uid, host.uid)
    with pytest.raises(TargetRejected, match="shared may be written by others") as caught:
        by_key(network, host, connections, root="~/shared/windlass").check()
    assert "chmod go-w" in caught.value.hint and "--root" in caught.value.hint
    assert not list(open_to_all.rglob("runner-*.pyz")), "nothing of ours is executed there"
    open_to_all.chmod(0o755)
    assert by_key(network, host, connections, root="~/shared/windlass").check().ok


def test_a_folder_that_is_a_link_is_called_one(network: Network, connections: ConnectionPool) -> None:
    host = network.host()
    (host.home / "elsewhere").mkdir(0o700)
    (host.home / "link").symlink_to("elsewhere")
    os.chown(host.home / "elsewhere", host.uid, host.uid)
    with pytest.raises(TargetRejected, match="link is a link; --root should name the folder itself") as caught:
        by_key(network, host, connections, root="~/link").check()
    assert "chmod" not in caught.value.hint and "--root" in caught.value.hint
    assert by_key(network, host, connections, root="~/elsewhere").check().ok


def test_a_runner_that_was_tampered_with_is_replaced(network: Network, connections: ConnectionPool) -> None:
    host = network.host()
    assert by_key(network, host, connections).check().ok
    [runner] = host.home.glob(".windlass/ssh/runner-*.pyz")
    whole = runner.read_bytes()
    runner.write_bytes(whole[:-1] + b"x")
    connections.close()
    again = drivers.open_pool()
    try:
        assert by_key(network, host, again).check().ok
        assert runner.read_bytes() == whole
    finally:
        again.close()


# what nobody may see


def test_no_credential_is_seen_in_any_argv_or_environment(network: Network, connections: ConnectionPool) -> None:
    """Looked at while the login takes long."""
    host = network.host()
    proxy = network.proxy(host)
    canaries = [host.password.encode(), network.key.path.read_bytes().splitlines()[1]]
    given = {"address": proxy.address, "port": proxy.port}
    passwords = SshDriver("a", config(host, login="password").model_copy(update=given),
                          Given({"target/a/password": host.password}), connections)  # fmt: skip
    keys = SshDriver("b", config(host, login="key").model_copy(update=given),
                     Given({"target/b/private-key": network.key.path.read_text()}), connections)  # fmt: skip
    passwords.pin = keys.pin = pinned(host)
    proxy.delay(0.05)
    seen: list[bytes] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.append(look_at_processes())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        assert passwords.check().ok and keys.check().ok
    finally:
        done.set()
        looking.join()
    assert sum(b"HostKeyAlias=windlass-" in each for each in seen) > 2
    assert any(b"ssh-agent" in each for each in seen) and any(b"WINDLASS_ASK=" in each for each in seen)
    assert not any(canary in each for canary in canaries for each in seen)


def look_at_processes() -> bytes:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            if int(pid) != os.getpid():
                try:
                    found.append(Path("/proc", pid, name).read_bytes())
                except OSError:
                    continue
    return b"\n".join(found)
