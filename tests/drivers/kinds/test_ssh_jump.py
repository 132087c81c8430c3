"""Behind a jump host names mean what they mean there; and of the two, the one is blamed that failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.kinds.test_ssh import Given, config, pinned, with_user_config
from tests.hosts.host import Host
from tests.hosts.keys import Key
from tests.hosts.network import Network
from windlass import drivers
from windlass.core.errors import InvalidRequest, LoginRefused, TargetQuarantined, TargetUnreachable
from windlass.drivers.base import ConnectionPool, DriverContext, OtherTarget
from windlass.drivers.kinds.ssh import SshDriver
from windlass.drivers.openssh import keys


@pytest.fixture
def connections() -> Iterator[ConnectionPool]:
    made = drivers.open_pool()
    yield made
    made.close()


@pytest.fixture
def jump(network: Network) -> Host:
    return network.host("jump", user="hopper")


@pytest.fixture
def far(network: Network, jump: Host) -> Host:
    return network.host("far", behind=jump)


def behind(
    jump: Host,
    far: Host,
    connections: ConnectionPool,
    door: dict[str, Any] | None = None,
    pin: str = "",
    door_pin: str = "",
    **changes: Any,
) -> SshDriver:
    """The driver of "box", which is reached through "door", whose configuration may differ."""
    secrets = Given({"target/box/password": far.password, "target/door/password": jump.password})
    given = config(far, login="password", jump="door").model_copy(update=changes)
    driver = SshDriver("box", given, secrets, connections)
    driver.pin = pin or pinned(far)
    told = {**config(jump, login="password").model_dump(), **(door or {})}
    driver.context = DriverContext(target={"door": OtherTarget(told, door_pin or pinned(jump))}.__getitem__)
    return driver


def other_key(host: Host) -> str:
    return keys.host_key(Key.make(host.folder / "other").public)


def test_a_jump_host_is_reached_by_ssh(jump: Host, far: Host, connections: ConnectionPool) -> None:
    with pytest.raises(InvalidRequest, match="door is not a machine that is reached by SSH"):
        behind(jump, far, connections, {"address": None}).check()


def test_only_the_way_to_the_jump_host_is_ours_to_judge(jump: Host, far: Host, connections: ConnectionPool) -> None:
    asked: list[str] = []

    def resolve(address: str) -> str:
        asked.append(address)
        return address

    driver = behind(jump, far, connections)
    driver.context = DriverContext(False, resolve, driver.context.target)
    assert driver.check().inventory["boot_id"] == far.boot_id
    assert set(asked) == {jump.address}


def test_a_jump_host_whose_key_changed_is_no_reason_to_distrust_who_is_behind_it(
    jump: Host, far: Host, connections: ConnectionPool
) -> None:
    driver = behind(jump, far, connections, door_pin=other_key(jump))
    for act in (driver.check, driver.probe):
        with pytest.raises(TargetUnreachable, match="jump host of box: The host key of door is not") as caught:
            act()
        assert type(caught.value) is TargetUnreachable
        assert caught.value.hint.endswith("windlass compute trust door")


def test_who_is_behind_a_jump_host_is_known_by_his_own_key(jump: Host, far: Host, connections: ConnectionPool) -> None:
    key = other_key(far)
    with pytest.raises(TargetQuarantined, match="host key of box is not") as caught:
        behind(jump, far, connections, pin=key).check()
    assert caught.value.hint.endswith("windlass compute trust box")
    assert caught.value.details == {"pin": key}


def test_a_jump_host_that_does_not_let_us_in_is_told_from_who_is_behind_it(
    jump: Host, far: Host, connections: ConnectionPool
) -> None:
    with pytest.raises(TargetUnreachable, match="jump host of box: door does not let us in: .*Permission") as caught:
        behind(jump, far, connections, {"username": "nobody"}).check()
    assert not isinstance(caught.value, LoginRefused)
    with pytest.raises(LoginRefused, match="^box does not let us in: .*Permission"):
        behind(jump, far, connections, username="nobody").check()


def test_who_cannot_be_reached_from_there_is_told_as_such(jump: Host, far: Host, connections: ConnectionPool) -> None:
    far.stop_sshd()
    with pytest.raises(TargetUnreachable, match="box cannot be reached from its jump host door") as caught:
        behind(jump, far, connections).check()
    assert caught.value.hint


def test_a_jump_host_that_does_not_answer_gets_no_credential_from_the_key_store(
    jump: Host, far: Host, connections: ConnectionPool
) -> None:
    driver = behind(jump, far, connections)
    driver.secrets = Given()  # who asks it for anything hears NotFound
    jump.stop_sshd()
    for act in (driver.check, driver.probe):
        with pytest.raises(TargetUnreachable, match="jump host of box: door cannot be reached: .* refused"):
            act()


def test_a_jump_host_of_the_users_own_is_no_reason_to_distrust_who_is_behind_it(
    network: Network, jump: Host, far: Host, tmp_path: Path
) -> None:
    (tmp_path / "known").write_text(f"{jump.address} {other_key(jump)}\n")
    text = f"""
Host lab
  HostName {far.address}
  ProxyJump {jump.user}@{jump.address}
Host *
  IdentityFile {network.key.path}
  StrictHostKeyChecking yes
  UserKnownHostsFile {tmp_path}/known
"""
    given = config(far).model_copy(update={"address": "lab"})
    said = with_user_config(tmp_path, text, given, pinned(far))
    assert said == [
        "TargetUnreachable",
        "box cannot be reached: ssh does not know the host key of a machine on the way there.",
    ]
