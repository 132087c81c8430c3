"""Group C, second half: scripts that end in every way there is, or do what no script should. What is told is true."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.faults.world import is_alive, wait_for
from tests.inputs.outside import WS, Outside


def outcome(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["state"], run["exit_code"], run["signal"]


CODES = [0, 1, 2, 3, 64, 124, 125, 126, 127, 128, 130, 137, 143, 254, 255]


def test_c22_exit_codes_stay_what_they_are(sqlite: Outside) -> None:
    ids = {code: sqlite.submit("import os, sys; os._exit(int(sys.argv[1]))", str(code)) for code in [*CODES, 256]}
    for code, run_id in ids.items():
        code %= 256  # all that the kernel tells
        assert outcome(sqlite.world.wait_final(run_id)) == ("Completed" if code == 0 else "Failed", code, None)


ENDINGS = {
    "raise SystemExit": 0,
    "raise SystemExit(-1)": 255,
    "raise SystemExit('why')": 1,
    "raise KeyError('x')": 1,
    "def f(:": 1,
    "import no_such_module": 1,
    "import sys; sys.exit(None)": 0,
    "import sys; sys.exit([])": 1,
    "import atexit, os; atexit.register(os._exit, 9)": 9,
}


def test_c22_python_ends_in_its_own_ways(sqlite: Outside) -> None:
    ids = {text: sqlite.submit(text) for text in ENDINGS}
    for text, run_id in ids.items():
        assert sqlite.world.wait_final(run_id)["exit_code"] == ENDINGS[text], text


# By default these do nothing; the last three not in a session without a terminal, which every run has of its own.
HARMLESS = (
    signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU
)  # fmt: skip
BY_SIGNAL = """
import os, signal, sys
number = int(sys.argv[1])
if number not in (signal.SIGKILL, signal.SIGSTOP):
    signal.signal(number, signal.SIG_DFL)
os.kill(os.getpid(), number)
"""


def test_c22_signals_are_told_from_exit_codes(sqlite: Outside) -> None:
    ids = {number: sqlite.submit(BY_SIGNAL, str(number)) for number in range(1, 32) if number != signal.SIGSTOP}
    for number, run_id in ids.items():
        expected = ("Completed", 0, None) if number in HARMLESS else ("Failed", None, number)
        run = sqlite.world.wait_final(run_id)
        assert outcome(run) == expected, signal.Signals(number)
        assert number in HARMLESS or run["reason"] == "signaled"


def test_c22_a_stopped_script_is_neither_gone_nor_for_ever(sqlite: Outside) -> None:
    """It runs as long as it may, and one that is canceled ends although it cannot hear."""
    limited = sqlite.submit(BY_SIGNAL, str(int(signal.SIGSTOP)), max_run_duration_seconds=2)
    canceled = sqlite.submit(BY_SIGNAL, str(int(signal.SIGSTOP)))
    process = sqlite.world.pid_of(canceled, "process")
    wait_for("it to stop", lambda: Path(f"/proc/{process}/stat").read_text().split()[2] in "Tt")
    assert sqlite.call("GET", f"{WS}/runs/{canceled}").kept()["state"] in ("Starting", "Preparing", "Running")
    sqlite.call("POST", f"{WS}/runs/{canceled}/cancel").kept()
    assert sqlite.world.wait_final(canceled)["state"] == "Canceled"
    assert not is_alive(process)
    run = sqlite.world.wait_final(limited)
    assert (run["state"], run["reason"]) == ("Failed", "time_limit")


def test_c22_a_core_dump(sqlite: Outside) -> None:
    text = "import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)); os.abort()"
    assert outcome(sqlite.run(text)) == ("Failed", None, signal.SIGABRT)
    assert outcome(sqlite.run("import ctypes; ctypes.string_at(0)")) == ("Failed", None, signal.SIGSEGV)


def test_c22_no_memory(sqlite: Outside) -> None:
    text = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28)); x = bytearray(1 << 30)"
    run = sqlite.run(text)
    assert outcome(run) == ("Failed", 1, None)
    assert b"MemoryError" in sqlite.file(run["id"])


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for name in [name for name in os.environ if "WINDLASS" in name]:
            del os.environ[name]
        with open(sys.argv[1], "w") as file:
            file.write(str(os.getpid()))
        os.closerange(0, 100)
        time.sleep(600)
    os._exit(0)
while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]):
    time.sleep(0.01)
sys.exit(5)
"""


def test_c23_a_daemon_does_not_outlive_the_run(sqlite: Outside, tmp_path: Path) -> None:
    run = sqlite.run(DAEMON, str(tmp_path / "pid"))
    assert outcome(run) == ("Failed", 5, None)
    assert not is_alive(int((tmp_path / "pid").read_text()))


