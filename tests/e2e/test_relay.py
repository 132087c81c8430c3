"""Scripts on a machine that cannot reach the server do all that needs it; only the pipe of SSH connects the two."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.ssh_world import TARGET, SshWorld
from tests.faults.world import wait_for
from tests.hosts.network import Network
from windlass.core.codec import to_wire
from windlass.core.entities import EnvironmentSpec, RunSpec

MB = 1 << 20
# The server's own address says nothing to this machine.
CUT_OFF = """
import os, socket, urllib.parse
where = urllib.parse.urlsplit(os.environ["WINDLASS_URL"])
try:
    socket.create_connection((where.hostname, where.port), 2)
    raise SystemExit("the server can be reached without a relay")
except OSError:
    pass
"""


@pytest.fixture
def world(tmp_path: Path, network: Network) -> Iterator[SshWorld]:
    with SshWorld.made(tmp_path, network) as world:
        yield world


def submit(world: SshWorld, *lines: str, arguments: tuple[str, ...] = (), **body: Any) -> str:
    script = (CUT_OFF + "\n".join(lines)).encode()
    digest = hashlib.sha256(script).hexdigest()
    spec = RunSpec(
        script="main.py", arguments=arguments, target=TARGET, environment=EnvironmentSpec(interpreter="python3")
    )
    files = [{"path": "main.py", "digest": digest, "size": len(script), "executable": False}]
    world.ask("PUT", f"/workspaces/default/blobs/{digest}", script)
    body = {"experiment": "relay", "spec": to_wire(spec), "files": files, **body}
    run = world.ask("POST", "/workspaces/default/runs", body, {"Idempotency-Key": secrets.token_hex(8)})
    return str(run["id"])


def completed(world: SshWorld, run_id: str) -> bytes:
    """What it said."""
    run = world.wait_final(run_id, 180)
    said = world.file(run_id, "user_logs/std_log.txt")
    assert run["state"] == "Completed", said.decode("utf-8", "replace")
    return said


READS = """
from windlass import Run, Workspace
run = Run.get_context()
for step in range(3):
    run.log("loss", 1 / (step + 1), step=step)
run.tag("phase", "one")
assert run.get_metrics() == {"loss": [1.0, 0.5, 1 / 3]}, run.get_metrics()
assert run.get_tags() == {"phase": "one"}
while run.get_status() == "Starting":
    pass  # it may be quicker than the word that it has begun
assert run.get_status() == "Running"
assert run.parent is None
assert Workspace.from_config().name == "default"
run.upload_file("kept/me.py", __file__)
assert "kept/me.py" in run.get_file_names()
run.download_file("kept/me.py", "copy.py")
assert open("copy.py").read() == open(__file__).read()
print("done")
"""


def test_a_script_reads_back_what_it_wrote(world: SshWorld) -> None:
    world.start_server()
    assert completed(world, submit(world, READS)).endswith(b"done\n")


FAMILY = """
import os
from windlass import Run, ScriptRunConfig, WindlassError
run = Run.get_context()
with run.child_run("part") as part:
    part.log("a", 1.5)
    assert part.parent.id == run.id
first, second = run.create_children(count=2)
second.fail("gave up")
os.mkdir("below")
with open("below/child.py", "w") as file:
    file.write('''
from windlass import Run
run = Run.get_context()
print("I am part of", run.parent.id, run.parent.get_tags(), flush=True)
run.log("b", 2.5)
''')
run.tag("kind", "parent")
run.get_tags()
child = run.submit_child(ScriptRunConfig("below", "child.py"))  # goes where we are
child.wait_for_completion(show_output=True)
grandchild = first.submit_child(ScriptRunConfig("below", "child.py"))
grandchild.wait_for_completion()
try:
    run.submit_child(ScriptRunConfig("below", "child.py", compute_target="local"))
    raise SystemExit("another target is not refused")
except WindlassError as e:
    assert "the target of that run, box" in str(e), e
first.complete()
assert {below.id for below in run.get_children()} == {part.id, first.id, second.id, child.id}
metrics = run.get_metrics(recursive=True)
assert (metrics[part.id], metrics[child.id]) == ({"a": 1.5}, {"b": 2.5}), metrics
print("done")
"""


def test_a_script_has_children_which_know_their_parent(world: SshWorld) -> None:
    world.start_server()
    run = submit(world, FAMILY)
    said = completed(world, run).decode()
    assert f"I am part of {run} {{'kind': 'parent'}}" in said  # which came here as the child's log
    assert said.endswith("done\n")
    children = world.ask("GET", f"/workspaces/default/runs?parent={run}")["runs"]
    assert sorted(child["state"] for child in children) == ["Completed", "Completed", "Completed", "Failed"]


LARGE = """
import hashlib, os, sys
from windlass import Run
size = int(sys.argv[1])
with open("large", "wb") as file:
    file.write(os.urandom(size))
