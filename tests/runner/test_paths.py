"""What comes over the pipe names files; none of those names leads out of where it belongs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.runner.workdir import run_files
from windlass.runner.workdir.run_folder import RunFolder

from .conftest import Hosts
from .pipe import Host, RequestRefused, wait_for, zip_of


@pytest.fixture
def ended(host: Host) -> Host:
    host.python("a.1", "import os; os.symlink('/etc/passwd', 'outputs/link'); os.symlink('/etc', 'outputs/etc')")
    host.wait("a.1")
    return host


@pytest.mark.parametrize(
    "path",
    [
        "../a.1/user_logs/std_log.txt",
        "user_logs/../run.json",
        "source/../../../../../etc/passwd",
        "/etc/passwd",
        "user_logs//std_log.txt",
        "user_logs/./std_log.txt",
        "",
        ".",
        "user_logs\0",
        "x" * 5000,
        "run.json",
        "claim/process.json",
        "source/outputs/link",
        "source/outputs/etc/passwd",
        "source/outputs",
    ],
)
def test_reading_stays_in_the_record_and_follows_no_link(ended: Host, path: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        ended.read("a.1", path=path)
    assert refused.value.code == "denied"


def test_a_fifo_does_not_hold_the_host(host: Host) -> None:
    host.python("a.1", "import os; os.mkfifo('outputs/fifo')")
    host.wait("a.1")
    with pytest.raises(RequestRefused, match="not a regular file"):
        host.read("a.1", path="source/outputs/fifo")
    assert host.ask("check")[0]["ok"] is True


@pytest.mark.parametrize("job", ["../../etc", "a/b", "..", ".", "", "-x", "a..b", "x" * 300, "a\0", None, 7, ["a"]])
def test_a_job_is_named_by_a_job_id(host: Host, job: object) -> None:
    for do in ("read", "files", "stop", "clean"):
        with pytest.raises(RequestRefused) as refused:
            host.ask(do, job=job, path="status.json", offset=0, limit=1, grace=0, fence=0)
        assert refused.value.code == "invalid"
    for do in ("observe", "watch"):
        with pytest.raises(RequestRefused):
            host.ask(do, jobs=[job])


@pytest.mark.parametrize("path", ["../x", "/tmp/x", "a/../b", "a//b", "", "a/", "."])
def test_a_snapshot_stays_in_its_folder(host: Host, path: str) -> None:
    digest = host.put(b"data")
    run = host.run_json("a.1", ["true"])
    run["files"] = [["fine.py", digest, 4, False], [path, digest, 4, False]]
    host.ask("start", run=run)
    ended = host.wait("a.1")
    assert ended["reason"] == "start_failed"
    assert "The snapshot has a file named" in ended["message"]


def test_a_snapshot_that_contradicts_itself_cannot_be_placed(host: Host) -> None:
    digest = host.put(b"data")
    for job, paths in {"a.1": ["a", "a/b"], "b.1": ["a/b", "a"], "c.1": ["a", "a"]}.items():
        run = host.run_json(job, ["true"])
        run["files"] = [[path, digest, 4, False] for path in paths]
        host.ask("start", run=run)
        assert host.wait(job)["reason"] == "start_failed"


def test_put_takes_pieces_and_checks_the_whole(host: Host) -> None:
    data = os.urandom(100_000)
    digest = hashlib.sha256(data).hexdigest()
    assert host.ask("have", digests=[digest])[0]["missing"] == [digest]
    host.ask("put", data[:60_000], digest=digest, offset=0, last=False)
    assert host.ask("have", digests=[digest])[0]["missing"] == [digest]
    host.ask("put", data[60_000:], digest=digest, offset=60_000, last=True)
    assert host.ask("have", digests=[digest])[0]["missing"] == []
    stored = host.root / "files" / digest
    assert stored.read_bytes() == data
    assert stored.stat().st_mode & 0o777 == 0o400
    host.ask("put", data, digest=digest, offset=0, last=True)  # again: nothing happens


def test_two_senders_of_one_file_do_no_harm(host: Host) -> None:
    data = os.urandom(3000)
    digest = hashlib.sha256(data).hexdigest()
    for offset in (0, 0, 1000, 1000, 2000):
        host.ask("put", data[offset : offset + 1000], digest=digest, offset=offset, last=offset == 2000)
    host.ask("put", data[2000:], digest=digest, offset=2000, last=True)
    assert (host.root / "files" / digest).read_bytes() == data


@pytest.mark.parametrize(
    ("digest", "offset"), [("0" * 64, 0), ("../../x", 0), ("A" * 64, 0), ("0" * 64, 7), ("0" * 64, -1), (None, 0)]
)
def test_put_of_something_else_leaves_nothing(host: Host, digest: str, offset: int) -> None:
    with pytest.raises(RequestRefused) as refused:
        host.ask("put", b"data", digest=digest, offset=offset, last=True)
    assert refused.value.code == "invalid"
    assert not list((host.root / "files").iterdir())


@pytest.mark.parametrize("name", ["../evil.py", "/tmp/evil.py", "a/../../evil.py"])
def test_an_sdk_archive_stays_in_its_folder(host: Host, name: str) -> None:
    data = zip_of({name: b"evil"})
    with pytest.raises(RequestRefused) as refused:
        host.ask("sdk", data, digest=hashlib.sha256(data).hexdigest())
    assert refused.value.code == "invalid"
    assert not [p for p in host.root.parent.rglob("evil.py")]


def test_an_sdk_that_is_not_its_digest_is_refused(host: Host) -> None:
    with pytest.raises(RequestRefused):
        host.ask("sdk", zip_of({"windlass/__init__.py": b""}), digest="0" * 64)
    assert not list((host.root / "sdk").iterdir())


@pytest.mark.parametrize("request_", [{}, {"do": "nothing"}, {"do": None}, {"do": "put"}, {"do": "observe", "jobs": 7}])
def test_a_malformed_request_is_answered(host: Host, request_: dict[str, object]) -> None:
    number = host.send(**{"do": "", **request_})  # type: ignore[arg-type]
    assert host.answer(number)[0]["error"]["code"] == "invalid"
    assert host.ask("check")[0]["ok"] is True


@pytest.mark.parametrize(
    "data", [b"\xff" * 8, struct.pack(">II", 2, 0) + b"[]", struct.pack(">II", 1, 0) + b"{", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_what_is_not_a_frame_ends_the_host_and_not_the_runs(hosts: Hosts, data: bytes) -> None:
    host = hosts()
    host.start("a.1", ["sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; exit 3"])
    host.wait_running("a.1")
    host.send_raw(data)
    assert host.wait_end() == 1
    later = hosts()
    (later.folder("a.1") / "source/go").touch()
    assert later.wait("a.1")["exit_code"] == 3


def test_the_machine_is_for_its_user_only(host: Host) -> None:
    host.start("a.1", ["true"])
    host.wait("a.1")
    for path in (host.root, host.root / "runs", host.root / "files", host.folder("a.1")):
        assert path.stat().st_mode & 0o077 == 0


def test_a_status_that_the_script_wrote_itself_is_not_believed(host: Host) -> None:
    """Not even with the right nonce: while a supervisor lives, only it may say that the job has ended."""
    forged = """
