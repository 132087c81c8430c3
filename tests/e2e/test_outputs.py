"""Whatever a script prints is kept to the byte, up to the cap, and the run goes on."""

from __future__ import annotations

import hashlib
import sys

import pytest

from tests.e2e.submitting import submit_script
from tests.faults.world import World, wait_for

MB = 1 << 20
KINDS = {
    "binary": "import os\nfor i in range(64): os.write(1, bytes(range(256)) * 4096)",
    "no-newline": "import os\nfor i in range(64): os.write(1, b'x' * 1048576)",
    "invalid-utf8": "import os\nfor i in range(9000): os.write(1, b'\\xe2\\x28\\xa1 \\xc3 \\xff\\n')",
    "progress-bar": "import os\nfor i in range(20000): os.write(2, b'\\r%5d of 20000' % i)",
    "frames": "import os\nfor i in range(999): os.write(1, b'windlass-pipe 1\\n\\0\\0\\0\\2\\0\\0\\0\\0{}')",
    "nothing": "pass",
}
SAYS = {
    "binary": bytes(range(256)) * 4096 * 64,
    "no-newline": b"x" * MB * 64,
    "invalid-utf8": b"\xe2\x28\xa1 \xc3 \xff\n" * 9000,
    "progress-bar": b"".join(b"\r%5d of 20000" % i for i in range(20000)),
    "frames": b"windlass-pipe 1\n\0\0\0\2\0\0\0\0{}" * 999,
    "nothing": b"",
}


@pytest.mark.parametrize("kind", KINDS)
def test_output_of_any_kind_is_kept_and_followed_to_the_byte(world: World, kind: str) -> None:
    world.start_server()
    run = submit_script(world, KINDS[kind])
    followed = b"".join(data for event, _, data in world.follow(run["id"]) if event == "log")
    assert followed == SAYS[kind]
    assert world.wait_final(run["id"])["state"] == "Completed"
    assert world.file(run["id"], "user_logs/std_log.txt") == SAYS[kind]


def test_outputs_that_cannot_be_kept_are_told_and_the_others_are(world: World) -> None:
    world.start_server()
    script = "\n".join(
        (
            "open('outputs/good.txt', 'w').write('x')",
            "open('outputs/two\\nlines.txt', 'w').write('x')",
            "open(b'outputs/\\xff.txt', 'w').write('x')",
        )
    )
    run = world.wait_final(submit_script(world, script)["id"])
    assert run["state"] == "Completed"
    assert world.file(run["id"], "outputs/good.txt") == b"x"
    events = world.ask("GET", f"/workspaces/default/runs/{run['id']}/events")["events"]
    [told] = [event["message"] for event in events if event["kind"] == "left_out"]
    assert told.startswith("2 files are not kept") and r"outputs/two\nlines.txt" in told and r"\udcff" in told


@pytest.mark.slow
def test_a_gigabyte_without_a_newline(world: World) -> None:
    world.start_server()
    run = submit_script(world, "import os\nfor i in range(1000): os.write(1, b'%03d' % i * 333333 + b'.')")
    assert world.wait_final(run["id"], 300)["state"] == "Completed"
    told = hashlib.sha256()
    for i in range(1000):
        told.update(b"%03d" % i * 333333 + b".")
    files = world.ask("GET", f"/workspaces/default/runs/{run['id']}/files")["files"]
    [log] = [file for file in files if file["path"] == "user_logs/std_log.txt"]
    assert (log["size"], log["digest"]) == (1_000_000_000, told.hexdigest())


