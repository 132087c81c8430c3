"""Behind a jump host, names and addresses mean what they mean there."""

from __future__ import annotations

from contextlib import closing

from tests.drivers.test_ssh import Given, config
from tests.hosts.network import Network
from windlass import drivers
from windlass.drivers.base import Surroundings
from windlass.drivers.ssh import SshDriver


def test_only_the_way_to_the_jump_host_is_ours_to_judge(network: Network) -> None:
    jump = network.host("jump")
    host = network.host("far", behind=jump)
    secrets = Given({"target/box/password": host.password, "target/jump/password": jump.password})
    told = config(jump, login="password").model_dump()
    asked: list[str] = []

    def resolve(address: str) -> str:
        asked.append(address)
        return address

    with closing(drivers.open_links()) as links:
        driver = SshDriver("box", config(host, login="password", jump="jump"), secrets, links)
        driver.surroundings = Surroundings(False, resolve, {"jump": told}.__getitem__)
        assert driver.check().offers["boot_id"] == host.boot_id
    assert set(asked) == {jump.address}
