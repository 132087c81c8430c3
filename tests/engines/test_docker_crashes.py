"""Supervisors, hosts and engines die, or are away; what became of a script is told truly, and it is executed once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engines.between import between, in_zone
from tests.engines.box import Box
from tests.engines.images import BUSYBOX
from tests.runner.conftest import Hosts
from tests.runner.pipe import is_alive, wait_for

ONE_GPU = [{"Count": 1, "Capabilities": [["gpu"]]}]
# Notes each execution, waits to be let go, then ends as it is told.
OBEDIENT = 'echo x >>ledger; echo up; while [ ! -e go ]; do sleep 0.02; done; echo over; exit "$0"'


def begin(box: Box, code: int = 7, **more: Any) -> None:
    start(box, code, **more)
    box.wait_for_line("a.1")


def start(box: Box, code: int = 7, **more: Any) -> None:
    run = {"container": box.container(BUSYBOX), "environment": {"interpreter": "sh"}, "nonce": box.nonce, **more}
    box.host.start("a.1", ["sh", "-c", OBEDIENT, str(code)], **run)


def let_go(box: Box) -> None:
    (box.host.folder("a.1") / "source/go").touch()


def executions(box: Box) -> int:
    ledger = box.host.folder("a.1") / "source/ledger"
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def supervisor(box: Box) -> int:
    pid: int = box.host.file("a.1", "claim/supervisor.json")["pid"]
    return pid


def kill_supervisor(box: Box) -> None:
    pid = supervisor(box)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))


def end_unseen(box: Box) -> dict[str, Any]:
    """The script ends when nobody but the engine is there; returns what that knows of it."""
    box.host.kill()
    kill_supervisor(box)
    let_go(box)
    [name] = box.containers("a.1")
    found: dict[str, Any] = wait_for(
        lambda: (state := box.inspect(name)["State"])["FinishedAt"] > "2" and not state["Running"] and state
    )
    return found


def check_end(box: Box, reason: str = "exited", code: int | None = 7) -> dict[str, Any]:
    ended = box.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == (reason, code), ended
    assert executions(box) == 1
    box.wait_until_gone("a.1")
    return ended


def test_supervisors_may_be_killed_again_and_again(box: Box) -> None:
    begin(box)
    for count in range(1, 4):
        kill_supervisor(box)
        wait_for(lambda: box.host.event_names("a.1").count("adopted") == count)  # noqa: B023
    let_go(box)
    check_end(box)
    assert box.host.read("a.1") == b"up\nover\n"


def test_without_anybody_left_the_engine_still_knows_how_it_ended(box: Box, hosts: Hosts) -> None:
    """The exit code of a process would be lost here."""
    begin(box)
    end_unseen(box)
    box.host = hosts()
    check_end(box)


def test_the_time_of_the_end_is_the_engines(box: Box, hosts: Hosts) -> None:
    begin(box, 0)
    state = end_unseen(box)
    box.host = hosts()
    ended = check_end(box, "exited", 0)
    import datetime

    told = datetime.datetime.fromtimestamp(ended["ended_at"], datetime.UTC).isoformat(timespec="milliseconds")
    assert told[:21] == state["FinishedAt"][:21]


def test_an_engine_with_another_way_of_telling_the_time(box: Box, hosts: Hosts, tmp_path: Path) -> None:
    """What it has started, however it writes when, is not started again."""
    with in_zone(box.engine, tmp_path / "podman.sock") as address:
        before = time.time()
        begin(box, container=box.container(BUSYBOX, engine=address))
        end_unseen(box)
        box.host = hosts()
        ended = check_end(box)
        assert before - 1 <= ended["started_at"] <= ended["ended_at"] <= time.time() + 1


def test_one_that_was_made_and_not_started_is_started_by_the_next(box: Box, hosts: Hosts) -> None:
    """A supervisor that died between its last word before the start and the start itself."""
    start(box, hold=True)
    wait_for(lambda: "ready" in box.host.event_names("a.1"))
    [name] = box.containers("a.1")
    box.host.kill()
    wait_for(lambda: not is_alive(supervisor(box)))
    folder = box.host.folder("a.1")
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({k: v for k, v in run.items() if k != "hold"}))
    with open(folder / "events.jsonl", "a") as story:
        story.write(json.dumps({"event": "exec", "boot_id": run["boot_id"]}) + "\n")
    box.host = hosts()
    box.host.observe("a.1")
    box.wait_for_line("a.1")
    assert box.containers("a.1") == [name]
    let_go(box)
    check_end(box)


def test_who_starts_a_container_a_second_time_executes_nothing(box: Box) -> None:
    begin(box)
    [name] = box.containers("a.1")
    os.kill(supervisor(box), signal.SIGSTOP)
    let_go(box)
    wait_for(lambda: not box.inspect(name)["State"]["Running"])
    box.engine.docker("start", name)
    wait_for(lambda: box.inspect(name)["State"]["ExitCode"] == 125)
    os.kill(supervisor(box), signal.SIGCONT)
    ended = check_end(box, "exit_unknown", None)
    assert "started twice" in ended["message"]


def test_one_that_somebody_else_has_started_is_not_started_again(box: Box) -> None:
    start(box, hold=True)
    wait_for(lambda: "ready" in box.host.event_names("a.1"))
    [name] = box.containers("a.1")
    box.engine.docker("start", name)
    box.wait_for_line("a.1")
    start(box)
    box.host.wait_running("a.1")
    let_go(box)
    check_end(box)


def test_an_engine_that_hangs_is_waited_for(own_box: Box) -> None:
    box = own_box
    begin(box, 0)
    engine = box.engine.pid
    os.kill(engine, signal.SIGSTOP)
    try:
        box.host.ask("stop", job="a.1", grace=1)
        let_go(box)
        wait_for(lambda: b"over" in box.host.read("a.1"))
        assert box.host.observe("a.1")["phase"] == "running"
    finally:
        os.kill(engine, signal.SIGCONT)
    ended = box.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) in {("exited", 0), ("stopped", 0)}
    assert executions(box) == 1


def test_a_stop_reaches_its_container_when_the_engine_is_back(own_box: Box) -> None:
    box = own_box
    box.engine.stop()
    box.engine.start("--live-restore")
    begin(box)
    box.host.wait_running("a.1")
    box.engine.kill()
    wait_for(lambda: "engine_away" in box.host.event_names("a.1"))
    box.host.ask("stop", job="a.1", grace=0)
    assert box.host.observe("a.1")["phase"] == "running"
    box.engine.start("--live-restore")
    ended = box.wait("a.1")
    assert ended["reason"] == "stopped", ended["message"]
    assert executions(box) == 1
    box.wait_until_gone("a.1")


def test_while_the_engine_is_away_the_story_does_not_grow(own_box: Box) -> None:
    """A script that does not hear the wish to end is killed again and again, until somebody passes that on."""
    box = own_box
    box.engine.stop()
    box.engine.start("--live-restore")
    box.sh("deaf.1", "trap '' TERM; echo up; while true; do sleep 0.1; done")
    box.wait_for_line("deaf.1")
    box.host.wait_running("deaf.1")
    box.host.ask("stop", job="deaf.1", grace=2)
    wait_for(lambda: "stopping" in box.host.event_names("deaf.1"))
    box.engine.kill()
    wait_for(lambda: "killing" in box.host.event_names("deaf.1"))
    time.sleep(2.5)
    assert box.host.event_names("deaf.1").count("killing") == 1
    box.engine.start("--live-restore")
    assert box.wait("deaf.1")["reason"] == "stopped"


@pytest.mark.parametrize("is_stopped", [False, True], ids=["by itself", "stopped"])
def test_an_engine_that_is_killed_while_it_starts_a_container_does_not_end_it(own_box: Box, is_stopped: bool) -> None:
    """It knows nothing of it afterwards. The script goes on; only how it ended, nobody can tell."""
    box = own_box
    shims = box.engine.folder / "slow"
    shims.mkdir()
    # As slow as a busy machine: the script runs before the engine hears that it does.
    wait = f"n=0; while [ ! -e {shims}/go ] && [ $n -lt 600 ]; do sleep 0.1; n=$((n+1)); done"
    (shims / "runc").write_text(
        f'#!/bin/sh\n{shutil.which("runc")} "$@"; code=$?\ncase "$*" in *" start "*) {wait};; esac\nexit $code\n'
    )
    (shims / "runc").chmod(0o755)
    box.engine.stop()
    box.engine.start(env={"PATH": f"{shims}:{os.environ['PATH']}"})
    begin(box)
    assert "running" not in box.host.event_names("a.1")
    box.engine.kill()
    (shims / "go").touch()
    box.engine.start()
    box.host.wait_running("a.1")
    if is_stopped:
        box.host.ask("stop", job="a.1", grace=1)
    else:
        let_go(box)
    ended = box.wait("a.1")
    assert ended["reason"] == ("stopped" if is_stopped else "exit_unknown"), ended
    assert ended["exit_code"] is None
    assert executions(box) == 1
    box.wait_until_gone("a.1")


def test_a_run_waits_for_an_engine_that_is_being_restarted(own_box: Box) -> None:
    box = own_box
    box.engine.kill()
    start(box)
    wait_for(lambda: box.host.observe("a.1").get("message") == "waiting for the Docker engine")
    words = "Waiting for the Docker engine. The Docker engine does not answer at"
    wait_for(lambda: words in box.build_log("a.1"))  # which is told just after
    box.engine.start()
    box.wait_for_line("a.1")
    let_go(box)
    check_end(box)


def test_what_the_engine_did_not_see_is_not_believed(own_box: Box) -> None:
    """It says 255 of a container whose end nobody saw, which may be the script's own code as well."""
    box = own_box
    begin(box, 0)
    wait_for((box.host.folder("a.1") / "usage.jsonl").exists)  # it has begun to look
    [name] = box.containers("a.1")
    first = box.inspect(name)["State"]["Pid"]
    shim = int(Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(supervisor(box), signal.SIGSTOP)  # as slow as on a busy machine: all is over when it looks
    box.engine.kill()
    for pid in (shim, first):
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(pid))  # noqa: B023
    box.engine.start()
    assert box.inspect(name)["State"]["ExitCode"] == 255
    os.kill(supervisor(box), signal.SIGCONT)
    ended = check_end(box, "exit_unknown", None)
    assert "engine was not there" in ended["message"]


