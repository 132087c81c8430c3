"""Runs on a machine that is reached by SSH: what is kept of them, and how they end whatever the line does."""

from __future__ import annotations

import time

import pytest

from tests.e2e.submitting import submit_script
from tests.faults.ssh_world import SshWorld
from tests.faults.waiter import BEFORE, SAID, Waiter
from tests.faults.world import wait_for

TRAINS = """
import os, platform
from windlass import Run

run = Run.get_context()
for step in range(5):
    run.log("loss", 1 / (step + 1))
os.makedirs("outputs", exist_ok=True)
with open("outputs/model.bin", "wb") as file:
    file.write(bytes(range(256)) * 1000)
print(platform.node(), os.getcwd())
"""
STUBBORN = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def world(ssh_world: SshWorld) -> SshWorld:
    ssh_world.start_server()
    return ssh_world


def test_a_run_is_kept_whole_and_leaves_nothing_there(world: SshWorld) -> None:
    run = world.wait_final(submit_script(world, TRAINS)["id"])
    assert run["state"] == "Completed", run
    where = f"box {world.machine_there}/runs/{run['id']}.1/source\n"
    assert world.file(run["id"], "user_logs/std_log.txt").decode() == where
    metrics = world.ask("GET", f"/workspaces/default/runs/{run['id']}/metrics")["metrics"]
    assert [point["v"] for point in metrics["loss"]["values"]] == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert world.file(run["id"], "outputs/model.bin") == bytes(range(256)) * 1000
    wait_for("its folder to go", lambda: not world.folder(run["id"]).exists())
    assert not world.processes_of_runs()


def test_a_follower_sees_each_byte_once_while_it_runs(world: SshWorld) -> None:
    waiter = Waiter.up(world)
    seen = b""
    for event, offset, data in world.follow(waiter.id):
        if event == "log":
            assert offset == len(seen)
            seen += data
        if seen == BEFORE:
            waiter.let_go()
    assert seen == SAID
    waiter.check_end()


def test_a_run_is_canceled_with_all_its_processes(world: SshWorld) -> None:
    run = submit_script(world, STUBBORN, grace_seconds=1)
    wait_for("it to be up", lambda: world.file(run["id"], "user_logs/std_log.txt") == b"up\n")
    assert len(world.processes_of_runs()) == 2
    assert "sleep" in [process.name for process in world.host.processes()]
    world.cancel(run["id"])
    ended = world.wait_final(run["id"])
    assert (ended["state"], ended["reason"]) == ("Canceled", "stopped")
    wait_for("all its processes to end", lambda: not world.processes_of_runs())
    assert "sleep" not in [process.name for process in world.host.processes()]


def test_a_run_that_goes_on_while_the_server_is_restarted(world: SshWorld) -> None:
    waiter = Waiter.up(world)
    world.kill_server()
    world.start_server()
    assert waiter.state() == "Running"
    waiter.let_go()
    waiter.check_end()


def test_a_run_that_ends_while_no_server_is_there(world: SshWorld) -> None:
    waiter = Waiter.up(world)
    world.kill_server()
    waiter.end_there()
    world.start_server()
    waiter.check_end()


def test_a_run_that_ends_while_the_line_is_cut(world: SshWorld) -> None:
    waiter = Waiter.up(world)
    with world.host.partition():
        waiter.end_there()
        time.sleep(1)
        assert waiter.state() in ("Running", "NotResponding")
    waiter.check_end()


@pytest.mark.slow
def test_a_run_that_ends_while_the_line_is_cut_for_two_minutes(world: SshWorld) -> None:
    waiter = Waiter.up(world)
    with world.host.partition():
        healing_at = time.monotonic() + 120
        waiter.end_there()
        wait_for("it to be known", lambda: waiter.state() == "NotResponding", 60)
        time.sleep(healing_at - time.monotonic())
        assert waiter.state() == "NotResponding"
    waiter.check_end(seconds=30)


def test_a_wish_to_cancel_waits_for_the_line(world: SshWorld) -> None:
    waiter = Waiter.up(world)
    assert world.processes_of_runs()
    with world.host.partition():
        world.cancel(waiter.id)
        time.sleep(0.5)
        assert waiter.state() not in ("Completed", "Failed", "Canceled")
    run = world.wait_final(waiter.id)
    assert (run["state"], run["reason"]) == ("Canceled", "stopped")
    wait_for("all its processes to end", lambda: not world.processes_of_runs())


def test_a_run_that_is_submitted_while_the_line_is_cut_starts_once_it_heals(world: SshWorld) -> None:
    with world.host.partition():
        waiter = Waiter(world)
        time.sleep(1)
        assert waiter.starts() == 0 and waiter.state() not in ("Completed", "Failed", "Canceled")
    waiter.let_go()
    waiter.check_end(60)


def test_a_run_on_a_machine_that_reboots_has_failed_and_is_not_started_again(world: SshWorld) -> None:
    waiter = Waiter.up(world)
    wait_for("its log", lambda: world.file(waiter.id, "user_logs/std_log.txt") == BEFORE)
    world.host.reboot()
    run = world.wait_final(waiter.id)
    assert (run["state"], run["reason"], run["exit_code"]) == ("Failed", "node_lost", None)
    assert waiter.starts() == 1
    assert world.file(waiter.id, "user_logs/std_log.txt") == BEFORE
    again = submit_script(world, "print('well')")
    assert world.wait_final(again["id"])["state"] == "Completed"
