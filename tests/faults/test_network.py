"""What lies between the server and a machine fails in every way: N1 to N10 of the reliability rules.

Here each is short; those marked slow have the durations of the rules, and `make test-network` runs all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.submitting import submit_script
from tests.faults.ssh_world import SshWorld
from tests.faults.waiter import Waiter
from tests.faults.world import wait_for
from tests.hosts.names import NameServer
from tests.hosts.network import Network
from tests.hosts.proxy import Break, How, Proxy

FINAL = ("Completed", "Failed", "Canceled")


@pytest.fixture
def world(ssh_world: SshWorld) -> SshWorld:
    ssh_world.start_server()
    return ssh_world


@pytest.fixture
def proxy(ssh_world: SshWorld) -> Proxy:
    """The machine is attached by it. No server is there yet."""
    proxy = ssh_world.network.proxy(ssh_world.host)
    ssh_world.door = (proxy.address, proxy.port)
    return proxy


@pytest.fixture
def names(ssh_world: SshWorld, network: Network, tmp_path: Path) -> Iterator[NameServer]:
    """The machine is attached by the name box.test, which the server asks for here. No server is there yet."""
    with NameServer.serving(network.address) as names:
        names.known["box.test"] = ssh_world.host.address
        ssh_world.wrapper = names.wrapper(tmp_path)
        ssh_world.door = ("box.test", ssh_world.host.port)
        yield names


def stays(waiter: Waiter, seconds: float) -> None:
    """All that is seen of it meanwhile is that it runs, or that nobody knows."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert waiter.state() in ("Running", "NotResponding")
        time.sleep(0.1)


# N1: a long, uncertain way


@pytest.mark.parametrize("loss", [1, 10])
def test_n1_a_long_way_on_which_packets_are_lost(ssh_world: SshWorld, proxy: Proxy, loss: int) -> None:
    ssh_world.start_server()
    proxy.delay(0.15, 0.05)
    ssh_world.host.loss(loss)
    for waiter in [Waiter(ssh_world) for _ in range(3)]:
        waiter.let_go()
        waiter.check_end(120)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [1, 5, 10])
def test_n1_a_hundred_runs_on_a_long_way(ssh_world: SshWorld, proxy: Proxy, loss: int) -> None:
    ssh_world.start_server()
    proxy.delay(0.15, 0.05)
    ssh_world.host.loss(loss)
    waiters = [Waiter(ssh_world) for _ in range(100)]
    for waiter in waiters:
        waiter.let_go()
    for waiter in waiters:
        waiter.check_end(600)


# N2 and N3: for a while, again and again


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.slow)])
def test_n2_a_third_of_all_packets_is_lost_for_a_while(world: SshWorld, seconds: float) -> None:
    waiter = Waiter.up(world)
    world.host.loss(30)
    stays(waiter, seconds)
    world.host.heal()
    waiter.end_there()
    waiter.check_end(60)


@pytest.mark.parametrize(("times", "cut", "pause"), [(3, 1, 1), pytest.param(10, 5, 25, marks=pytest.mark.slow)])
def test_n3_the_line_is_cut_again_and_again(world: SshWorld, times: int, cut: float, pause: float) -> None:
    waiter = Waiter.up(world)
    for _ in range(times):
        with world.host.partition():
            stays(waiter, cut)
        stays(waiter, pause)
    waiter.end_there()
    waiter.check_end(60)


# N4 and N5: the run ends meanwhile


@pytest.mark.parametrize("seconds", [10, pytest.param(120, marks=pytest.mark.slow)])
def test_n4_a_run_ends_while_the_line_is_cut(world: SshWorld, seconds: float) -> None:
    waiter = Waiter.up(world)
    with world.host.partition():
        waiter.end_there()
        stays(waiter, seconds)
    waiter.check_end(30)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["incoming", "outgoing"])