DEAF = """
import os, signal, sys, time
for number in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        break
with open(os.path.join(sys.argv[1], str(os.getpid())), "w"):
    time.sleep(600)
"""


def test_c23_one_that_ignores_every_signal_ends_with_its_children(sqlite: Outside, tmp_path: Path) -> None:
    run_id = sqlite.submit(DEAF, str(tmp_path))
    wait_for("all of them", lambda: len(os.listdir(tmp_path)) == 4)
    sqlite.call("POST", f"{WS}/runs/{run_id}/cancel").kept()
    assert sqlite.world.wait_final(run_id)["state"] == "Canceled"
    assert not [pid for pid in os.listdir(tmp_path) if is_alive(int(pid))]


FORGED = json.dumps({"version": 1, "reason": "exited", "exit_code": 0, "signal": None, "files": [], "message": "fine"})
FORGER = f"""
import os, sys
folder = os.environ["WINDLASS_RUN_FOLDER"]
for name in ("status.json", "stop.json", "claim/supervisor.json", "run.json", "usage.jsonl"):
    try:
        with open(os.path.join(folder, name), "w") as file:
            file.write({FORGED!r})
    except OSError:
        pass
with open(os.path.join(folder, "events.jsonl"), "a") as file:
    file.write('{{"at": 0, "event": "exited"}}\\n{{broken\\n\\0\\0')
sys.exit(7)
"""
# Each with the exit code that it truly has.
DEEDS: dict[str, tuple[str, int]] = {
    "closes its output": ("import os; os.closerange(0, 100); os._exit(3)", 3),
    "deletes its own folder": ("import os, shutil, sys; shutil.rmtree(os.getcwd()); os._exit(3)", 3),
    "deletes the run's folder": (
        "import os, shutil; shutil.rmtree(os.environ['WINDLASS_RUN_FOLDER'], ignore_errors=True); os._exit(3)", 3
    ),
    "forges its end": (FORGER, 7),
    "makes a folder where its end is written": (
        "import os; os.mkdir(os.environ['WINDLASS_RUN_FOLDER'] + '/status.json'); os._exit(3)", 3
    ),
    "renames its log": (
        "import os; f = os.environ['WINDLASS_RUN_FOLDER']; os.rename(f + '/user_logs', f + '/x'); os._exit(3)", 3
    ),
    "turns its log into a link": (
        "import os; p = os.environ['WINDLASS_RUN_FOLDER'] + '/user_logs/std_log.txt'; os.remove(p);"
        " os.symlink('/etc/passwd', p); os._exit(3)", 3
    ),
    "turns its metrics into a device": (
        "import os; p = os.environ['WINDLASS_RUN_FOLDER'] + '/metrics'; os.makedirs(p, exist_ok=True);"
        " os.symlink('/dev/zero', p + '/a.jsonl'); os.mkfifo(p + '/b.jsonl'); os._exit(3)", 3
    ),
    "takes away its own right": ("import os; os.chmod(os.environ['WINDLASS_RUN_FOLDER'], 0); os._exit(3)", 3),
    "leaves threads": (
        "import threading, time, os; threading.Thread(target=time.sleep, args=(600,)).start(); os._exit(3)", 3
    ),
}  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS)
def test_c23_whatever_a_script_does_to_its_folder_its_end_is_true(sqlite: Outside, deed: str) -> None:
    """Where the proof is gone, that is said; it is never a success, and never somebody else's number."""
    text, code = DEEDS[deed]
    run = sqlite.run(text)
    assert run["state"] == "Failed", run
    assert run["exit_code"] in (code, None)
    assert run["exit_code"] is not None or run["reason"] in ("exit_unknown", "node_lost", "supervisor_lost"), run
    for name in ("user_logs/std_log.txt", "outputs/x"):
        assert b"root:" not in sqlite.file(run["id"], name)


KILLER = """
import os, signal, sys, time
def above(pid):
    with open("/proc/%d/stat" % pid) as file:
        return int(file.read().rpartition(")")[2].split()[1])
victims = [os.getppid()]
if sys.argv[1] == "both":
    victims.append(above(os.getppid()))
for pid in reversed(victims):
    os.kill(pid, signal.SIGKILL)
time.sleep(0.2)
print("done", flush=True)
os._exit(int(sys.argv[2]))
"""


@pytest.mark.parametrize("who", ["parent", "both"])
@pytest.mark.parametrize("code", [0, 7])
def test_c23_one_that_kills_its_parent(sqlite: Outside, who: str, code: int) -> None:
    run = sqlite.run(KILLER, who, str(code))
    if run["exit_code"] is None:
        assert (run["state"], run["reason"]) == ("Failed", "exit_unknown")
    else:
        assert outcome(run) == ("Completed" if code == 0 else "Failed", code, None)
    assert sqlite.file(run["id"]) == b"done\n"


