"""What a script finds in its container, and what it does not: rights, files, limits."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines.box import Box
from tests.engines.dockerd import Dockerd
from tests.engines.images import BUSYBOX, PYTHON
from tests.runner.conftest import Hosts
from tests.runner.pipe import make_zip, wait_for, zip_of

PROBE = r"""
import json, os, socket

status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
root = os.path.dirname(os.path.dirname(os.environ["WINDLASS_RUN_FOLDER"]))


def can(act):
    try:
        act()
    except OSError as e:
        return e.strerror
    return True


def sees(name):
    return [os.path.join(top, name) for top, folders, files in os.walk(root) if name in files or name in folders]


def mount():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/mnt", b"tmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "mount refused")


print(json.dumps({
    "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"], "seccomp": status["Seccomp"],
    "user": [os.getuid(), os.getgid(), os.geteuid()],
    "secrets_of_the_run": [sees(name) for name in ("run.json", "claim", "status.json", "events.jsonl", "fence")],
    "other_runs": os.listdir(os.path.join(root, "runs")),
    "machine": sorted(os.listdir(root)),
    "sockets": [path for path in ("/var/run/docker.sock", "/run/docker.sock") if os.path.exists(path)],
    "mount": can(mount), "chown": can(lambda: os.chown("/tmp", 12345, 12345)),
    "raw_socket": can(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()),
    "device": can(lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(8, 0))),
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[0],
    "sees_the_machine": os.path.exists("/proc/1/root/usr/sbin/dockerd"),
    "home": os.environ["HOME"], "here": os.getcwd(), "sysrq": can(lambda: open("/proc/sysrq-trigger", "w").close()),
}))
"""


def test_a_script_has_no_rights_and_sees_its_own_files_only(box: Box) -> None:
    box.python("other.1", "pass")
    box.wait("other.1")
    box.python("probe.1", PROBE)
    seen = box.said("probe.1")
    assert set(seen["capabilities"]) == {"0" * 16}
    assert (seen["no_new_privileges"], seen["seccomp"]) == ("1", "2")
    assert seen["user"] == [os.getuid(), os.getgid(), os.getuid()]
    assert seen["secrets_of_the_run"] == [[], [], [], [], []]
    assert seen["other_runs"] == ["probe.1"]
    assert seen["machine"] == ["runs"]
    assert seen["sockets"] == []
    for what in ("mount", "chown", "raw_socket", "device", "sysrq"):
        assert isinstance(seen[what], str), f"{what} was possible"
    assert not seen["sees_the_machine"]
    assert seen["home"] == "/tmp"
    assert seen["here"] == f"{box.host.folder('probe.1')}/source"


WRITES = """
import os
os.makedirs("outputs/deep", exist_ok=True)
for name in ("outputs/deep/model.txt", "logs/mine.txt", "beside.txt"):
    open(name, "w").write("x")
