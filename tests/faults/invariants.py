"""What must hold after every fault (I1 to I17 of the reliability rules), checked against the ledger."""

from __future__ import annotations

import json
from typing import Any

from tests.faults.world import World, wait_for

FINAL = ("Completed", "Failed", "Canceled")


def expected_log(lines: int) -> bytes:
    text = b""
    for number in range(lines):
        text += b"line %06d \xc3\xa4\xff\x00\n" % number
        if number == lines // 2:
            text += b"half a line and half a character \xc3\xa4 whole\n"
    return text


def check_record(world: World, run_id: str, lines: int, attempts: int = 1) -> None:
    """I8, I14: of a run that came to its own end, every byte and every point of each attempt is kept, once."""
    for earlier in range(1, attempts):
        assert world.file(run_id, f"attempts/{earlier}/user_logs/std_log.txt") == expected_log(lines)
    assert world.file(run_id, "user_logs/std_log.txt") == expected_log(lines)
    metrics = world.ask("GET", f"/workspaces/default/runs/{run_id}/metrics")["metrics"]
    assert [point["v"] for point in metrics["value"]["values"]] == list(range(lines)) * attempts
    assert [point["v"] for point in metrics["half"]["values"]] == [1] * attempts
    assert world.file(run_id, "outputs/result.bin") == bytes(range(256)) * lines


def check_story(world: World, run: dict[str, Any]) -> None:
    """I17: events are gap-free and the state is their replay. I7: nothing follows the final state's event."""
    events = world.ask("GET", f"/workspaces/default/runs/{run['id']}/events")["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    states = [event["state"] for event in events if event["state"]]
    assert states[-1] == run["state"]
    assert sum(state in FINAL for state in states) == 1


def check_starts(world: World) -> None:
    """I3, I4: each attempt of a run was started at most once."""
    starts = [line.split()[1] for line in world.told() if line.startswith("start ")]
    assert len(starts) == len(set(starts)), world.told()


def check_truth(world: World, run: dict[str, Any]) -> None:
    """I5: the exit status is what the program says of itself, and success needs proof."""
    exits = [line.split()[0] for line in world.told() if line.startswith("exit")]
    if run["state"] == "Completed":
        assert exits == ["exit0"] and run["exit_code"] == 0
    if run["reason"] == "exited" and not (world.container and exits == [] and run["exit_code"] > 128):
        assert exits == [f"exit{run['exit_code']}"]  # but Docker says 128 + n also of one that a signal ended


def check_nothing_left(world: World) -> None:
    """I9: after the end nothing of the run is alive on the machine."""
    wait_for("the run's processes to be gone", lambda: not world.processes_of_runs(), 30)


def check_same_answer(world: World, key: str, run: dict[str, Any], again: dict[str, Any]) -> None:
    """I1, I2, I7: the acknowledged run is there, the same key gives the same run, and its end does not change."""
    assert again["id"] == run["id"], key
    later = world.run(run["id"])
    volatile = {"version"}
    assert {k: v for k, v in later.items() if k not in volatile} == {
        k: v for k, v in run.items() if k not in volatile
    }, json.dumps([later, run], indent=1)
