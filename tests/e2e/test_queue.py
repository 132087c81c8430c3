"""Runs that wait for a slot are made ready on the machine meanwhile, and nothing of them is executed."""

from __future__ import annotations

from tests.e2e.submitting import submit_script
from tests.faults.world import World, wait_for

NOTES = """
import os, sys, time
ledger, number = sys.argv[1], sys.argv[2]
with open(os.path.join(ledger, "starts"), "a") as file:
    file.write(number + "\\n")
while number == "1" and not os.path.exists(os.path.join(ledger, "go")):
    time.sleep(0.02)
"""


def queue_of(world: World, count: int) -> list[str]:
    """The first one runs in the only slot; all have been made ready that will be."""
    world.start_server()
    world.ask("PATCH", "/workspaces/default/targets/local", {"slots": 1})
    ids = [submit_script(world, NOTES, (str(world.ledger), str(n + 1)))["id"] for n in range(count)]
    # The next one is made ready as soon as the first is let go, which is before the first has said a word.
    wait_for("the first to run", lambda: starts(world) == ["1"])
    wait_for("the next to be ready", lambda: (world.folder(ids[1]) / "source" / "main.py").exists())
    assert world.run(ids[1])["state"] == "Queued"
    return ids


def starts(world: World) -> list[str]:
    path = world.ledger / "starts"
    return path.read_text().split() if path.exists() else []


def test_each_is_executed_once_and_in_turn(world: World) -> None:
    ids = queue_of(world, 5)
    assert starts(world) == ["1"]
    (world.ledger / "go").touch()
    assert [world.wait_final(run_id)["state"] for run_id in ids] == ["Completed"] * 5
    assert starts(world) == ["1", "2", "3", "4", "5"]


def test_one_that_comes_while_a_long_one_runs_is_made_ready_too(world: World) -> None:
    world.start_server()
    world.ask("PATCH", "/workspaces/default/targets/local", {"slots": 1})
    first = submit_script(world, NOTES, (str(world.ledger), "1"))["id"]
    wait_for("the first to run", lambda: starts(world) == ["1"] and world.run(first)["state"] == "Running")
    second = submit_script(world, NOTES, (str(world.ledger), "2"))["id"]
    wait_for("the next to be ready", lambda: (world.folder(second) / "source" / "main.py").exists())
    assert world.run(second)["state"] == "Queued" and starts(world) == ["1"]
    (world.ledger / "go").touch()
    assert world.wait_final(second)["state"] == "Completed"


def test_one_that_is_canceled_leaves_nothing(world: World) -> None:
    ids = queue_of(world, 2)
    world.cancel(ids[1])
    assert world.run(ids[1])["state"] == "Canceled"
    wait_for("its folder to go", lambda: not world.folder(ids[1]).exists())
    (world.ledger / "go").touch()
    assert world.wait_final(ids[0])["state"] == "Completed"
    assert starts(world) == ["1"]


def test_the_death_of_the_server_starts_nothing(world: World) -> None:
    ids = queue_of(world, 3)
    world.kill_server()
    (world.ledger / "go").touch()
    wait_for("the first to end", lambda: not world.processes_of_runs())
    assert starts(world) == ["1"]
    world.start_server()
    assert [world.wait_final(run_id)["state"] for run_id in ids] == ["Completed"] * 3
    assert starts(world) == ["1", "2", "3"]
