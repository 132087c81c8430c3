"""What a run was granted reaches its script, and no file that has a name."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ..conftest import Hosts
from ..pipe import Host, RequestRefused, is_alive, wait_for
from ..test_travels import interpreters

CANARY = "the-canary-sings"
GRANTED = {"key": CANARY, "other": 'é\n"x" ' * 1000}
READ = """
import json, os, sys
fd = int(os.environ["WINDLASS_SECRETS_FD"])
said = json.loads(os.pread(fd, 1 << 20, 0))
open("../../../executed", "a").write("x")
print(json.dumps(said))
"""
WAIT = (
    READ
    + """
import time
while not os.path.exists("../../../go"):
    time.sleep(0.01)
"""
)


def ask_for(host: Host, script: str = READ, *, is_held: bool = False, values: Any = GRANTED, **more: Any) -> Any:
    named: dict[str, Any] = {"secrets": sorted(values)} if values else {}
    named |= {"hold": True} if is_held else {"granted": values} if values else {}
    return host.start("a.1", ["{python}", "train.py"], {"train.py": script.encode()}, **{**named, **more})


def ends_well(host: Host) -> None:
    ended = host.wait("a.1")
    assert ended["exit_code"] == 0, host.read("a.1")
    assert json.loads(host.read("a.1")) == {"run": "a", "secrets": GRANTED}
    assert (host.root / "executed").read_text() == "x"


def supervisor(host: Host) -> int:
    return int(host.file("a.1", "claim/supervisor.json")["pid"])


def hold(host: Host, **more: Any) -> int:
    ask_for(host, is_held=True, **more)
    wait_for(lambda: "ready" in host.event_names("a.1"))
    return supervisor(host)


def files_with(root: Path, text: str) -> list[Path]:
    found = []
    for path in root.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # it was written aside, and has its name by now
            if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes():
                found.append(path)
    return found


def secret_files(pid: int) -> list[str]:
    """The open files of a process that hold secrets."""
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it opens and closes others all the time
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return [name for name in names if "windlass-secrets" in name]


def test_a_script_reads_what_its_run_was_granted(host: Host) -> None:
    ask_for(host)
    ends_well(host)
    assert host.file("a.1", "run.json")["secrets"] == ["key", "other"]
    assert "granted" not in host.file("a.1", "run.json")


def test_a_run_that_was_granted_nothing_inherits_nothing(host: Host) -> None:
    script = "import os; print('WINDLASS_SECRETS_FD' in os.environ, len(os.listdir('/proc/self/fd')))"
    ask_for(host, script, values={})
    assert host.wait("a.1")["exit_code"] == 0
    assert host.read("a.1") == b"False 4\n", "its three streams, and the folder that it lists"


@pytest.mark.parametrize("python", interpreters())
def test_on_every_python(hosts: Hosts, python: str) -> None:
    host = hosts(python=python)
    ask_for(host, environment={"interpreter": python})
    ends_well(host)


def test_no_file_has_it_while_the_script_runs(host: Host) -> None:
    ask_for(host, WAIT.replace("print(json.dumps(said))", "print('up', flush=True)"))
    wait_for(lambda: host.read("a.1"))
    script = int(host.file("a.1", "claim/process.json")["pid"])
    assert files_with(host.root, CANARY) == []
    for pid in (script, supervisor(host), host.pid):
        assert CANARY.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert CANARY.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert len(secret_files(script)) == 1 and secret_files(host.pid) == []
    (host.root / "go").touch()
    assert host.wait("a.1")["exit_code"] == 0
    host.clean("a.1")
    assert files_with(host.root, CANARY) == []


def test_who_is_held_ready_gets_it_with_the_start(host: Host) -> None:
    pid = hold(host)
    assert files_with(host.root, CANARY) == []
    ask_for(host, fence=2)
    ends_well(host)
    assert supervisor(host) == pid, "the one that was ready has done it"
    assert secret_files(host.pid) == []


def test_a_start_is_not_missed_while_it_is_made_ready(host: Host) -> None:
    ask_for(host, is_held=True)
    ask_for(host)
    ends_well(host)


def test_another_host_has_no_way_to_who_is_held_ready_and_begins_anew(hosts: Hosts) -> None:
    first, second = hosts(), hosts()
    pid = hold(first)
    ask_for(second)
    second.ask("watch", jobs=["a.1"])
    ends_well(second)
    assert supervisor(second) != pid and not is_alive(pid)
    wait_for(lambda: secret_files(first.pid) == [])


def test_what_is_granted_after_it_was_made_ready_is_granted_too(host: Host) -> None:
    pid = hold(host, values={})
    ask_for(host)
    ends_well(host)
    assert supervisor(host) != pid


def test_what_is_revoked_after_it_was_made_ready_is_not_granted(host: Host) -> None:
    script = "import os; print('WINDLASS_SECRETS_FD' in os.environ)"
    ask_for(host, script, is_held=True)
    wait_for(lambda: "ready" in host.event_names("a.1"))
    ask_for(host, script, values={})
    assert host.wait("a.1")["exit_code"] == 0 and host.read("a.1") == b"False\n"


@pytest.mark.parametrize("end", ["supervisor", "host"])
def test_from_the_folder_alone_nobody_begins(hosts: Hosts, end: str) -> None:
    """The supervisor is gone, and the values with it: a host that has them can start the job."""
    host = hosts()
    pid = hold(host)
    if end == "supervisor":
        os.kill(pid, signal.SIGKILL)
    else:
        host.kill()
        host = hosts()
    wait_for(lambda: not is_alive(pid))
    host.wait_free("a.1")
    wait_for(lambda: host.observe("a.1").get("startable"))
    assert not (host.root / "executed").exists()
    ask_for(host)
    ends_well(host)


def test_a_claim_whose_host_was_killed_is_not_begun_by_the_next(hosts: Hosts, tmp_path: Path) -> None:
    """Between the claim and the fork (F10): run.json is there, the values are not."""
    points = tmp_path / "points"
    points.mkdir()
    (points / "F10").touch()
    first = hosts(env={"WINDLASS_FAILPOINTS": str(points)})
    ask = first.run_json(
        "a.1", ["{python}", "train.py"], {"train.py": READ.encode()}, secrets=sorted(GRANTED), granted=GRANTED
    )
    first.send("start", run=ask)
    wait_for((points / "F10.reached").exists)
    first.kill()
    second = hosts()
    assert second.observe("a.1")["startable"] is True
    second.ask("watch", jobs=["a.1"])
    assert not (second.root / "executed").exists() and files_with(second.root, CANARY) == []
    ask_for(second)
    ends_well(second)


def test_one_that_is_stopped_before_it_began_ends_without_its_secrets(hosts: Hosts) -> None:
    first = hosts()
    hold(first)
    first.kill()
    second = hosts()
    second.wait_free("a.1")
    wait_for(lambda: second.observe("a.1").get("startable"))
    second.ask("stop", job="a.1", grace=1)
    assert second.wait("a.1")["reason"] == "stopped" and not (second.root / "executed").exists()


def test_the_script_that_outlives_its_supervisor_keeps_them(host: Host) -> None:
    ask_for(
        host,
        WAIT.replace("print(json.dumps(said))", "pass") + "\nprint(json.dumps(json.loads(os.pread(fd, 1 << 20, 0))))",
    )
    wait_for((host.root / "executed").exists)
    first = supervisor(host)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: host.observe("a.1")["phase"] == "running" and supervisor(host) != first)
    (host.root / "go").touch()
    ends_well(host)


def test_nobody_else_inherits_them(host: Host) -> None:
    pid = hold(host)
    host.python("b.1", "import time; time.sleep(60)")
    other = host.wait_running("b.1")
    assert secret_files(pid) and secret_files(host.pid)
    for stranger in (other["pid"], int(host.file("b.1", "claim/supervisor.json")["pid"])):
        assert secret_files(stranger) == []
    host.ask("stop", job="b.1", grace=0)
    host.wait("b.1")
    host.clean("a.1")
    wait_for(lambda: not is_alive(pid) and secret_files(host.pid) == [])


def test_a_script_cannot_change_them_for_others(host: Host) -> None:
    script = (
        READ
        + """
