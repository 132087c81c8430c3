"""Jobs that an engine starts: a host that only places and reads, and a supervisor that is started by itself."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ..conftest import Hosts
from ..pipe import RUNNER, Host, RequestRefused, is_alive, make_zip, wait_for
from ..test_travels import interpreters

ENGINE_OWNED = ("--engine-owned",)
SECRET = "c4n4ry-of-the-run"
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
WAITS = (
    "import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\nraise SystemExit(9)"
)


class Engine:
    """Starts supervisors, as an engine would; ends those that are left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, job: str, *options: str, env: dict[str, str] | None = None, python: str = sys.executable
    ) -> subprocess.Popen[bytes]:
        argv = [python, "-I", "-S", str(RUNNER), "supervise", "--root", str(self.root), job, *options]
        made = subprocess.Popen(argv, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.started.append(made)
        return made

    def run(self, job: str, *options: str) -> tuple[int, str]:
        """Until it ends: its exit code, and what it says."""
        made = self.start(job, *options)
        assert made.stderr is not None
        said = made.stderr.read().decode()
        return made.wait(), said

    def close(self) -> None:
        for made in self.started:
            if made.poll() is None:
                made.kill()
            made.wait()
            if made.stderr is not None:
                made.stderr.close()


@pytest.fixture
def engine(root: Path) -> Iterator[Engine]:
    made = Engine(root)
    yield made
    made.close()


@pytest.fixture
def host(hosts: Hosts) -> Host:
    return hosts(options=ENGINE_OWNED)


def place(host: Host, job: str, script: str, **more: Any) -> dict[str, Any]:
    files = {"train.py": script.encode(), "data/x.csv": b"1,2\n"}
    return host.insist("place", run=host.run_json(job, ["{python}", "train.py"], files, **more))


def processes_of(root: Path) -> list[str]:
    """Supervisors of this machine's folder, wherever they come from."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
            if b"supervise" in words and bytes(root) in words:
                found.append(pid)
    return found


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


# ---- from placement to the end ----


def test_a_job_is_placed_by_the_host_and_executed_by_the_supervisor(host: Host, engine: Engine) -> None:
    placed = place(host, "a.1", "print(open('data/x.csv').read()); raise SystemExit(7)")
    assert (placed["native"], placed["is_started"]) == (None, False)
    assert placed["command"][1:] == ["supervise", "--root", str(host.root), "a.1"]
    assert (host.folder("a.1") / "source/data/x.csv").read_bytes() == b"1,2\n"
    assert host.observe("a.1")["phase"] == "queued"
    assert not (host.folder("a.1") / "claim").exists()
    assert processes_of(host.root) == []
    assert engine.run("a.1")[0] == 0
    ended = host.observe("a.1")
    assert (ended["phase"], ended["reason"], ended["exit_code"]) == ("ended", "exited", 7)
    assert host.read("a.1").strip() == b"1,2"
    assert "user_logs/std_log.txt" in {file[0] for file in ended["files"]}


def test_the_same_job_placed_twice_is_one_folder(host: Host, hosts: Hosts, engine: Engine) -> None:
    run = host.run_json("a.1", ["{python}", "train.py"], {"train.py": b"print('once')"})
    other = hosts(options=ENGINE_OWNED)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda each: each.ask("place", run=run)[0], [host, other] * 4))
    assert all(answer["command"] == answers[0]["command"] for answer in answers)
    before = (host.folder("a.1") / "run.json").stat().st_ino
    assert host.ask("place", run={**run, "fence": 5})[0]["is_started"] is False
    assert (host.folder("a.1") / "run.json").stat().st_ino == before
    engine.run("a.1")
    assert host.ask("place", run={**run, "fence": 5})[0]["is_started"] is True
    assert host.read("a.1") == b"once\n"
    with pytest.raises(RequestRefused, match="older"):
        host.ask("place", run=run)


def test_a_second_start_of_the_same_job_does_nothing(host: Host, engine: Engine) -> None:
    place(host, "a.1", WAITS)
    first = engine.start("a.1")
    wait_for(lambda: host.read("a.1") == b"up\n")
    assert engine.run("a.1") == (0, "windlass runner: a.1 was started already; this start does nothing.\n")
    (host.folder("a.1") / "source/go").touch()
    assert first.wait(30) == 0
    assert engine.run("a.1")[0] == 0
    assert host.observe("a.1")["exit_code"] == 9
    assert host.event_names("a.1").count("exec") == 1
    assert host.read("a.1") == b"up\n"


def test_many_starts_at_once_execute_it_once(host: Host, engine: Engine) -> None:
    place(host, "a.1", "print('once')")
    started = [engine.start("a.1") for _ in range(6)]
    assert [each.wait(60) for each in started] == [0] * 6
    assert host.wait("a.1")["exit_code"] == 0
    assert host.read("a.1") == b"once\n"


def test_a_job_that_was_never_placed_is_an_error(host: Host, engine: Engine) -> None:
    assert engine.run("never.1") == (2, "windlass runner: never.1 has no run.json.\n")


def test_the_host_has_no_requests_of_the_other_mode(host: Host) -> None:
    run = host.run_json("a.1", ["true"])
    with pytest.raises(RequestRefused, match="no request 'start'"):
        host.ask("start", run=run)
    with pytest.raises(RequestRefused, match="has no `hold`"):
        host.ask("place", run={**run, "hold": True})
    with pytest.raises(RequestRefused, match="its `claim`"):
        host.ask("place", run={**run, "claim": "me"})


def test_the_engines_id_of_a_job_is_noted_once(host: Host) -> None:
    place(host, "a.1", "pass")
    assert host.ask("submitted", job="a.1", native="one")[0]["native"] == "one"
    assert host.ask("submitted", job="a.1", native="two")[0]["native"] == "one"
    assert place(host, "a.1", "pass")["native"] == "one"
    assert host.observe("a.1")["native"] == "one"
    with pytest.raises(RequestRefused, match="not here"):
        host.ask("submitted", job="other.1", native="one")


# ---- what the host concludes ----


def test_the_host_concludes_nothing_from_process_ids(host: Host, engine: Engine) -> None:
    """The supervisor is dead on this machine, and may live on another for all that the host knows."""
    place(host, "a.1", SLEEPS)
    started = engine.start("a.1")
    wait_for(lambda: host.read("a.1") == b"up\n")
    script, supervisor = (host.file("a.1", f"claim/{name}.json")["pid"] for name in ("process", "supervisor"))
    for pid in (supervisor, started.pid, script):
        os.kill(pid, signal.SIGSTOP)
    for pid in (supervisor, started.pid, script):
        os.kill(pid, signal.SIGKILL)
    started.wait()
    wait_for(lambda: not is_alive(script) and not is_alive(supervisor))
    silent = [host.observe("a.1") for _ in range(3)]
    assert {seen["phase"] for seen in silent} == {"running"}
    assert silent[-1]["silent_seconds"] >= silent[0]["silent_seconds"] >= 0
    assert host.event_names("a.1").count("adopted") == 0
    assert processes_of(host.root) == []
    with pytest.raises(RequestRefused, match="still running"):
        host.ask("clean", job="a.1")
    host.ask("clean", job="a.1", gone=True)
    assert host.observe("a.1")["phase"] == "lost"


def test_the_heartbeat_is_silence_to_no_one_while_it_changes(host: Host, engine: Engine) -> None:
    place(host, "a.1", SLEEPS)
    engine.start("a.1")
    wait_for(lambda: host.read("a.1") == b"up\n")
    first = host.file("a.1", "heartbeat.json")
    wait_for(lambda: host.file("a.1", "heartbeat.json")["beat"] > first["beat"])
    assert host.observe("a.1")["silent_seconds"] == 0.0
    host.ask("stop", job="a.1", grace=1)
    assert host.wait("a.1")["reason"] == "stopped"


# ---- the end by others ----


def test_a_stop_is_a_file_that_the_supervisor_looks_for(host: Host, engine: Engine, hosts: Hosts) -> None:
    place(host, "a.1", SLEEPS)
    started = engine.start("a.1")
    wait_for(lambda: host.read("a.1") == b"up\n")
    assert host.ask("stop", job="a.1", grace=5)[0]["cancel"] is False
    host.kill()  # while it is away, the supervisor stops the run
    assert started.wait(30) == 0
    later = hosts(options=ENGINE_OWNED)
    assert later.observe("a.1")["reason"] == "stopped"


def test_a_stop_before_the_start_ends_the_job_for_good(host: Host, engine: Engine) -> None:
    place(host, "a.1", "print('never')", secrets=["key"], granted={"key": SECRET})
    assert host.ask("stop", job="a.1", grace=5)[0]["cancel"] is True
    assert host.observe("a.1")["reason"] == "stopped"
    assert SECRET.encode() not in contents(host.folder("a.1"))
    assert engine.run("a.1")[0] == 0
    assert host.read("a.1") == b""
    assert host.ask("stop", job="a.1", grace=5)[0]["cancel"] is False


def test_what_was_cleaned_up_is_never_executed(host: Host, engine: Engine) -> None:
    place(host, "a.1", "print('never')")
    host.clean("a.1")
    assert engine.run("a.1") == (0, "windlass runner: a.1 was cleaned up.\n")
    with pytest.raises(RequestRefused) as refused:
        place(host, "a.1", "print('never')")
    assert refused.value.code == "stale"
    assert host.observe("a.1")["phase"] == "lost"
    assert os.listdir(host.root / "runs") == []


def test_an_engine_that_ends_the_supervisor_stops_the_run(host: Host, engine: Engine) -> None:
    place(host, "a.1", SLEEPS, grace=5)
    started = engine.start("a.1")
    wait_for(lambda: host.read("a.1") == b"up\n")
    started.terminate()
    assert started.wait(30) == 0
    assert host.observe("a.1")["reason"] == "stopped"


def test_an_engine_that_kills_the_supervisor_leaves_no_script_behind(host: Host, engine: Engine) -> None:
    place(host, "a.1", SLEEPS)
    started = engine.start("a.1")
    wait_for(lambda: host.read("a.1") == b"up\n")
    script = host.file("a.1", "claim/process.json")["pid"]
    started.kill()
    wait_for(lambda: not is_alive(script))
    assert host.wait("a.1")["reason"] == "supervisor_lost"


def test_a_supervisor_that_a_script_kills_is_replaced(host: Host, engine: Engine) -> None:
    place(host, "a.1", WAITS)
    started = engine.start("a.1")
    wait_for(lambda: host.read("a.1") == b"up\n")
    os.kill(host.file("a.1", "claim/supervisor.json")["pid"], signal.SIGKILL)
    wait_for(lambda: "adopted" in host.event_names("a.1"))
    (host.folder("a.1") / "source/go").touch()
    assert started.wait(30) == 0
    assert host.observe("a.1")["exit_code"] == 9


# ---- secrets ----

READS_SECRETS = """
import json, os, time
content = os.pread(int(os.environ["WINDLASS_SECRETS_FD"]), 1 << 16, 0)
print(json.loads(content)["secrets"]["key"][::-1], flush=True)
print(any("c4n4ry" in value for value in os.environ.values()), flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
"""


def test_secrets_are_in_no_file_once_the_script_is_there(host: Host, engine: Engine) -> None:
    place(host, "a.1", READS_SECRETS, secrets=["key"], granted={"key": SECRET})
    written = host.folder("a.1") / "secrets.json"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert SECRET not in (host.folder("a.1") / "run.json").read_text()
    started = engine.start("a.1")
    wait_for(lambda: host.read("a.1").count(b"\n") == 2)
    assert host.read("a.1") == SECRET[::-1].encode() + b"\nFalse\n"
    assert SECRET.encode() not in contents(host.root)
    for pid in (started.pid, host.file("a.1", "claim/supervisor.json")["pid"]):
        for name in ("environ", "cmdline"):
            assert SECRET.encode() not in Path("/proc", str(pid), name).read_bytes()
    (host.folder("a.1") / "source/go").touch()
    assert host.wait("a.1")["exit_code"] == 0


def test_secrets_that_are_gone_are_a_failed_start(host: Host, engine: Engine) -> None:
    place(host, "a.1", "print('never')", secrets=["key"], granted={"key": SECRET})
    (host.folder("a.1") / "secrets.json").unlink()
    assert engine.run("a.1")[0] == 1
    ended = host.observe("a.1")
    assert (ended["reason"], "secrets" in ended["message"]) == ("start_failed", True)
    assert host.read("a.1") == b""


def test_secrets_are_not_placed_again_for_a_job_that_was_started(host: Host, engine: Engine) -> None:
    place(host, "a.1", "pass", secrets=["key"], granted={"key": SECRET})
    engine.run("a.1")
    place(host, "a.1", "pass", secrets=["key"], granted={"key": SECRET})
    assert SECRET.encode() not in contents(host.root)


def test_a_socket_that_cannot_be_made_is_a_failed_start(host: Host, engine: Engine) -> None:
    place(host, "a.1", "print('never')", relay="0123456789abcdef")
    started = engine.start("a.1", env={"TMPDIR": "/no/such/folder"})
    assert started.wait(30) == 1
    ended = host.observe("a.1")
    assert (ended["reason"], "/no/such/folder" in ended["message"]) == ("start_failed", True)


# ---- instances that ask before they execute ----


def waiting(host: Host, job: str) -> list[str]:
    found: list[str] = host.ask("waiting", jobs=[job])[0]["jobs"][0]
    return found


def test_nothing_is_executed_until_the_instance_is_allowed(host: Host, engine: Engine) -> None:
    place(host, "a.1", "print('allowed')", claim="server")
    first, second = engine.start("a.1", "--instance", "pod-1"), engine.start("a.1", "--instance", "pod-2")
    wait_for(lambda: waiting(host, "a.1") == ["pod-1", "pod-2"])
    assert host.observe("a.1")["phase"] == "queued"
    host.ask("allow", job="a.1", instance="pod-2")
    host.ask("allow", job="a.1", instance="pod-2")
    assert second.wait(30) == 0
    assert host.wait("a.1")["exit_code"] == 0
    host.ask("refuse", job="a.1", instance="pod-1", owner="pod-2")
    assert first.wait(30) == 0
    assert host.read("a.1") == b"allowed\n"
    assert waiting(host, "a.1") == []


def test_an_instance_that_is_refused_executes_nothing(host: Host, engine: Engine) -> None:
    place(host, "a.1", "print('never')", claim="server")
    started = engine.start("a.1", env={"WINDLASS_INSTANCE": "pod-1"})
    wait_for(lambda: waiting(host, "a.1") == ["pod-1"])
    host.ask("refuse", job="a.1", instance="pod-1", owner="pod-0")
    host.ask("refuse", job="a.1", instance="pod-1", owner="pod-0")
    assert started.wait(30) == 0
    assert started.stderr is not None
    assert started.stderr.read() == (b"windlass runner: a.1 is owned by the instance pod-0; pod-1 executes nothing.\n")
    assert not (host.folder("a.1") / "claim").exists()


def test_who_waits_is_told_of(host: Host, engine: Engine) -> None:
    """So that the server asks: an event without an observation."""
    place(host, "a.1", "pass", claim="server")
    before = len(host.events)
    engine.start("a.1", "--instance", "pod-1")
    wait_for(lambda: {"event": "job_changed", "job": "a.1", "nonce": host.nonce("a.1")} in host.events[before:])
    assert waiting(host, "a.1") == ["pod-1"]
    host.ask("stop", job="a.1", grace=0)
    assert host.wait("a.1")["reason"] == "stopped"
    assert [each.wait(30) for each in engine.started] == [0]


def test_an_instance_needs_a_name(host: Host, engine: Engine) -> None:
    place(host, "a.1", "pass", claim="server")
    code, said = engine.run("a.1")
    assert (code, "--instance NAME" in said) == (2, True)
    for name in ("", "../x", "a/b", "x" * 300, None):
        with pytest.raises(RequestRefused, match="Not the name of an instance"):
            host.ask("allow", job="a.1", instance=name)


# ---- the runner's own file ----


@pytest.mark.parametrize("python", interpreters())
def test_on_every_interpreter(hosts: Hosts, engine: Engine, python: str) -> None:
    host = hosts(python=python, options=ENGINE_OWNED)
    more = {"claim": "server", "relay": "0123456789abcdef", "secrets": ["key"], "granted": {"key": SECRET}}
    place(host, "a.1", "import os; print(os.path.exists(os.environ['WINDLASS_RELAY']))", **more)
    started = engine.start("a.1", "--instance", "one", python=python)
    wait_for(lambda: waiting(host, "a.1") == ["one"])
    host.ask("allow", job="a.1", instance="one")
    assert started.wait(60) == 0
    assert host.wait("a.1")["exit_code"] == 0
    assert host.read("a.1") == b"True\n"


def test_a_job_keeps_the_runner_that_it_was_placed_with(root: Path, hosts: Hosts) -> None:
    """A newer server replaces the machine's own, while the supervisor of a job may still read modules from the old."""
    root.mkdir(mode=0o700)
    program = make_zip(root / "runner.pyz")
    host = hosts(options=ENGINE_OWNED, program=program)
    command = place(host, "a.1", "print('fine')")["command"]
    assert command[0] == str(host.folder("a.1") / "runner.pyz")
    newer = root / "newer.pyz"
    newer.write_bytes(b"not for this job")
    newer.rename(program)
    assert subprocess.run([sys.executable, "-I", "-S", *command], check=False).returncode == 0
    assert host.read("a.1") == b"fine\n"


def test_run_json_names_no_boot(host: Host) -> None:
    place(host, "a.1", "pass")
    assert "boot_id" not in json.loads((host.folder("a.1") / "run.json").read_text())