def test_an_empty_answer_is_not_taken_for_a_missing_container(box: Box, tmp_path: Path) -> None:
    """The engine's first answer about the container after its end has no body."""
    emptied: list[bytes] = []

    def has_ended() -> bool:
        return any(box.inspect(name)["State"]["Status"] == "exited" for name in box.containers("a.1"))

    def instead(line: bytes) -> bytes | None:
        if emptied or b"GET /containers/" not in line or not has_ended():
            return None
        emptied.append(line)
        return b"HTTP/1.0 200 OK\r\n\r\n"

    with between(box.engine, tmp_path / "engine.sock", instead) as address:
        begin(box, container=box.container(BUSYBOX, engine=address))
        wait_for(lambda: "running" in box.host.event_names("a.1"))
        let_go(box)
        check_end(box)
    assert emptied


def test_a_script_that_lives_has_not_ended_whatever_the_engine_knows(box: Box, tmp_path: Path) -> None:
    asked: list[bytes] = []
    has_forgotten = threading.Event()

    def instead(line: bytes) -> bytes | None:
        if not line.startswith(b"GET /containers/") or not has_forgotten.is_set():
            return None
        asked.append(line)
        return b"HTTP/1.0 404 No\r\n\r\nno such container"

    with between(box.engine, tmp_path / "engine.sock", instead) as address:
        begin(box, container=box.container(BUSYBOX, engine=address))
        wait_for(lambda: "running" in box.host.event_names("a.1"))
        has_forgotten.set()
        wait_for(lambda: len(asked) > 1, 60)
        assert box.host.observe("a.1")["phase"] == "running"
        has_forgotten.clear()
        let_go(box)
        check_end(box)