print("written")
"""


def test_files_belong_to_the_account(hosts: Hosts, root: Path, tmp_path: Path, dockerd: Dockerd) -> None:
    """An account that is not root, and may use the engine."""
    uid = gid = 12345
    dockerd.let_in_everybody()
    for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent, tmp_path.parent.parent.parent):
        path.chmod(path.stat().st_mode | 0o011)
    root.mkdir()
    os.chown(root, uid, gid)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec setpriv --reuid {uid} --regid {gid} --clear-groups /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    box = Box(hosts(python=str(python), program=make_zip(tmp_path / "runner.pyz")), dockerd)
    box.python("mine.1", WRITES)
    assert box.result("mine.1") == ("exited", 0, None), box.host.read("mine.1")
    folder = box.host.folder("mine.1")
    made = ["source/outputs/deep/model.txt", "source/logs/mine.txt", "source/beside.txt", "user_logs/std_log.txt"]
    assert {(folder / name).stat().st_uid for name in made} == {uid}
    assert {(folder / name).stat().st_gid for name in made} == {gid}
    listed = [path for path, _, _ in box.wait("mine.1")["files"]]
    assert "source/outputs/deep/model.txt" in listed
    box.host.clean("mine.1")
    assert not folder.exists()


SHM = "import os; s = os.statvfs('/dev/shm'); print(s.f_blocks * s.f_frsize)"
MEMORY = "print(open('/sys/fs/cgroup/memory/memory.limit_in_bytes').read())"
CPU = "print(open('/sys/fs/cgroup/cpu/cpu.cfs_quota_us').read())"
FILES = "import resource as r; print(*r.getrlimit(r.RLIMIT_NOFILE))"
WRITE = "open('/tmp/x', 'w'); print('there', flush=True); open('/etc/x', 'w')"


@pytest.mark.parametrize(
    ("host", "script", "word"),
    [
        ({"ShmSize": 8 << 20}, SHM, str(8 << 20)),
        ({"Memory": 64 << 20}, MEMORY, str(64 << 20)),
        ({"NanoCpus": 500_000_000}, CPU, "50000"),
        ({"Ulimits": [{"Name": "nofile", "Soft": 77, "Hard": 99}]}, FILES, "77 99"),
        ({"ReadonlyRootfs": True}, WRITE, "there\n"),
        ({"ReadonlyRootfs": True}, WRITE, "Read-only file system"),
        ({"NetworkMode": "none"}, "import os; print(os.listdir('/sys/class/net'))", "['lo']"),
    ],
    ids=["shm", "memory", "cpu", "ulimit", "tmp", "read-only", "network"],
)
def test_limits_hold(box: Box, host: dict[str, Any], script: str, word: str) -> None:
    box.python("limited.1", script, {"host": host})
    box.wait("limited.1")
    assert word in box.host.read("limited.1").decode()


def test_a_fork_bomb_meets_its_limit(box: Box) -> None:
    bomb = "n=0; while [ $n -lt 200 ]; do sleep 60 & n=$((n+1)); done; echo unreachable"
    box.sh("bomb.1", bomb, {"host": {"PidsLimit": 20}})
    assert box.result("bomb.1")[1] != 0
    assert b"unreachable" not in box.host.read("bomb.1")
    assert b"fork" in box.host.read("bomb.1")


def test_who_takes_too_much_memory_is_told_so(box: Box) -> None:
    limit = {"Memory": 48 << 20, "MemorySwap": 48 << 20}
    box.python("greedy.1", "print('up', flush=True); x = bytearray(1 << 30)", {"host": limit})
    assert box.result("greedy.1") == ("out_of_memory", None, 9)
    assert box.wait("greedy.1")["message"] == ""  # the reason says it


def test_variables_are_those_of_image_and_run(box: Box, hosts: Hosts, root: Path) -> None:
    """Nothing of the machine's own, whose paths mean nothing in there."""
    other = Box(hosts(env={"FROM_THE_MACHINE": "1", "LD_LIBRARY_PATH": "/nowhere"}), box.engine)
    environment = {"interpreter": "python3", "variables": {"A": "environment", "B": "environment"}}
    other.python(
        "env.1", "import json, os; print(json.dumps(dict(os.environ)))", {"env": {"A": "option", "D": "option"}},
        environment=environment, env={"B": "run", "WINDLASS_RUN_ID": "env", "PYTHONPATH": "/mine"},
    )  # fmt: skip
    seen = other.said("env.1")
    assert (seen["A"], seen["B"], seen["D"], seen["WINDLASS_RUN_ID"]) == ("environment", "run", "option", "env")
    assert seen["PYTHONPATH"].endswith("/mine") and seen["PYTHONUNBUFFERED"] == "1"
    assert seen["WINDLASS_RUN_FOLDER"] == str(other.host.folder("env.1"))
    assert seen["USER"] and seen["PATH"].startswith("/usr/local/sbin")
    assert not {"FROM_THE_MACHINE", "LD_LIBRARY_PATH", "WINDLASS_HOME"} & set(seen)


