"""A secret goes into a run and nowhere else, while servers are killed and keys are changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.canaries import files_that_show, shows, watching_processes
from tests.e2e.submitting import submit_script
from tests.faults.cells import Cell
from tests.faults.strike import Client, strike
from tests.faults.world import World, wait_for
from windlass.server.security.log_redaction import encodings_of

CANARY = 'the-canary/sings "ö"'
FORMS = encodings_of(CANARY)
SECRETS = "/workspaces/default/secrets"
LOG = "user_logs/std_log.txt"
TALKATIVE = """
import base64, json, os, sys, urllib.parse
from windlass import Run
value = Run.get_context().get_secret("canary")
raw = value.encode()
os.makedirs("logs", exist_ok=True)
with open("logs/more.txt", "w") as file:
    for text in (value, base64.b64encode(raw).decode(), base64.b64encode(b"user:" + raw).decode(), raw.hex()):
        print(text, file=file)
        print(text)
        print(json.dumps({"password": text}), urllib.parse.quote(text), repr(text), file=sys.stderr)
for letter in raw:
    os.write(1, bytes([letter]))
os.write(1, b"\\n")
raise SystemExit("cannot log in with " + value)
"""


def put(world: World, value: str = CANARY, name: str = "canary", **more: Any) -> None:
    world.ask("PUT", f"{SECRETS}/{name}", {"value": value, **more})


def test_a_canary_is_found_nowhere(world: World) -> None:
    world.start_server()
    world.ask("PATCH", "/workspaces/default/targets/local", {"slots": 2})
    put(world)
    with watching_processes(FORMS) as seen:
        runs = [submit_script(world, TALKATIVE)["id"] for _ in range(10)]
        followed = [b"".join(data for event, _, data in world.follow(id) if event == "log") for id in runs]
        ended = [world.wait_final(id) for id in runs]
    assert seen == []
    for run, shown in zip(ended, followed, strict=True):
        stored = world.file(run["id"], LOG)
        assert run["state"] == "Failed" and stored == shown and stored.count(b"*") > 200
        assert not shows(stored, FORMS) and not shows(world.file(run["id"], "logs/more.txt"), FORMS)
        assert "cannot log in with ****" in run["error"]["message"]
        for path in ("", "/events", "/files", "/metrics", "/usage", "/snapshot"):
            assert not shows(world.raw("GET", f"/workspaces/default/runs/{run['id']}{path}")[1], FORMS)
        [told] = [
            e
            for e in world.ask("GET", f"/workspaces/default/runs/{run['id']}/events")["events"]
            if e["kind"] == "masked"
        ]
        assert told["data"]["files"][LOG] > 5
    wait_for("their folders to go", lambda: not files_that_show(world.home, FORMS))
    world.kill_server()
    assert files_that_show(world.home, FORMS) == []
    world.start_server()
    used = [e for e in world.ask("GET", "/workspaces/default/audit?limit=1000")["entries"] if e["act"] == "secret.use"]
    assert {entry["details"]["run"] for entry in used} == set(runs)


CELLS = ["F06-K1", "F08-K3", "F10-K11", "F18-K1"]
MORE_CELLS = [
    pytest.param(cell, marks=pytest.mark.slow) for cell in ("F05-K1", "F08-K11", "F09-K1", "F11-K3", "F13-K1")
]


@pytest.mark.parametrize("cell", [*CELLS, *MORE_CELLS])
def test_runs_with_secrets_live_through_crashes(world: World, cell: str) -> None:
    """Values are in no folder, so whoever begins anew must have them sent again; all else is as in the crash matrix."""
    world.start_server()
    put(world)
    world.kill_server()
    strike(world, Cell(*cell.split("-")), None)
    wait_for("its folder to go", lambda: not files_that_show(world.home, FORMS))


HALVES = """
import os, sys, time
from windlass import Run
raw = Run.get_context().get_secret("canary").encode()
go = os.path.join(sys.argv[1], "go")
os.write(1, b"before " + raw[:7])
while not os.path.exists(go):
    time.sleep(0.01)