# As the engine calls the first process of a container until that becomes the image's own.
NOT_YET = """#!/bin/sh
while [ ! -e {folder}/go ]; do sleep 0.02; done
WINDLASS_COOKIE='{nonce}' exec sleep 600
"""


def test_a_container_whose_first_process_is_still_the_engines_is_known_all_the_same(box: Box, tmp_path: Path) -> None:
    """An engine says that it has started one just before that is so."""
    first = tmp_path / "runc:[2:INIT]"
    first.write_text(NOT_YET.format(folder=tmp_path, nonce=box.nonce))
    first.chmod(0o755)
    was_told = threading.Event()

    def instead(line: bytes) -> bytes | None:
        if not line.startswith(b"GET /containers/") or not (names := box.containers("a.1")):
            return None
        there = box.inspect(names[0])
        if not there["State"]["Running"]:
            return None
        there["State"]["Pid"] = stand_in.pid
        was_told.set()
        return b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(there).encode()

    with subprocess.Popen([first]) as stand_in, between(box.engine, tmp_path / "engine.sock", instead) as address:
        try:
            start(box, container=box.container(BUSYBOX, engine=address))
            assert was_told.wait(60)
            time.sleep(0.2)  # in which somebody would have taken it for nobody
            (tmp_path / "go").touch()
            assert box.host.wait_running("a.1")["pid"] == stand_in.pid
            let_go(box)
            check_end(box)
        finally:
            stand_in.kill()