@pytest.mark.parametrize(("own", "rest"), [({}, ":/app"), ({"PYTHONPATH": "/mine"}, ":/mine")], ids=["image", "run"])
def test_the_images_own_path_of_modules_is_kept(box: Box, own: dict[str, str], rest: str) -> None:
    """The SDK comes before it."""
    text = f"FROM {BUSYBOX}\nENV PYTHONPATH=/app\n"
    box.engine.docker("build", "--tag", "windlass-test/path:1", "-", stdin=text.encode())
    data = zip_of({"sdk.py": b""})
    digest = hashlib.sha256(data).hexdigest()
    box.host.ask("sdk", data, digest=digest)
    box.sh("path.1", "echo $PYTHONPATH", {"image": "windlass-test/path:1"}, env=own, sdk=digest)
    assert box.result("path.1") == ("exited", 0, None)
    assert box.host.read("path.1").decode() == f"{box.host.root}/sdk/{digest}{rest}\n"


def test_secrets_are_in_a_file_in_memory_until_the_end(box: Box) -> None:
    script = """
import json, os, time
path = os.environ["WINDLASS_SECRETS_FILE"]
try:
    open(path, "w")
    print("writable")
except OSError:
    print(json.dumps([path, json.load(open(path)), oct(os.stat(path).st_mode & 0o777)]), flush=True)
time.sleep(600)
"""
    canary = "c4n4ry-in-a-container"
    box.python("keeper.1", script, secrets=["db"], granted={"db": canary})
    box.wait_for_line("keeper.1", b"\n")
    box.host.wait_running("keeper.1")  # from now on no file there is written aside, and gone when it is read
    path, content, mode = json.loads(box.host.read("keeper.1"))
    assert (content["secrets"], mode) == ({"db": canary}, "0o600")
    assert path.startswith("/dev/shm/") and Path(path).exists()
    folder = box.host.folder("keeper.1")
    kept = [each for each in folder.rglob("*") if each.is_file() and each.name != "std_log.txt"]
    assert not [each for each in kept if canary.encode() in each.read_bytes()]
    assert canary not in box.engine.docker("inspect", box.name("keeper.1")).stdout
    box.host.ask("stop", job="keeper.1", grace=0)
    box.wait("keeper.1")
    box.wait_until_gone("keeper.1")
    assert not Path(path).exists()


def test_a_run_that_is_held_ready_gets_its_secrets_when_it_starts(box: Box) -> None:
    def ask(**more: Any) -> None:
        script = "import os; print(open(os.environ['WINDLASS_SECRETS_FILE']).read())"
        box.python("held.1", script, secrets=["db"], nonce=box.nonce, **more)

    ask(hold=True)
    name = box.name("held.1")
    assert box.inspect(name)["State"]["Status"] == "created"
    ask(granted={"db": "value-of-it"})
    assert box.said("held.1")["secrets"] == {"db": "value-of-it"}
    box.wait_until_gone("held.1")


def test_no_place_for_secrets_is_left_of_a_run_that_never_began(box: Box) -> None:
    box.python("held.1", "pass", secrets=["db"], nonce=box.nonce, hold=True)
    place = Path(f"/dev/shm/windlass-{os.getuid()}", box.name("held.1"))
    assert place.exists()
    box.host.clean("held.1")
    assert not place.exists()


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (["no-such-program"], "no command no-such-program"),
        (["/no/such/program"], "no program /no/such/program"),
        (["{python}", "missing.py"], "no missing.py"),
        (["{python}", "-c", "pass"], "no Python"),
    ],
)
def test_what_cannot_be_executed_is_told(box: Box, command: list[str], word: str) -> None:
    box.host.start("odd.1", command, container=box.container(BUSYBOX), environment={"interpreter": "python3"})
    ended = box.wait("odd.1")
    assert ended["reason"] == "start_failed"
    assert word in ended["message"]
    box.wait_until_gone("odd.1")


@pytest.mark.parametrize(
    "left",
    ["os.symlink('{private}', 'failed')", "os.mkfifo('failed')", "os.symlink('/dev/zero', 'failed')",
     "os.mkdir('failed')", "os.symlink('failed', 'failed')"],
    ids=["a link", "a pipe", "a device", "a folder", "a ring"],
)  # fmt: skip
def test_what_a_script_leaves_at_its_door_is_not_followed(box: Box, tmp_path: Path, left: str) -> None:
    """There the way into the container says why it cannot execute the script, and the supervisor reads it."""
    (tmp_path / "private").write_text("c4n4ry of this account")
    door = "os.chdir(os.environ['WINDLASS_RUN_FOLDER'] + '/door')"
    box.python("sly.1", f"import os; {door}; {left.format(private=tmp_path / 'private')}; os._exit(5)")
    assert box.result("sly.1") == ("exited", 5, None)
    assert "c4n4ry" not in str(box.wait("sly.1"))
    box.wait_until_gone("sly.1")