def test_c23_output_that_looks_like_our_own_frames(sqlite: Outside) -> None:
    frames = (
        b"windlass-pipe 1\n\x00\x00\x00\x10\x00\x00\x00\x00" + b'{"event":"gone"}' + b"event: end\ndata: {}\n\n" * 3
    )
    text = f"import os, sys\nfor _ in range(100): os.write(1, {frames!r})\nsys.exit(4)"
    run = sqlite.run(text)
    assert outcome(run) == ("Failed", 4, None)
    assert sqlite.file(run["id"]) == frames * 100
    seen = b"".join(data for event, _, data in sqlite.world.follow(run["id"]) if event == "log")
    assert seen == frames * 100


def test_c23_one_that_fills_its_disk(sqlite: Outside) -> None:
    """As far as the system lets it: a write beyond the limit fails in the script, and only there."""
    text = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        " resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
        " open('outputs/big', 'wb').write(bytes(1 << 22))"
    )
    run = sqlite.run(text)
    assert outcome(run) == ("Failed", 1, None)
    assert len(sqlite.file(run["id"], "outputs/big")) == 1 << 20


OUTPUTS = """
import os, socket
os.chdir("outputs")
open("plain", "w").write("plain")
os.symlink("/etc/passwd", "link")
os.symlink("plain", "inner")
os.symlink("/etc", "folder")
os.symlink("loop", "loop")
os.link("plain", "twin")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
open("setuid", "w").write("x"); os.chmod("setuid", 0o4755)
open("secret", "w").write("s"); os.chmod("secret", 0)
os.makedirs("deep/" * 100); open("deep/" * 100 + "end", "w").write("deep")
for name in (b"new\\nline", b"\\xff\\xfe", b"tab\\t", b"back\\\\slash", b" space ", b"-rf", b"~", b"$(id)", b"a" * 255):
    open(name, "w").write("odd")
"""


def test_d16_d17_outputs_of_every_kind(sqlite: Outside) -> None:
    """Regular files are kept; nothing is followed, opened that would block, or named so that it hurts elsewhere."""
    run = sqlite.run(OUTPUTS)
    assert outcome(run) == ("Completed", 0, None)
    found = {f["path"]: f["size"] for f in sqlite.call("GET", f"{WS}/runs/{run['id']}/files").kept()["files"]}
    kept = {path.removeprefix("outputs/") for path in found if path.startswith("outputs/")}
    assert {"plain", "twin", "setuid", "deep/" * 100 + "end", "-rf", "$(id)", "a" * 255} <= kept
    assert not kept & {"link", "folder", "loop", "pipe", "socket"}
    assert not [path for path in kept if "\n" in path or "\t" in path or "\\" in path]
    for path in found:
        assert b"root:" not in sqlite.file(run["id"], path)


def test_a_script_that_is_no_python(sqlite: Outside) -> None:
    ids = [
        sqlite.call("POST", f"{WS}/runs", sqlite.submission(files={"main.py": data})).kept()["id"]
        for data in (b"\x7fELF\0\0\0", b"", b"\xff\xfe\0", b"#!/bin/sh\nexit 0\n", bytes(range(256)))
    ]
    states = [sqlite.world.wait_final(run_id)["state"] for run_id in ids]
    assert states == ["Failed", "Completed", "Failed", "Failed", "Failed"]


DEEP = """
import os, sys
os.makedirs("logs", exist_ok=True)
for folder in ("logs", "outputs"):
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        here = os.open("d", os.O_RDONLY, dir_fd=here)
        if _ % 500 == 100:
            os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=here))
sys.exit(3)
"""


def test_d13_folders_deeper_than_anybody_can_go(sqlite: Outside) -> None:
    """What lies too deep is not kept; that is no reason for a run not to end, or for its folder to stay."""
    run_id = sqlite.submit("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))\n" + DEEP)
    trash = sqlite.home / "machine" / "trash"
    try:
        assert outcome(sqlite.world.wait_final(run_id)) == ("Failed", 3, None)
        found = sqlite.call("GET", f"{WS}/runs/{run_id}/files").kept()["files"]
        assert {file["path"].count("/") for file in found if file["path"].endswith("end")} == {102}
        wait_for("its folder to go", lambda: not sqlite.world.folder(run_id).exists())
        wait_for("it to be gone for good", lambda: not list(trash.glob(f"{run_id}.*")))
    finally:  # what cleans up after tests gives up at this depth
        left = [sqlite.world.folder(run_id), *trash.glob(f"{run_id}.*")]
        subprocess.run(["rm", "-rf", *left], check=True, timeout=60)