import json, os, sys, time
folder = os.environ["WINDLASS_RUN_FOLDER"]
status = {"version": 1, "nonce": os.environ["WINDLASS_COOKIE"], "reason": "exited", "exit_code": 0, "files": []}
with open(folder + "/status.json", "w") as file: json.dump(status, file)
print("forged", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
sys.exit(9)
"""
    host.python("a.1", forged)
    wait_for(lambda: host.read("a.1") == b"forged\n")
    assert host.observe("a.1")["phase"] == "running"
    (host.folder("a.1") / "source/go").touch()
    assert host.wait("a.1")["exit_code"] == 9
    assert json.loads((host.folder("a.1") / "status.json").read_text())["exit_code"] == 9


@pytest.mark.parametrize(
    "deed",
    [
        "shutil.rmtree(os.getcwd())",
        "shutil.rmtree(os.environ['WINDLASS_RUN_FOLDER'])",
        "os.mkdir(os.environ['WINDLASS_RUN_FOLDER'] + '/status.json')",
        "os.chmod(os.environ['WINDLASS_RUN_FOLDER'], 0)",
        "os.kill(os.getppid(), signal.SIGTERM)",
        "os.kill(os.getppid(), signal.SIGINT)",
        "os.kill(os.getppid(), signal.SIGHUP)",
        "os.kill(os.getppid(), signal.SIGKILL)",
        "os.unlink(os.environ['WINDLASS_RUN_FOLDER'] + '/user_logs/std_log.txt')",
        "os.symlink('/etc', os.environ['WINDLASS_RUN_FOLDER'] + '/metrics/link')",
    ],
)
def test_a_script_that_harms_its_own_folder_or_parent_still_has_a_true_end(host: Host, deed: str) -> None:
    script = f"""
import os, shutil, signal, sys, time
# A supervisor that writes there while it is being removed would be in the way.
story = os.environ["WINDLASS_RUN_FOLDER"] + "/events.jsonl"
while b'"running"' not in open(story, "rb").read(): time.sleep(0.01)
{deed}
sys.stdout.flush()
os._exit(6)
"""
    host.python("a.1", script)
    wait_for(lambda: (o := host.observe("a.1"))["phase"] == "ended" and o)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 6)


def test_files_that_no_run_has_needed_for_long_are_not_kept(hosts: Hosts, root: Path) -> None:
    host = hosts()
    old, needed = host.put(b"old"), host.put(b"needed")
    for digest in (old, needed):
        os.utime(root / "files" / digest, (0, 0))
    host.start("a.1", ["true"], {"x": b"needed"})
    host.wait("a.1")
    assert host.close() == 0
    assert hosts().ask("have", digests=[old, needed])[0]["missing"] == [old]


def test_what_a_host_of_the_same_number_left_half_written_is_in_nobodys_way(host: Host) -> None:
    digest = hashlib.sha256(b"data").hexdigest()
    left = host.root / "files" / f"{digest}.{host.pid}.tmp"
    left.write_bytes(b"ha")
    left.chmod(0o400)
    assert host.put(b"data") == digest
    assert (host.root / "files" / digest).read_bytes() == b"data" and not left.exists()


def test_a_watched_folder_that_became_a_link_tells_nothing_of_where_it_leads(host: Host, tmp_path: Path) -> None:
    private = tmp_path / "private/deep"
    private.mkdir(parents=True)
    (private / "mine.txt").write_text("of this account")
    script = f"""
import os, time
os.rename("logs", "was_logs")
os.symlink("{private.parent}", "logs")
print("linked", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
"""
    host.python("a.1", script, watch=["logs/deep"])
    wait_for(lambda: b"linked" in host.read("a.1"))
    host.ask("watch", jobs=["a.1"])
    assert [path for path, _, _ in host.ask("files", job="a.1")[0]["files"]] == ["user_logs/std_log.txt"]
    (host.folder("a.1") / "source/go").touch()
    assert "mine.txt" not in str(host.wait("a.1"))
    assert not [event for event in host.events if "mine.txt" in str(event)]


SWAP = """
import os, sys
folder, private = sys.argv[1:]
os.chdir(folder)
print("swapping", flush=True)
while True:
    os.rename("d", "aside")
    os.symlink(private, "d")
    os.unlink("d")
    os.rename("aside", "d")
"""


def test_a_log_that_is_swapped_for_a_link_costs_nobody_else_a_byte(tmp_path: Path) -> None:
    """The middle of long logs is given back to the disk, while the script may do what it likes with their folder."""
    size, cap = 1 << 20, 1 << 16
    private = tmp_path / "private"
    private.mkdir()
    (private / "long.txt").write_bytes(b"x" * size)
    folder = RunFolder(str(tmp_path / "runs"), "a.1")
    logs = Path(folder.at("user_logs"))
    (logs / "d").mkdir(parents=True)
    (logs / "d/long.txt").write_bytes(b"y" * size)
    swapping = subprocess.Popen([sys.executable, "-c", SWAP, logs, private], stdout=subprocess.PIPE)
    try:
        assert swapping.stdout is not None and swapping.stdout.readline() == b"swapping\n"
        for _ in range(2000):
            with contextlib.suppress(OSError):
                run_files.free_middles(folder, cap)
    finally:
        swapping.kill()
        swapping.communicate()
    assert (private / "long.txt").read_bytes() == b"x" * size
