"""Group D at the client: source folders with anything in them, and downloads of files with any name."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.inputs.liar import lying
from tests.inputs.outside import ESCAPED, WS, Outside
from windlass import Experiment, Run, ScriptRunConfig, Workspace
from windlass.client.exceptions import SnapshotException, UserErrorException
from windlass.core.errors import WindlassError

LIST = "import json, os; print(json.dumps(sorted(os.path.join(p, f)[2:] for p, _, fs in os.walk('.') for f in fs)))"


@pytest.fixture
def experiment(sqlite: Outside, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Experiment:
    for name in [name for name in os.environ if name.startswith(("WINDLASS_", "AZUREML_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WINDLASS_HOME", str(sqlite.home))
    monkeypatch.chdir(tmp_path)
    return Experiment(Workspace.from_config(), "inputs")


def submit(experiment: Experiment, folder: Path, script: str = "main.py") -> Run:
    return experiment.submit(ScriptRunConfig(source_directory=str(folder), script=script))


def listed(experiment: Experiment, folder: Path, sqlite: Outside) -> list[str]:
    """The files that the run of this folder found."""
    (folder / "main.py").write_text(LIST)
    run = submit(experiment, folder)
    run.wait_for_completion()
    found: list[str] = json.loads(sqlite.file(run.id))
    return [name for name in found if name != "main.py"]


def refused(experiment: Experiment, folder: Path, server: Outside, script: str = "main.py") -> str:
    if not os.path.lexists(folder / "main.py"):
        (folder / "main.py").write_text("print('never')")
    with server.unchanged(), pytest.raises(WindlassError) as caught:
        submit(experiment, folder, script)
    return caught.value.message


def test_c9_c10_scripts_that_are_no_files_of_the_folder(experiment: Experiment, folder: Path, sqlite: Outside) -> None:
    (folder.parent / "outside.py").write_text("print('never')")
    (folder / "link.py").symlink_to("../outside.py")
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "sub").mkdir()
    for script in ("link.py", "loop.py", "sub", "../outside.py", "/etc/passwd", "no.py", "", ".", "main.py/x", "a\0b"):
        sentence = refused(experiment, folder, sqlite, script)
        assert script in sentence or script in ("", ".", "a\0b")
    os.mkfifo(folder / "pipe.py")
    assert "pipe.py" in refused(experiment, folder, sqlite, "pipe.py")


def test_d16_links_never_lead_out(experiment: Experiment, folder: Path, sqlite: Outside) -> None:
    (folder / "plain.txt").write_text("plain")
    (folder / "inner.txt").symlink_to("plain.txt")
    (folder / "far.txt").symlink_to("/etc/passwd")
    (folder / "etc").symlink_to("/etc")
    (folder / "up").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "through").symlink_to("/proc/self/environ")
    os.link(folder / "plain.txt", folder / "twin.txt")
    assert listed(experiment, folder, sqlite) == ["inner.txt", "plain.txt", "twin.txt"]


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_d16_d17_what_is_no_file_is_refused_by_name(
    experiment: Experiment, folder: Path, sqlite: Outside, kind: str
) -> None:
    (folder / "sub").mkdir()
    if kind == "pipe":
        os.mkfifo(folder / "sub" / "thing")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as door:
            os.chdir(folder / "sub")
            door.bind("thing")
    elif os.geteuid() == 0:
        os.mknod(folder / "sub" / "thing", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    else:
        (folder / "sub" / "thing").symlink_to("/dev/zero")
        assert listed(experiment, folder, sqlite) == []
        return
    assert "sub/thing" in refused(experiment, folder, sqlite)
    (folder / ".amlignore").write_text("thing\n")
    assert listed(experiment, folder, sqlite) == [".amlignore"]


def test_d17_bits_beyond_executable_do_not_travel(experiment: Experiment, folder: Path) -> None:
    (folder / "main.py").write_text(
        "import os; print(oct(os.stat('tool').st_mode & 0o7777), oct(os.stat('data').st_mode & 0o7777))"
    )
    for name, mode in (("tool", 0o6755), ("data", 0o1666)):
        (folder / name).write_text("x")
        (folder / name).chmod(mode)
    run = submit(experiment, folder)
    run.wait_for_completion()
    run.download_file("user_logs/std_log.txt", "log.txt")
    assert Path("log.txt").read_text() == "0o755 0o644\n"


def test_d17_a_file_of_a_terabyte_is_refused_at_once(experiment: Experiment, folder: Path, sqlite: Outside) -> None:
    with open(folder / "sparse.bin", "wb") as file:
        file.truncate(1 << 40)
    assert "exceeds the limit" in refused(experiment, folder, sqlite)


def test_d20_a_repository_of_gigabytes_stays_at_home(experiment: Experiment, folder: Path, sqlite: Outside) -> None:
    (folder / ".git" / "objects").mkdir(parents=True)
    with open(folder / ".git" / "objects" / "pack", "wb") as file:
        file.truncate(5 << 30)
    assert listed(experiment, folder, sqlite) == []


def test_d20_names_that_differ_in_case_both_arrive(experiment: Experiment, folder: Path, sqlite: Outside) -> None:
    for name in ("Data.txt", "data.txt", "DATA.TXT", "caf\u00e9", "cafe\u0301"):
        (folder / name).write_text(name)
    assert listed(experiment, folder, sqlite) == sorted(["Data.txt", "data.txt", "DATA.TXT", "caf\u00e9", "cafe\u0301"])


def test_d20_a_file_that_changes_all_the_time(experiment: Experiment, folder: Path, sqlite: Outside) -> None:
    """It is sent as it was at some moment, or it is said that it changes; never a mixture."""
    (folder / "main.py").write_text("data = open('busy.bin', 'rb').read(); print(set(data) == {data[0]})")
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number = (number + 1) % 250
            with open(folder / "aside.bin", "wb") as file:
                file.write(bytes([number]) * 3_000_000)
            os.replace(folder / "aside.bin", folder / "busy.bin")

    (folder / "busy.bin").write_bytes(b"x" * 3_000_000)
    (folder / ".amlignore").write_text("aside.bin\n")
    thread = threading.Thread(target=write)
    thread.start()
    try:
        run = submit(experiment, folder)
        run.wait_for_completion()
        assert sqlite.file(run.id) == b"True\n"
    except SnapshotException as e:
        assert "busy.bin" in e.message
    finally:
        is_over.set()
        thread.join()


def test_d20_files_that_vanish_and_grow(experiment: Experiment, folder: Path, sqlite: Outside) -> None:
    (folder / "main.py").write_text("print('fine')")
    is_over = threading.Event()

    def churn() -> None:
        while not is_over.is_set():
            with open(folder / "log.txt", "ab") as file:
                file.write(b"x" * 10_000)
            (folder / "ghost").touch()
            time.sleep(0.001)
            (folder / "ghost").unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(10):
            try:
                submit(experiment, folder).wait_for_completion()
            except WindlassError as e:
                assert "log.txt" in e.message or "ghost" in e.message
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("name", ["new\nline", "back\\slash", os.fsdecode(b"\xff"), "\x1b[31m", "a\x7f"])
def test_names_that_cannot_travel_are_refused(experiment: Experiment, folder: Path, sqlite: Outside, name: str) -> None:
    (folder / name).touch()
    sentence = refused(experiment, folder, sqlite)
    assert sentence.isascii() and sentence.isprintable()


def test_d13_a_folder_deeper_than_anybody_can_go(experiment: Experiment, folder: Path, sqlite: Outside) -> None:
    """Deeper than a recursion, then deeper than a path can be long."""
    try:
        deepen(folder, 1200)
        assert "deep" in refused(experiment, folder, sqlite)
        deepen(folder, 3000)
        assert "deep" in refused(experiment, folder, sqlite)
    finally:  # what cleans up after tests gives up at this depth
        subprocess.run(["rm", "-rf", str(folder)], check=True, timeout=60)


def deepen(folder: Path, depth: int) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        with contextlib.suppress(FileExistsError):
            os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


IGNORE_FILES = {
    "not UTF-8": b"\xe9\xff\n*.log\n",
    "UTF-16": "*.log\n".encode("utf-16"),
    "one line of megabytes": b"a" * 3_000_000,
    "open bracket": b"[\n[a\n[!\n[]\n[z-a]\n",
    "bomb": b"a*" * 40 + b"b\n" + b"**/" * 40 + b"x\n",
    "backslash": b"\\\n!\\\n",
    "only an exclamation mark": b"!\n/\n//\n!/\n",
    "up": b"../x\n/../x\n",
}  # fmt: skip


@pytest.mark.parametrize("content", IGNORE_FILES.values(), ids=IGNORE_FILES)
def test_ignore_files_of_any_content(experiment: Experiment, folder: Path, sqlite: Outside, content: bytes) -> None:
    (folder / ".amlignore").write_bytes(content)
    (folder / ("a" * 200)).write_text("x")
    assert "a" * 200 in listed(experiment, folder, sqlite)


@pytest.mark.parametrize("content", [b"\0\n", b"\xff\xfe\n*.log\n"], ids=["NUL", "broken UTF-16"])
def test_ignore_files_that_are_no_text(experiment: Experiment, folder: Path, sqlite: Outside, content: bytes) -> None:
    (folder / ".amlignore").write_bytes(content)
    message = refused(experiment, folder, sqlite)
    assert ".amlignore" in message and "UTF-8" in message


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop"])
def test_ignore_files_that_are_no_files(experiment: Experiment, folder: Path, sqlite: Outside, kind: str) -> None:
    path = folder / ".amlignore"
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        os.mkfifo(path)
    if kind == "pipe":
        assert ".amlignore" in refused(experiment, folder, sqlite)
    else:
        assert listed(experiment, folder, sqlite) == []


# downloads

ODD = [
    "plain",
    "a/b/c",
    "-rf",
    "~",
    "$(id)",
    "a b",
    "é",
    "漢字",
    "\U0001f600",
    "%2e%2e%2fx",
    "...",
    "..a/..b",
    "x" * 255,
    ".hidden",
    "a'b\"c",
    "a.part",
]


def test_downloads_stay_in_their_folder(experiment: Experiment, sqlite: Outside, tmp_path: Path) -> None:
    run_id = sqlite.interactive()
    run = Run(experiment, run_id)
    for name in ODD:
        run.upload_file(name, name.encode())
    run.download_files(output_directory="here")
    found = {str(p.relative_to("here")): p.read_bytes() for p in Path("here").rglob("*") if p.is_file()}
    assert found == {name: name.encode() for name in ODD}
    assert sorted(os.listdir(tmp_path)) == ["here"]


EVIL = [
    "../escaped",
    f"/tmp/{ESCAPED}",
    "a/../../escaped",
    "..",
    ".",
    "",
    "a//b",
    "./x",
    "a\0b",
    "\\\\host\\share",
    "C:/x",
    "a\nb",
]


@pytest.mark.parametrize("name", EVIL)
def test_a_server_that_lies_about_names_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_TOKEN", "x")
    with lying({"/files": {"files": [{"path": name, "size": 4, "is_live": False}]}}) as url:
        monkeypatch.setenv("WINDLASS_URL", url)
        run = Run(Experiment(Workspace.from_config(), "inputs"), "some_run", _view={"id": "some_run"})
        with pytest.raises(WindlassError):
            run.download_files(output_directory="here")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not Path("/tmp", ESCAPED).exists()


def test_uploads_of_what_is_not_there(experiment: Experiment, sqlite: Outside, folder: Path) -> None:
    run = Run(experiment, sqlite.interactive())
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    for source in (folder / "nothing", folder, folder / "pipe", folder / "loop"):
        with pytest.raises(UserErrorException):
            run.upload_file("x", str(source))
    for name in ("../x", "/x", "", "a//b", "a\nb"):
        with pytest.raises(WindlassError):
            run.upload_file(name, b"x")
    assert sqlite.call("GET", f"{WS}/runs/{run.id}/files").kept()["files"] == []