def test_a_log_beyond_its_cap_says_so_and_the_run_goes_on(world: World) -> None:
    world.start_server()
    world.ask("PATCH", "/settings", {"log_cap_bytes": MB})
    world.kill_server()
    world.start_server()
    run = submit_script(world, "import os\nfor i in range(4096): os.write(1, b'%08d' % i * 512)\nraise SystemExit(3)")
    ended = world.wait_final(run["id"])
    assert (ended["state"], ended["exit_code"]) == ("Failed", 3)
    events = world.ask("GET", f"/workspaces/default/runs/{run['id']}/events")["events"]
    assert any(event["kind"] == "log_capped" and "std_log" in event["message"] for event in events)
    whole = b"".join(b"%08d" % i * 512 for i in range(4096))
    kept = gaps = b""
    for event, offset, data in world.follow(run["id"]):
        if event == "log":
            assert whole[offset : offset + len(data)] == data
            kept += data
        elif event == "gap":
            gaps += whole[offset : offset + int(data)]
    assert len(kept) <= MB
    assert len(kept) + len(gaps) == len(whole)
    assert whole.endswith(kept[-1000:])


def test_a_log_beyond_its_cap_is_true_to_the_byte_though_nobody_read_it(world: World) -> None:
    """The machine gives back the middle of a long log to the disk. What it keeps is what the server takes later."""
    world.start_server()
    world.ask("PATCH", "/settings", {"log_cap_bytes": 8 * MB})
    world.kill_server()
    world.start_server()
    script = f"""
import os, time
while not os.path.exists("go"): time.sleep(0.01)
for i in range(4096): os.write(1, b"%08d" % i * 2048)
while os.fstat(1).st_blocks * 512 > {16 * MB}: time.sleep(0.01)
"""
    run = submit_script(world, script)
    world.pid_of(run["id"], "process")
    world.kill_server()
    (world.folder(run["id"]) / "source/go").touch()
    wait_for("the middle to go", lambda: (world.folder(run["id"]) / "status.json").exists())
    world.start_server()
    assert world.wait_final(run["id"])["state"] == "Completed"
    whole = b"".join(b"%08d" % i * 2048 for i in range(4096))
    pieces = [(offset, data) for event, offset, data in world.follow(run["id"]) if event == "log"]
    assert all(whole[offset : offset + len(data)] == data for offset, data in pieces)
    assert sum(len(data) for _, data in pieces) == 8 * MB


@pytest.mark.parametrize(("first", "then"), [("logs/it", "logs/it/is"), ("logs/it/is", "logs/it")])
def test_a_log_that_becomes_a_folder_or_was_one_is_kept_as_it_is_in_the_end(
    world: World, first: str, then: str
) -> None:
    world.start_server()
    script = f"""
import os, shutil, time
os.makedirs(os.path.dirname("{first}"), exist_ok=True)
with open("{first}", "w") as log: log.write("first")
while not os.path.exists("go"): time.sleep(0.01)
shutil.rmtree("logs")
os.makedirs(os.path.dirname("{then}"))
with open("{then}", "w") as log: log.write("x" * 4096)
"""
    run = submit_script(world, script)
    wait_for("the log", lambda: world.file(run["id"], first) == b"first")
    (world.folder(run["id"]) / "source/go").touch()
    assert world.wait_final(run["id"])["state"] == "Completed"
    assert world.file(run["id"], then) == b"x" * 4096


def test_many_outputs_are_kept_each_and_nobody_waits_for_them(world: World) -> None:
    world.start_server()
    script = "for i in range(300): open(f'outputs/{i}', 'w').write(str(i % 7))"
    run = submit_script(world, script)
    assert world.wait_final(run["id"])["state"] == "Completed"
    files = world.ask("GET", f"/workspaces/default/runs/{run['id']}/files")["files"]
    digests = {file["path"]: file["digest"] for file in files}
    assert all(digests[f"outputs/{i}"] == hashlib.sha256(b"%d" % (i % 7)).hexdigest() for i in range(300))
    events = world.ask("GET", f"/workspaces/default/runs/{run['id']}/events")["events"]
    assert "Finalizing" in [event["state"] for event in events]  # by others than those who start runs


def test_a_command_finds_the_programs_beside_its_interpreter(world: World) -> None:
    world.start_server()
    run = submit_script(world, "", command=("python", "-c", "import sys; print(sys.prefix)"))
    assert world.wait_final(run["id"])["state"] == "Completed"
    assert world.file(run["id"], "user_logs/std_log.txt").decode().strip() == sys.prefix