for act in (lambda: os.pwrite(fd, b"x", 0), lambda: os.truncate(fd, 0), lambda: os.pwrite(fd, b"x", 1 << 16)):
    try:
        act()
        sys.exit("it was changed")
    except PermissionError:
        pass
"""
    )
    ask_for(host, script)
    ends_well(host)


@pytest.mark.parametrize(
    "wrong",
    [
        {"secrets": ["key"]},
        {"secrets": ["key"], "granted": {"key": "x", "more": "y"}},
        {"secrets": [], "granted": {"key": "x"}},
        {"secrets": ["key"], "granted": {"key": 5}},
        {"secrets": "key", "granted": {"key": "x"}},
        {"secrets": [5], "granted": {}},
        {"secrets": ["key"], "granted": ["key"]},
        {"secrets": ["key"], "granted": {"key": "x"}, "hold": True},
    ],
)
def test_names_and_values_must_fit(host: Host, wrong: dict[str, Any]) -> None:
    run = host.run_json("a.1", ["{python}", "train.py"], {"train.py": READ.encode()}, **wrong)
    with pytest.raises(RequestRefused) as refused:
        host.ask("start", run=run)
    assert refused.value.code == "invalid" and "'x'" not in str(refused.value)
    assert not host.folder("a.1").exists()


def test_where_there_are_no_files_in_memory_one_without_a_name_serves(hosts: Hosts, tmp_path: Path) -> None:
    """As on macOS: Python has no memfd_create there."""
    program = tmp_path / "runner"
    program.mkdir()
    source = Path(__file__).resolve().parents[3] / "src" / "windlass" / "runner"
    for file in source.rglob("*.py"):
        (program / file.relative_to(source)).parent.mkdir(exist_ok=True)
        (program / file.relative_to(source)).write_text(
            file.read_text().replace("os.memfd_create(", "os.no_memfd_create(")
        )
    host = hosts(program=program)
    ask_for(host)
    ends_well(host)
    assert files_with(host.root, CANARY) == [host.folder("a.1") / "user_logs" / "std_log.txt"]