def test_n5_a_run_ends_while_only_one_way_is_open(world: SshWorld, way: str) -> None:
    waiter = Waiter.up(world)
    world.host.block(**{way: True})
    waiter.end_there()
    time.sleep(2)
    world.host.heal()
    waiter.check_end(30)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["incoming", "outgoing"])
def test_n5_a_run_is_submitted_while_only_one_way_is_open(world: SshWorld, way: str) -> None:
    """What the machine answers is lost, or what it is asked: in any case it starts once."""
    first = Waiter.up(world)
    world.host.block(**{way: True})
    waiter = Waiter(world)
    time.sleep(2)
    assert waiter.state() not in FINAL
    world.host.heal()
    for each in (first, waiter):
        each.let_go()
        each.check_end(60)


# N6 and N7: connections that break


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_n6_connections_are_reset_wherever_they_are(ssh_world: SshWorld, proxy: Proxy, parts: int) -> None:
    """In banner, key exchange, login, our program, the questions, the answers, the log: one after the other."""
    ssh_world.start_server()
    for _ in range(2):  # over the first connection passes also what is sent only once
        proxy.end_all(How.RESET)
        waiter = Waiter(ssh_world)
        waiter.let_go()
        waiter.check_end(60)
    up, down = proxy.passed()[-1]
    breaks = [Break(How.RESET, up=1 + up * part // parts) for part in range(parts)]
    breaks += [Break(How.RESET, down=1 + down * part // parts) for part in range(parts)]
    for each in breaks:
        proxy.break_next(Break(How.CLOSE), each)  # before each login comes a connection that sends nothing
    proxy.end_all(How.RESET)
    while proxy.breaks_left():
        waiter = Waiter(ssh_world)
        waiter.let_go()
        waiter.check_end(600)


@pytest.mark.slow
@pytest.mark.parametrize("how", [How.CLOSE, How.RESET])
def test_n6_connections_that_stand_are_broken_while_it_runs(ssh_world: SshWorld, proxy: Proxy, how: How) -> None:
    ssh_world.start_server()
    waiter = Waiter.up(ssh_world)
    for _ in range(3):
        proxy.end_all(how)
        stays(waiter, 0.5)
    waiter.end_there()
    waiter.check_end(60)


@pytest.mark.slow
def test_n7_a_black_hole_is_noticed_and_holds_no_call(world: SshWorld) -> None:
    """Neither a question about the machine nor one about its run."""
    waiter = Waiter.up(world)
    world.host.block(incoming=True, outgoing=True)
    began = time.monotonic()
    status, _ = world.raw("POST", "/workspaces/default/targets/box/check")
    assert status == 503 and time.monotonic() - began < 10
    wait_for("it to be noticed", lambda: waiter.state() == "NotResponding", 60)
    waiter.end_there()
    world.host.heal()
    waiter.check_end(30)


# N8: a narrow line

BURST = 1_500_000


def bursts(size: int) -> str:
    return f"import os\nfor i in range({size // 1000}): os.write(1, b'%09d ' % i * 100)\n"


def burst(size: int) -> bytes:
    return b"".join(b"%09d " % i * 100 for i in range(size // 1000))


@pytest.mark.slow
def test_n8_a_burst_of_log_keeps_no_question_waiting(world: SshWorld) -> None:
    Waiter.up(world)
    world.host.bandwidth(1000)
    talker = submit_script(world, bursts(6 * BURST))["id"]
    wait_for("the burst to arrive", lambda: world.file(talker, "user_logs/std_log.txt"), 60)
    while len(world.file(talker, "user_logs/std_log.txt")) < 5 * BURST:
        assert world.raw("POST", "/workspaces/default/targets/box/check")[0] == 200
    assert world.wait_final(talker, 120)["state"] == "Completed"
    assert world.file(talker, "user_logs/std_log.txt") == burst(6 * BURST)


@pytest.mark.slow
def test_n8_a_burst_of_log_on_a_narrow_line_lets_other_words_pass(world: SshWorld) -> None:
    Waiter.up(world)  # what is sent once is there
    world.host.bandwidth(1000)
    talker = submit_script(world, bursts(BURST))["id"]
    wait_for("the burst to arrive", lambda: world.file(talker, "user_logs/std_log.txt"), 60)
    waiter = Waiter(world)
    wait_for("another run to start", lambda: waiter.starts() > 0, 60)
    assert len(world.file(talker, "user_logs/std_log.txt")) < BURST, "it came before the burst was over"
    waiter.let_go()
    waiter.check_end(120)
    assert world.wait_final(talker, 120)["state"] == "Completed"
    assert world.file(talker, "user_logs/std_log.txt") == burst(BURST)


# N9: another machine


def target(world: SshWorld) -> dict[str, Any]:
    return world.ask("GET", "/workspaces/default/targets/box")


def test_n9_a_machine_with_another_host_key_gets_nothing(world: SshWorld) -> None:
    waiter = Waiter.up(world)
    world.host = world.network.replace(world.host)
    wait_for("quarantine", lambda: target(world)["quarantine"], 60)
    status, answer = world.raw("POST", "/workspaces/default/targets/box/check")
    assert status == 409 and b"target_quarantined" in answer
    assert waiter.state() not in FINAL
    assert "Accepted" not in world.host.log
    assert not world.machine.exists()
    # Somebody has looked, and says that it is right so: the old run is not there, and is not started again.
    world.ask("POST", "/workspaces/default/targets/box/trust", {"pin": world.host.host_key})
    assert target(world)["quarantine"] is None
    lost = world.wait_final(waiter.id)
    assert (lost["state"], lost["reason"]) == ("Failed", "node_lost")
    assert waiter.starts() == 1
    again = Waiter(world)
    again.let_go()
    again.check_end(60)


@pytest.mark.slow
def test_n9_a_machine_that_was_set_up_anew_does_not_have_the_run(world: SshWorld) -> None:
    """The host key is the same, but neither its disk nor its boot id are."""
    waiter = Waiter.up(world)
    world.host = world.network.replace(world.host, keeps_key=True)
    lost = world.wait_final(waiter.id)
    assert (lost["state"], lost["reason"]) == ("Failed", "node_lost")
    assert waiter.starts() == 1 and target(world)["quarantine"] is None


# N10: names


@pytest.mark.slow
def test_n10_a_name_that_cannot_be_asked_for_is_no_end(ssh_world: SshWorld, names: NameServer) -> None:
    ssh_world.start_server()
    waiter = Waiter.up(ssh_world)
    names.is_failing = True
    ssh_world.host.kill_connections()
    waiter.end_there()
    stays(waiter, 3)
    names.is_failing = False
    waiter.check_end(60)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_n10_a_slow_name_server_holds_nobody(ssh_world: SshWorld, names: NameServer, seconds: float) -> None:
    ssh_world.start_server()
    waiter = Waiter.up(ssh_world)
    names.delay_seconds = seconds
    ssh_world.host.kill_connections()
    asked = time.monotonic()
    stays(waiter, 2 * seconds)
    assert time.monotonic() - asked < 2 * seconds + 5
    names.delay_seconds = 0
    waiter.let_go()
    waiter.check_end(60)


def test_n10_a_name_that_leads_elsewhere_is_not_believed(ssh_world: SshWorld, names: NameServer) -> None:
    ssh_world.start_server()
    waiter = Waiter.up(ssh_world)
    other = ssh_world.network.host("other")
    names.known["box.test"] = other.address
    ssh_world.host.kill_connections()
    wait_for("quarantine", lambda: target(ssh_world)["quarantine"], 60)
    assert "Connection from" in other.log and "Accepted" not in other.log
    names.known["box.test"] = ssh_world.host.address
    ssh_world.ask("POST", "/workspaces/default/targets/box/trust", {"pin": ssh_world.host.host_key})
    waiter.let_go()
    waiter.check_end(60)
