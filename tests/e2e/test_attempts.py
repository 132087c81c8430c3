"""Training that is evicted goes on from its checkpoint, and ends as if nothing had happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.submitting import submit_script
from tests.faults.world import World, wait_for

TRAIN = (Path(__file__).parents[2] / "examples" / "checkpoint" / "train.py").read_text()
EPOCHS = 60
SLOW = ("--epochs", str(EPOCHS), "--seconds-per-epoch", "0.2")
QUICK = ("--epochs", str(EPOCHS), "--seconds-per-epoch", "0")


def run_of(world: World, id: str) -> dict[str, Any]:
    found: dict[str, Any] = world.ask("GET", f"/workspaces/default/runs/{id}")
    return found


def steps_of(world: World, id: str) -> list[tuple[int, float]]:
    series = world.ask("GET", f"/workspaces/default/runs/{id}/metrics")["metrics"].get("loss", {"values": []})
    return [(point["s"], point["v"]) for point in series["values"]]


def evict(world: World, id: str) -> None:
    world.ask("POST", f"/workspaces/default/runs/{id}/evict?why=the+node+leaves")


def until_attempt(world: World, id: str, attempt: int) -> None:
    wait_for(f"attempt {attempt}", lambda: run_of(world, id)["attempt"] == attempt, 120)


def until_training(world: World, id: str, attempt: int, epochs: int) -> None:
    """Until that attempt has logged more than so many epochs in all."""

    def is_so() -> bool:
        assert run_of(world, id)["state"] not in ("Completed", "Failed", "Canceled")
        return run_of(world, id)["attempt"] == attempt and len(steps_of(world, id)) > epochs

    wait_for(f"attempt {attempt} to train", is_so, 120)


def result(world: World, id: str) -> tuple[Any, list[tuple[int, float]]]:
    return json.loads(world.file(id, "outputs/model.json")), steps_of(world, id)


def test_training_that_is_evicted_twice_ends_as_an_undisturbed_one(world: World) -> None:
    world.start_server()
    undisturbed = world.wait_final(submit_script(world, TRAIN, QUICK)["id"], 120)
    assert undisturbed["state"] == "Completed"
    id = submit_script(world, TRAIN, SLOW)["id"]
    for attempt in (1, 2):
        until_training(world, id, attempt, len(steps_of(world, id)) + 5)
        evict(world, id)
        until_attempt(world, id, attempt + 1)
    run = world.wait_final(id, 120)
    assert (run["state"], run["attempt"], run["exit_code"]) == ("Completed", 3, 0)
    assert result(world, id) == result(world, undisturbed["id"])
    assert [step for step, _ in steps_of(world, id)] == list(range(EPOCHS))
    files = [file["path"] for file in world.ask("GET", f"/workspaces/default/runs/{id}/files")["files"]]
    assert {"outputs/checkpoint.json", "outputs/model.json", "user_logs/std_log.txt"} <= set(files)
    for attempt in (1, 2):
        log = world.file(id, f"attempts/{attempt}/user_logs/std_log.txt").decode()
        assert f"attempt {attempt} begins at epoch" in log and "the checkpoint has it" in log
    events = world.ask("GET", f"/workspaces/default/runs/{id}/events")["events"]
    told = [event["message"] for event in events if event["kind"] == "attempt"]
    assert told == [f"evicted: the node leaves; attempt {number} of at most 4 waits" for number in (2, 3)]
    wait_for("nothing to be left", lambda: not world.processes_of_runs(), 60)


@pytest.mark.parametrize("point", ["F29", "F18", "F28", "F20"])
def test_a_server_that_is_killed_in_the_middle_of_an_eviction(world: World, point: str) -> None:
    """Requested, collected, before the commit of the next attempt, after it."""
    world.start_server()
    id = submit_script(world, TRAIN, SLOW)["id"]
    until_training(world, id, 1, 5)
    world.arm(point)
    try:
        evict(world, id)
    except OSError:
        assert point == "F29"
    world.reached(point)
    world.kill_server()
    world.start_server()
    until_attempt(world, id, 2)
    run = world.wait_final(id, 120)
    assert (run["state"], run["attempt"]) == ("Completed", 2)
    assert [step for step, _ in steps_of(world, id)] == list(range(EPOCHS))
    log = world.file(id, "user_logs/std_log.txt").decode()
    assert log.count("begins at epoch") == 1, "the second attempt was started once"
    assert "attempt 1 begins at epoch 0" in world.file(id, "attempts/1/user_logs/std_log.txt").decode()
