"""The server is killed in the middle of everything; nobody notices but the clock."""

from __future__ import annotations

import os
import signal

from tests.e2e.submitting import submit_script
from tests.faults.world import World, wait_for

RUNS = 50
WAITER = """
import os, sys, time
ledger, number, code = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(os.path.join(ledger, "starts"), "a") as file:
    file.write(number + "\\n")
for i in range(200):
    os.write(1, b"before %s %d \\xff\\x00\\n" % (number.encode(), i))
go = os.path.join(ledger, "go" + str(int(number) % 2))
while not os.path.exists(go):
    time.sleep(0.02)
for i in range(200):
    os.write(2, b"after %s %d\\n" % (number.encode(), i))
sys.exit(code)
"""


def expected(number: int) -> bytes:
    before = b"".join(b"before %d %d \xff\x00\n" % (number, i) for i in range(200))
    return before + b"".join(b"after %d %d\n" % (number, i) for i in range(200))


def test_fifty_active_runs_survive_the_death_of_the_server(world: World) -> None:
    world.start_server()
    world.ask("PATCH", "/workspaces/default/targets/local", {"slots": RUNS})
    codes = {number: number % 3 * 7 for number in range(RUNS)}
    ids = {
        number: submit_script(world, WAITER, (str(world.ledger), str(number), str(code)))["id"]
        for number, code in codes.items()
    }
    starts = world.ledger / "starts"
    wait_for("all to run", lambda: starts.exists() and len(starts.read_text().split()) == RUNS, 180)
    world.kill_server()
    (world.ledger / "go0").touch()  # half of them end while nobody is there
    wait_for("those to end", lambda: len(world.processes_of_runs()) == RUNS // 2, 180)
    world.start_server()
    (world.ledger / "go1").touch()
    for number, run_id in ids.items():
        run = world.wait_final(run_id, 180)
        assert (run["state"], run["exit_code"]) == ("Failed" if codes[number] else "Completed", codes[number])
        assert world.file(run_id, "user_logs/std_log.txt") == expected(number)
    assert sorted(starts.read_text().split(), key=int) == [str(number) for number in range(RUNS)]


PARTS = 4
TALKER = """
import os, sys, time
for part in range(4):
    for i in range(500):
        os.write(1, b"%d %06d \\xe2\\x82" % (part, i))
        os.write(1, b"\\xac\\r" if i % 10 else b"\\xac\\n")
    while not os.path.exists(os.path.join(sys.argv[1], "heard%d" % part)):
        time.sleep(0.01)
"""


def said(part: int) -> bytes:
    return b"".join(b"%d %06d \xe2\x82\xac%s" % (part, i, b"\r" if i % 10 else b"\n") for i in range(500))


def test_a_follower_sees_each_byte_once_across_restarts(world: World) -> None:
    world.start_server()
    run = submit_script(world, TALKER, (str(world.ledger),))
    seen = b""
    for part in range(PARTS):
        for event, offset, data in world.follow(run["id"], len(seen)):
            assert event in ("log", "state")
            assert offset == len(seen)
            seen += data
            if len(seen) == len(said(0)) * (part + 1):
                break
        world.kill_server()
        (world.ledger / f"heard{part}").touch()
        world.start_server()
    rest = list(world.follow(run["id"], len(seen)))
    assert [event for event, _, _ in rest] == ["end"]
    assert seen == b"".join(said(part) for part in range(PARTS))
    assert world.file(run["id"], "user_logs/std_log.txt") == seen


def test_a_machine_that_hangs_does_not_keep_the_server_from_ending(world: World) -> None:
    world.start_server()
    world.ask("POST", "/workspaces/default/targets/local/check")
    os.kill(world.host_pid(), signal.SIGSTOP)
    run = submit_script(world, "print('once')")
    world.ask("POST", "/shutdown")
    assert world.server.wait(60) == 0
    world.start_server()
    assert world.wait_final(run["id"])["state"] == "Completed"
    assert world.file(run["id"], "user_logs/std_log.txt") == b"once\n"
    events = world.ask("GET", f"/workspaces/default/runs/{run['id']}/events")["events"]
    assert not any("stopping" in event["message"] for event in events)