os.write(1, raw[7:] + b" after")
"""


@pytest.mark.parametrize("is_changed", [False, True])
def test_half_a_value_is_masked_by_the_next_server(world: World, is_changed: bool) -> None:
    """Although the secret has been changed, and the key too, since the run began."""
    world.start_server()
    put(world)
    run = submit_script(world, HALVES, (str(world.ledger),))["id"]
    wait_for("the first half", lambda: world.file(run, LOG))
    assert world.file(run, LOG) == b"before "
    if is_changed:
        put(world, "something else")
        assert world.ask("POST", "/workspaces/default/keys/rotate")["resealed"] == 2
    world.kill_server()
    (world.ledger / "go").touch()
    wait_for("its end", lambda: not world.processes_of_runs())
    world.start_server()
    assert world.wait_final(run)["state"] == "Completed"
    assert world.file(run, LOG) == b"before " + b"*" * len(CANARY.encode()) + b" after"
    wait_for("its folder to go", lambda: not files_that_show(world.home, FORMS))
    left = world.ask("POST", "/workspaces/default/keys/rotate")["resealed"]
    assert left == 1, "what was kept to mask its logs is gone with the run"


SAVE_ALL = """
from windlass import Run
found = Run.get_context().get_secrets([f"s{n}" for n in range(5)])
open("outputs/x", "w").write(repr(sorted(found.values())))
"""


def test_f27_a_server_that_dies_while_the_key_is_changed(world: World) -> None:
    world.start_server()
    for number in range(5):
        put(world, f"value {number}", f"s{number}")
    world.arm("F27")
    client = Client(lambda: world.ask("POST", "/workspaces/default/keys/rotate"))
    world.reached("F27")
    world.kill_server()
    with pytest.raises(OSError):
        client.answer()
    keys = (world.home / "keys" / "secrets.key").read_text().splitlines()[1:]
    assert len(keys) == 2
    world.start_server()
    run = world.wait_final(submit_script(world, SAVE_ALL)["id"])
    assert run["state"] == "Completed"
    assert world.file(run["id"], "outputs/x").decode() == repr([f"value {n}" for n in range(5)])
    assert world.ask("GET", "/workspaces/default/audit/chain")["is_whole"] is True
    # Nothing needs the old key any more.
    world.kill_server()
    (world.home / "keys" / "secrets.key").write_text(keys[1] + "\n")
    world.start_server()


WAIT = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""
SAVE = """
from windlass import Run
open("outputs/value", "w").write(repr(Run.get_context().get_secrets(["canary"])["canary"]))
"""


def queued_behind(world: World, **spec: Any) -> tuple[str, Path]:
    """A run that was made ready and waits for its slot; what lets it go."""
    world.start_server()
    world.ask("PATCH", "/workspaces/default/targets/local", {"slots": 1})
    put(world, "old-value", granted_to="named runs" if spec else "runs")
    go = world.ledger / "go"
    submit_script(world, WAIT, (str(go),))
    run = submit_script(world, SAVE, **spec)["id"]
    wait_for("it to be made ready", lambda: "ready" in _story(world, run), 60)
    return run, go


def _story(world: World, run: str) -> str:
    path = world.folder(run) / "events.jsonl"
    return path.read_text() if path.exists() else ""


def test_a_run_that_waited_gets_the_value_of_its_start(world: World) -> None:
    run, go = queued_behind(world)
    put(world, "new-value")
    go.touch()
    assert world.wait_final(run)["state"] == "Completed"
    assert world.file(run, "outputs/value") == b"'new-value'"


def test_a_run_that_waited_does_not_get_what_was_taken_away(world: World) -> None:
    run, go = queued_behind(world)
    world.ask("DELETE", f"{SECRETS}/canary")
    go.touch()
    assert world.wait_final(run)["state"] == "Completed"
    assert world.file(run, "outputs/value") == b"None"


def test_a_run_whose_secret_was_deleted_fails_and_says_so(world: World) -> None:
    run, go = queued_behind(world, secrets=("canary",))
    world.ask("DELETE", f"{SECRETS}/canary")
    go.touch()
    ended = world.wait_final(run)
    assert (ended["state"], ended["reason"]) == ("Failed", "rejected")
    assert "There is no secret canary" in ended["error"]["message"]
    wait_for("what was made ready to go", lambda: not world.folder(run).exists(), 60)