with Run.get_context().child_run("keeper") as keeper:
    keeper.upload_file("large", "large")
    keeper.download_file("large", "again")
digests = [hashlib.sha256(open(name, "rb").read()).hexdigest() for name in ("large", "again")]
assert digests[0] == digests[1] and os.path.getsize("again") == size
print("done")
"""


@pytest.mark.slow
def test_fifty_megabytes_go_there_and_back(world: SshWorld) -> None:
    world.start_server()
    run = submit(world, LARGE, arguments=(str(50 * MB),))
    # Meanwhile others are served: what they log arrives, and they end.
    quick = [submit(world, f"print({number})") for number in range(3)]
    assert [completed(world, each) for each in quick] == [b"0\n", b"1\n", b"2\n"]
    assert completed(world, run).endswith(b"done\n")


CROWD = """
import sys
from windlass import Run
run = Run.get_context()
run.log("x", float(sys.argv[1]))
with run.child_run("below") as child:
    child.log("y", float(sys.argv[1]))
assert run.get_metrics() == {"x": float(sys.argv[1])}
assert [below.get_metrics() for below in run.get_children()] == [{"y": float(sys.argv[1])}]
"""


def test_twenty_scripts_at_once(world: SshWorld) -> None:
    world.start_server()
    world.ask("PATCH", f"/workspaces/default/targets/{TARGET}", {"slots": 20})
    runs = [submit(world, CROWD, arguments=(str(number),)) for number in range(20)]
    for run in runs:
        completed(world, run)


STEADY = """
import os, sys, time
from windlass import Run
ledger, run = sys.argv[1], Run.get_context()
for number in range(4):
    with open(os.path.join(ledger, f"calls {number}"), "w"):
        pass
    with run.child_run(f"part {number}") as child:
        child.log("n", number)
    with open(os.path.join(ledger, f"did {number}"), "w"):
        pass
    while number in (0, 1) and not os.path.exists(os.path.join(ledger, f"go {number}")):
        time.sleep(0.01)
assert [below.get_metrics()["n"] for below in run.get_children()] == [3, 2, 1, 0]
print("done")
"""


def test_neither_the_death_of_the_server_nor_of_the_connection_ends_a_script(world: SshWorld) -> None:
    world.start_server()
    run = submit(world, STEADY, arguments=(str(world.ledger),))
    wait_for("the first child", (world.ledger / "did 0").exists)
    world.kill_server()
    (world.ledger / "go 0").touch()
    wait_for("a call while nobody is there", (world.ledger / "calls 1").exists)
    world.start_server()
    wait_for("the second child", (world.ledger / "did 1").exists, 60)
    world.kill_ssh()
    (world.ledger / "go 1").touch()
    assert completed(world, run).endswith(b"done\n")
    children = world.ask("GET", f"/workspaces/default/runs?parent={run}")["runs"]
    assert sorted(child["name"] for child in children) == ["part 0", "part 1", "part 2", "part 3"]


REGISTERS = f"""
from windlass import Model, Run
run = Run.get_context()
with open("outputs/model.bin", "wb") as file:
    file.write(bytes({4 * MB}))
large = run.register_model("large", "outputs/model.bin", tags={{"where": "there"}})
run.upload_file("kept/me.py", __file__)
small = run.register_model("small", model_path="kept/me.py")
assert (large.version, small.version, large.run_id) == (1, 1, run.id)
assert open(Model.get_model_path("small")).read() == open(__file__).read()
assert [model.name for model in Model.list(run.experiment.workspace, run_id=run.id)] == ["small", "large"]
print("done")
"""


def test_a_script_registers_models(world: SshWorld) -> None:
    world.start_server()
    run = submit(world, REGISTERS)
    assert completed(world, run).endswith(b"done\n")
    large = world.ask("GET", "/workspaces/default/models/large")
    file = {"path": "model.bin", "digest": hashlib.sha256(bytes(4 * MB)).hexdigest(), "size": 4 * MB}
    assert (large["run"], large["tags"], large["files"]) == (run, {"where": "there"}, [file])