def test_who_is_deaf_is_killed_at_the_time_limit(box: Box) -> None:
    box.sh("deaf.1", "trap '' TERM; echo up; while true; do sleep 0.1; done", time_limit=4, grace=1)
    ended = box.wait("deaf.1")
    assert (ended["reason"], ended["exit_code"], ended["signal"]) == ("time_limit", None, 9)
    assert ended["message"] == ""  # it was ours: there is nothing to guess
    assert box.host.read("deaf.1") == b"up\n"
    box.wait_until_gone("deaf.1")


def test_a_container_that_is_killed_from_outside(box: Box) -> None:
    begin(box)
    box.engine.docker("kill", *box.containers("a.1"))
    ended = check_end(box, "exited", 137)
    assert "128 + 9" in ended["message"]


def test_a_container_that_is_removed_from_outside_has_no_end_to_tell(box: Box) -> None:
    begin(box)
    stopped = supervisor(box)
    os.kill(stopped, signal.SIGSTOP)
    box.engine.docker("rm", "--force", *box.containers("a.1"))
    with contextlib.suppress(ProcessLookupError):  # on a busy machine the host has replaced it by now
        os.kill(stopped, signal.SIGCONT)
    ended = check_end(box, "exit_unknown", None)
    assert "removed by somebody else" in ended["message"]


def test_a_container_that_is_paused_is_not_dead_and_can_be_stopped(box: Box) -> None:
    box.sh("a.1", "trap 'exit 5' TERM; echo up; while true; do sleep 0.1; done")
    box.wait_for_line("a.1")
    box.engine.docker("pause", *box.containers("a.1"))
    kill_supervisor(box)
    wait_for(lambda: "adopted" in box.host.event_names("a.1"))
    assert box.host.observe("a.1")["phase"] == "running"
    box.host.ask("stop", job="a.1", grace=30)
    assert box.result("a.1") == ("stopped", 5, None)  # it had time to end by itself
    box.wait_until_gone("a.1")


def test_an_engine_without_its_init_runs_scripts_all_the_same(own_box: Box) -> None:
    box = own_box
    box.engine.stop()
    box.engine.start("--init-path", "/no/such/docker-init")
    begin(box)
    let_go(box)
    check_end(box)


def test_a_machine_that_was_restarted_has_lost_its_containers(box: Box, hosts: Hosts) -> None:
    begin(box)
    wait_for(lambda: "running" in box.host.event_names("a.1"))
    box.host.kill()
    kill_supervisor(box)
    for name in ("run.json", "claim/supervisor.json", "claim/process.json"):
        path = box.host.folder("a.1") / name
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot_id": "of-yesterday"}))
    box.host = hosts()
    assert box.wait("a.1")["reason"] == "node_lost"
    box.wait_until_gone("a.1")


def test_what_was_only_held_ready_is_cleaned_up(box: Box) -> None:
    start(box, hold=True)
    wait_for(lambda: "ready" in box.host.event_names("a.1"))
    assert len(box.containers("a.1")) == 1
    box.host.clean("a.1")
    box.wait_until_gone("a.1")


def test_a_container_is_removed_as_soon_as_the_engine_can(box: Box, tmp_path: Path) -> None:
    """By its supervisor, which has told of the end meanwhile."""
    refused: list[bytes] = []

    def instead(line: bytes) -> bytes | None:
        if not line.startswith(b"DELETE") or len(refused) == 2:
            return None
        refused.append(line)
        return b"HTTP/1.0 500 No\r\n\r\ndevice or resource busy"

    with between(box.engine, tmp_path / "engine.sock", instead) as address:
        begin(box, container=box.container(BUSYBOX, engine=address))
        let_go(box)
        check_end(box)
    assert len(refused) == 2


