"""A password, a private key and a run's secret that are used fifty times are seen nowhere."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
from collections.abc import Iterator
from urllib.parse import quote

from tests.e2e.canaries import files_that_show, shows, watching_processes
from tests.e2e.submitting import submit_script
from tests.faults.world import World, wait_for
from tests.hosts.host import Host
from tests.hosts.network import Network
from windlass.core.entities import EnvironmentSpec

RUNS = 50
SECRET = "c4n4ry-of-the-key-store-0123456789"
TARGETS = "/workspaces/default/targets"
SCRIPT = """
from windlass import Run
value = Run.get_context().get_secret("api-key")
assert value.startswith("c4n4ry"), value
print("the key is", value, flush=True)
"""


def attach(world: World, name: str, host: Host, login: str, credentials: dict[str, str]) -> None:
    config = {"address": host.address, "port": host.port, "username": host.user, "login": login}
    world.ask("POST", TARGETS, {"name": name, "kind": "ssh", "config": config, "credentials": credentials})


def spellings(value: str) -> Iterator[bytes]:
    """How it might be written down by accident."""
    raw = value.encode()
    yield from (raw, raw.hex().encode(), value.encode("utf-16-le"), quote(value, safe="").encode())
    for cut in range(3):  # whatever stands before it
        yield base64.b64encode(raw[cut : cut + (len(raw) - cut) // 3 * 3])


def test_what_a_process_shows_is_seen() -> None:
    """Else it would say little that nothing is."""
    told = ["in-argv", "in-a-variable"]
    with watching_processes([word.encode() for word in told]) as seen:
        argv = ["sh", "-c", "sleep 600; # in-argv"]
        with subprocess.Popen(argv, env={"X": "in-a-variable"}, start_new_session=True) as shown:
            wait_for("it to be seen", lambda: {f"{shown.pid} cmdline", f"{shown.pid} environ"} <= set(seen))
            os.killpg(shown.pid, signal.SIGKILL)


def test_credentials_and_secrets_are_seen_nowhere(world: World, network: Network) -> None:
    by_password, by_key = network.host("one", takes_keys=False), network.host("two", takes_passwords=False)
    private_key = network.key.path.read_text()
    lines = [line for line in private_key.splitlines() if "KEY" not in line]
    canaries = [by_password.password, SECRET]
    needles = [each for canary in canaries for each in spellings(canary)] + [line.encode() for line in lines[2:5]]
    world.start_server()
    with watching_processes(needles) as seen:
        attach(world, "one", by_password, "password", {"password": by_password.password})
        attach(world, "two", by_key, "key", {"private_key": private_key})
        world.ask("PUT", "/workspaces/default/secrets/api-key", {"value": SECRET})
        runs = [submit(world, ("one", "two")[number % 2]) for number in range(RUNS)]
        for run in runs:
            ended = wait_for(run, lambda run=run: final(world, run), 120)  # type: ignore[misc]
            assert ended["state"] == "Completed", (ended, log_of(world, run))
        refused = world.raw("POST", TARGETS, wrong(by_password))
    assert seen == []
    assert refused[0] >= 400 and not shows(refused[1], needles)
    assert set(log_of(world, runs[0]).decode().split()) >= {"the", "key", "is", "*" * len(SECRET)}
    for path in answers(runs):
        assert not shows(world.raw("GET", path)[1], needles), path
    machines = [host.home / ".windlass" for host in (by_password, by_key)]
    # What a script has printed is in its folder for as long as that is there, which is a moment longer than it runs.
    wait_for("their folders to go", lambda: not any(files_that_show(machine, needles) for machine in machines), 60)
    world.kill_server()
    assert files_that_show(world.home, needles) == []
    for machine in machines:
        assert files_that_show(machine, needles) == []


def submit(world: World, target: str) -> str:
    made = submit_script(world, SCRIPT, target=target, environment=EnvironmentSpec(interpreter="python3"))
    return str(made["id"])


def wrong(host: Host) -> dict[str, object]:
    """An attach that fails after the password was tried."""
    config = {"address": host.address, "username": "nobody-here", "login": "password"}
    return {"name": "three", "kind": "ssh", "config": config, "credentials": {"password": host.password}}


def final(world: World, run: str) -> dict[str, object] | None:
    found = world.ask("GET", f"/workspaces/default/runs/{run}")
    return found if found["state"] in ("Completed", "Failed", "Canceled") else None


def log_of(world: World, run: str) -> bytes:
    return world.raw("GET", f"/workspaces/default/runs/{run}/files/user_logs/std_log.txt")[1]


def answers(runs: list[str]) -> list[str]:
    of_runs = [
        "",
        "/events",
        "/files",
        "/files/user_logs/std_log.txt",
        "/snapshot",
        "/usage",
        "/stream?log=auto&offset=0",
    ]
    of_workspace = ["/targets", "/targets/one", "/targets/two", "/secrets", "/audit", "/runs", "/kinds"]
    of_workspace.append("/kinds/ssh/workspace-credential")
    paths = [f"/workspaces/default{path}" for path in of_workspace]
    return paths + [f"/workspaces/default/runs/{run}{path}" for run in runs[:4] for path in of_runs]