def test_the_words_at_the_door_are_few(box: Box) -> None:
    script = "import os; open(os.environ['WINDLASS_RUN_FOLDER'] + '/door/failed', 'w').write('x' * 10_000_000)"
    box.python("wordy.1", script)
    assert len(box.wait("wordy.1")["message"]) <= 1000


def test_an_image_without_a_shell_is_refused_with_a_sentence(box: Box) -> None:
    box.engine.docker("build", "--tag", "windlass-test/bare:1", "-", stdin=b"FROM scratch\nENV A=b\n")
    box.host.start("bare.1", ["x"], container=box.container("windlass-test/bare:1"), environment={"interpreter": "x"})
    ended = box.wait("bare.1")
    assert (ended["reason"], "no /bin/sh" in ended["message"]) == ("start_failed", True), ended["message"]
    box.wait_until_gone("bare.1")


def test_an_image_that_names_an_entry_and_a_user_of_its_own_is_used_all_the_same(box: Box) -> None:
    text = f'FROM {PYTHON}\nENTRYPOINT ["/bin/false"]\nCMD ["nothing"]\nUSER nobody\nWORKDIR /srv\n'
    box.engine.docker("build", "--tag", "windlass-test/entry:1", "-", stdin=text.encode())
    box.python("entry.1", "import json, os; print(json.dumps(os.getuid()))", {"image": "windlass-test/entry:1"})
    assert box.said("entry.1") == os.getuid()


def test_volumes_of_an_image_go_with_its_container(box: Box) -> None:
    text = f"FROM {BUSYBOX}\nVOLUME /data\n"
    box.engine.docker("build", "--tag", "windlass-test/volume:1", "-", stdin=text.encode())
    box.sh("kept.1", "echo up; sleep 600", {"image": "windlass-test/volume:1"})
    box.wait_for_line("kept.1")
    mounts = box.inspect(box.name("kept.1"))["Mounts"]
    [volume] = [mount["Name"] for mount in mounts if mount["Type"] == "volume"]
    box.engine.docker("volume", "inspect", volume)
    box.host.ask("stop", job="kept.1", grace=0)
    box.wait("kept.1")
    box.wait_until_gone("kept.1")
    # A container is not listed any more when its volumes begin to go.
    wait_for(lambda: box.engine.docker("volume", "inspect", volume, check=False).returncode != 0)


def test_metrics_and_uploads_come_out_of_a_container(box: Box) -> None:
    script = """
import os
folder = os.environ["WINDLASS_RUN_FOLDER"]
open(f"{folder}/metrics/a.jsonl", "w").write('{"n": "loss", "v": 1}\\n')
open(f"{folder}/calls/a.jsonl", "w").write('{"do": "tag"}\\n')
open(f"{folder}/uploads/ab", "w").write("x")
"""
    box.python("writer.1", script)
    assert box.result("writer.1") == ("exited", 0, None), box.host.read("writer.1")
    listed = {path for path, _, _ in box.wait("writer.1")["files"]}
    assert {"metrics/a.jsonl", "calls/a.jsonl", "uploads/ab"} <= listed


def test_an_old_python_makes_containers_too(hosts: Hosts, dockerd: Dockerd) -> None:
    """The oldest one that we support, where it is there."""
    python = next(Path.home().glob(".pyenv/versions/3.8.*/bin/python3"), sys.executable)
    box = Box(hosts(python=str(python)), dockerd)
    text = f"FROM {BUSYBOX}\nENV UNIQUE={os.urandom(8).hex()}\n"
    box.sh("old.1", "echo $UNIQUE", {"image": None, "dockerfile": text})
    assert box.result("old.1") == ("exited", 0, None), box.build_log("old.1")
    assert box.host.read("old.1").decode().strip() in text