def test_what_could_not_be_removed_is_removed_later(own_box: Box, hosts: Hosts) -> None:
    box = own_box
    start(box, hold=True)
    wait_for(lambda: "ready" in box.host.event_names("a.1"))
    box.engine.kill()
    box.host.insist("clean", job="a.1")
    children = Path(f"/proc/{box.host.pid}/task/{box.host.pid}/children")
    wait_for(lambda: not children.read_text().split())  # who was to remove it has tried
    box.host.close()
    assert os.listdir(box.host.root / "trash")
    box.engine.start()
    assert len(box.containers("a.1")) == 1
    box.host = hosts()
    box.wait_until_gone("a.1")
    wait_for(lambda: not os.listdir(box.host.root / "trash"))


def test_a_held_container_is_made_anew_if_the_run_has_changed(box: Box) -> None:
    start(box, hold=True, env={"WHICH": "held"})
    wait_for(lambda: "ready" in box.host.event_names("a.1"))
    start(box, env={"WHICH": "started"})
    box.wait_for_line("a.1")
    [name] = box.containers("a.1")
    assert "WHICH=started" in box.inspect(name)["Config"]["Env"]
    let_go(box)
    check_end(box)


@pytest.mark.parametrize("count", ["1", "all"])
def test_gpus_are_asked_of_the_engine(own_box: Box, tmp_path: Path, count: str) -> None:
    """With a stand-in for NVIDIA's hook, which the engine calls before it starts a container that asks for GPUs."""
    box = own_box
    hook = tmp_path / "bin" / "nvidia-container-runtime-hook"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\necho fake_nvidia_hook called >>{tmp_path}/called\n")
    hook.chmod(0o755)
    box.engine.stop()
    box.engine.start(env={"PATH": f"{hook.parent}:{os.environ['PATH']}"})
    host = {"DeviceRequests": [{"Count": -1 if count == "all" else 1, "Capabilities": [["gpu"]]}]}
    box.sh("gpu.1", "echo $NVIDIA_VISIBLE_DEVICES", {"host": host})
    assert box.result("gpu.1") == ("exited", 0, None), box.host.observe("gpu.1")
    assert box.host.read("gpu.1").decode().strip() == ("all" if count == "all" else "0")
    assert "fake_nvidia_hook" in (tmp_path / "called").read_text()


@pytest.mark.parametrize(("asked", "seen"), [({}, "all"), ({"DeviceRequests": ONE_GPU}, "0")], ids=["nothing", "one"])
def test_gpus_of_the_machine_are_there_unasked(
    own_box: Box, hosts: Hosts, tmp_path: Path, asked: dict[str, Any], seen: str
) -> None:
    """With stand-ins for nvidia-smi and for NVIDIA's hook."""
    fakes = {"nvidia-smi": "echo fake_nvidia_smi", "nvidia-container-runtime-hook": "exit 0"}
    for name, text in fakes.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    own_box.engine.stop()
    own_box.engine.start(env=path)
    box = Box(hosts(env={**os.environ, **path}), own_box.engine)
    box.sh("gpu.1", "echo $NVIDIA_VISIBLE_DEVICES", {"host": asked})
    assert box.result("gpu.1") == ("exited", 0, None), box.host.observe("gpu.1")
    assert box.host.read("gpu.1").decode().strip() == seen
    plain = Box(hosts(), own_box.engine)  # it has no GPUs to give
    plain.sh("none.1", "echo $NVIDIA_VISIBLE_DEVICES")
    assert (plain.result("none.1"), plain.host.read("none.1")) == (("exited", 0, None), b"\n")


def test_an_engine_that_has_no_gpus_to_give_says_what_is_missing(box: Box) -> None:
    box.sh("gpu.1", "true", {"host": {"DeviceRequests": [{"Count": 1, "Capabilities": [["gpu"]]}]}})
    ended = box.wait("gpu.1")
    assert ended["reason"] == "start_failed"
    assert "nvidia-container-toolkit" in ended["message"]


def test_who_cleans_up_at_once_meets_the_supervisor_at_it(box: Box) -> None:
    for number in range(4):
        job = f"brief{number}.1"
        box.sh(job, "true")
        assert box.result(job) == ("exited", 0, None)
        box.host.clean(job)
        box.wait_until_gone(job)
