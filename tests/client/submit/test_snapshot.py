"""What of a source folder travels, and that an unchanged one is not read again."""

from __future__ import annotations

import hashlib
import itertools
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from windlass.client.exceptions import SnapshotException, UserErrorException
from windlass.client.http.connection import Body
from windlass.client.submit import snapshot
from windlass.client.submit.snapshot import SourceChanged


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    # As if it had been written long ago, so that the clock's grain plays no part.
    os.utime(folder / "train.py", ns=(10**18, 10**18 + 1))
    return folder


def paths(source: Path, home: str) -> list[str]:
    return [file.path for file in snapshot.take(str(source), home).files]


def test_a_manifest_names_content_and_executable_bit(source: Path, home: str) -> None:
    (source / "pkg").mkdir()
    (source / "pkg" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (source / "pkg" / "run.sh").chmod(0o755)
    manifest = snapshot.take(str(source), home).manifest()
    assert manifest == [
        {"path": "pkg/run.sh", "digest": hashlib.sha256(b"#!/bin/sh\n").hexdigest(), "size": 10, "executable": True},
        {"path": "train.py", "digest": hashlib.sha256(b"print(1)\n").hexdigest(), "size": 9, "executable": False},
    ]


def test_what_is_ignored_stays_at_home(source: Path, home: str) -> None:
    (source / ".amlignore").write_text("data/\n*.log\n!keep.log\n")
    for name in ("data/x.csv", "a.log", "keep.log", ".git/HEAD", "__pycache__/x.pyc", "outputs/old.pkl"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("x")
    assert paths(source, home) == [".amlignore", "keep.log", "train.py"]


def test_our_own_home_is_no_part_of_it(source: Path, tmp_path: Path) -> None:
    """Who submits from his home folder does not send the server's keys and token away."""
    (source / ".windlass" / "keys").mkdir(parents=True)
    (source / ".windlass" / "keys" / "secrets.key").write_text("key")
    (source / "pkg").mkdir()
    (source / "pkg" / ".windlass").write_text("a file of that name is the user's own")
    (tmp_path / "link").symlink_to(source)
    for home in (source / ".windlass", tmp_path / "link" / ".windlass"):
        assert paths(source, str(home)) == paths(tmp_path / "link", str(home)) == ["pkg/.windlass", "train.py"]


def test_a_virtual_environment_stays_at_home(source: Path, home: str) -> None:
    (source / "env").mkdir()
    (source / "env" / "pyvenv.cfg").write_text("")
    (source / "env" / "big.py").write_text("")
    assert paths(source, home) == ["train.py"]


def test_a_folder_that_is_an_environment_itself_is_taken(source: Path, home: str) -> None:
    (source / "pyvenv.cfg").write_text("")
    assert paths(source, home) == ["pyvenv.cfg", "train.py"]


def test_links_inside_become_files_and_others_are_left_out(
    source: Path, home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("secret")
    (source / "inside.py").symlink_to("train.py")
    (source / "outside.py").symlink_to(tmp_path / "secret")
    (source / "broken.py").symlink_to("nothing")
    (source / "up").symlink_to(tmp_path)
    (source / "folder").mkdir()
    (source / "folder" / "loop").symlink_to(source)
    found = snapshot.take(str(source), home)
    assert [file.path for file in found.files] == ["inside.py", "train.py"]
    assert found.files[0].digest == found.files[1].digest
    warned = capsys.readouterr().err
    assert [name in warned for name in ("outside.py", "broken.py", "up", "folder/loop")] == [True] * 4


def test_a_pipe_is_refused_by_name(source: Path, home: str) -> None:
    os.mkfifo(source / "pipe")
    with pytest.raises(SnapshotException, match="pipe is not a file") as caught:
        snapshot.take(str(source), home)
    assert ".amlignore" in caught.value.hint


def test_a_socket_is_refused_unless_it_is_ignored(source: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("door")
        with pytest.raises(SnapshotException, match="door"):
            snapshot.take(".", home)
        (source / ".amlignore").write_text("door\n")
        assert paths(source, home) == [".amlignore", "train.py"]


def test_an_unreadable_file_is_named() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        Path(folder, "secret.py").touch(0o000)
        assert message_for_a_stranger(folder) == f"Cannot read {folder}/secret.py: Permission denied"


def message_for_a_stranger(folder: str) -> str:
    """What taking the snapshot says to a user who is not root, for whom every file is readable."""
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            snapshot.take(folder, "/nonexistent")
        except SnapshotException as e:
            os.write(say, e.message.encode())
        finally:
            os._exit(0)
    os.close(say)
    with open(hear) as said:
        message = said.read()
    os.waitpid(child, 0)
    return message


@pytest.mark.parametrize("name", ["new\nline.py", "back\\slash.py", os.fsdecode(b"\xff.py")])
def test_names_that_cannot_travel_are_refused(source: Path, home: str, name: str) -> None:
    (source / name).touch()
    with pytest.raises(SnapshotException, match="cannot be part of a snapshot"):
        snapshot.take(str(source), home)


def test_a_missing_folder_is_named(tmp_path: Path, home: str) -> None:
    with pytest.raises(UserErrorException, match="There is no source directory .*/nothing"):
        snapshot.take(str(tmp_path / "nothing"), home)


def test_one_file_can_be_a_snapshot(source: Path, home: str) -> None:
    assert paths(source / "train.py", home) == ["train.py"]


def test_too_many_files(source: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AML_SNAPSHOT_NO_FILE_LIMIT", raising=False)
    (source / "data" / "raw").mkdir(parents=True)
    for i in range(2000):
        (source / "data" / "raw" / f"{i}.txt").touch()
    with pytest.raises(SnapshotException) as caught:
        snapshot.take(str(source), home)
    assert caught.value.message == (
        f"While attempting to take snapshot of {source}\nYour project exceeds the file limit of 2000."
    )
    assert caught.value.hint.startswith("The folders with most files are data/raw/ (2,000 files).")
    monkeypatch.setenv("AML_SNAPSHOT_NO_FILE_LIMIT", "True")
    assert len(paths(source, home)) == 2001


def test_too_large(source: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(source / "big.bin", "wb") as file:
        file.truncate(301 * 1024 * 1024)
    with pytest.raises(SnapshotException) as caught:
        snapshot.take(str(source), home)
    assert "Your total snapshot size exceeds the limit of 300.0 MB." in caught.value.message
    assert caught.value.hint.startswith("The biggest files are big.bin (301.0 MB), train.py (0.0 MB).")
    frame = "=" * 68
    assert str(caught.value).startswith(f"SnapshotException:\n\tMessage: {frame}\n\nWhile attempting to take snapshot")
    assert "300.0 MB.\nPlease see http://aka.ms/aml-largefiles on how to work with large files.\n" in str(caught.value)
    (source / "aside" / "models").mkdir(parents=True)
    (source / "big.bin").rename(source / "aside" / "models" / "big.bin")
    with pytest.raises(SnapshotException) as caught:
        snapshot.take(str(source), home)
    assert "The biggest folders are aside/models/ (301.0 MB)." in caught.value.hint
    monkeypatch.setenv("SNAPSHOT_MAX_SIZE_BYTES", "5")
    with pytest.raises(SnapshotException, match=r"exceeds the limit of 0\.0 MB"):
        snapshot.take(str(source / "train.py"), home)


@pytest.mark.parametrize(("seconds_a_piece", "is_announced"), [(0.01, False), (10.0, True)])
def test_a_folder_is_said_to_take_minutes_only_if_it_does(
    source: Path,
    home: str,
    seconds_a_piece: float,
    is_announced: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open(source / "big.bin", "wb") as file:
        file.truncate(26 * 1024 * 1024)
    found = snapshot.take(str(source), home)
    assert capsys.readouterr() == ("", ""), "nobody knows yet whether it has to be sent"
    clock = itertools.count(0.0, seconds_a_piece)
    monkeypatch.setattr("windlass.client.submit.snapshot.time.monotonic", lambda: next(clock))
    send(found, [file.digest for file in found.files])
    said = "so it can take a few minutes." if is_announced else ""
    out = capsys.readouterr().out
    assert out.strip().endswith(said) and bool(out) == is_announced


def test_an_unchanged_file_is_not_read_again(source: Path, home: str) -> None:
    first = snapshot.take(str(source), home)
    opened: list[str] = []
    is_watching = True

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if is_watching and event == "open" and str(arguments[0]).endswith("train.py"):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    assert snapshot.take(str(source), home).files == first.files
    assert opened == []
    # The same size and time, but other content: the inode's own time tells, once the clock has ticked.
    time.sleep(0.05)
    (source / "train.py").write_text("print(2)\n")
    os.utime(source / "train.py", ns=(10**18, 10**18 + 1))
    assert snapshot.take(str(source), home).files != first.files
    assert len(opened) >= 1
    is_watching = False


def test_a_file_of_this_very_moment_is_read_again(source: Path, home: str) -> None:
    (source / "train.py").write_text("a")
    first = snapshot.take(str(source), home).files[0].digest
    seen = os.stat(source / "train.py")
    (source / "train.py").write_text("b")
    os.utime(source / "train.py", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert snapshot.take(str(source), home).files[0].digest != first


def test_a_file_that_keeps_changing_is_named(source: Path, home: str) -> None:
    (source / "growing.bin").touch()
    os.truncate(source / "growing.bin", 50 << 20)  # long enough to read that the other thread has its turn
    is_over = threading.Event()

    def change() -> None:
        while not is_over.is_set():
            os.utime(source / "growing.bin")

    changing = threading.Thread(target=change)
    changing.start()
    try:
        with pytest.raises(SnapshotException, match="growing.bin keeps changing while it is read"):
            snapshot.take(str(source), home)
    finally:
        is_over.set()
        changing.join()
    assert paths(source, home) == ["growing.bin", "train.py"]


def test_a_broken_cache_costs_time_only(source: Path, home: str) -> None:
    first = snapshot.take(str(source), home).files
    for place, _, names in os.walk(home):
        for name in names:
            Path(place, name).write_text("{ not json")
    assert snapshot.take(str(source), home).files == first


class FakeSession:
    """Keeps what is sent to it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def transfer(self, method: str, path: str, body: Body, length: int) -> None:
        assert (method, path) == ("POST", "/workspaces/w/blobs")
        data = body if isinstance(body, bytes) else b"".join(body())
        assert len(data) == length
        self.bodies.append(data)


def unframed(data: bytes) -> dict[str, bytes]:
    found = {}
    while data:
        size = int.from_bytes(data[64:72], "big")
        found[data[:64].decode()] = data[72 : 72 + size]
        data = data[72 + size :]
    return found


def send(
    found: snapshot.Snapshot, missing: list[str], progress: Callable[[int, int], None] | None = None
) -> FakeSession:
    session = FakeSession()
    snapshot.upload(session, "/workspaces/w", found, missing, progress)  # type: ignore[arg-type]
    return session


def test_only_missing_bytes_are_sent_and_each_once(source: Path, home: str) -> None:
    (source / "copy.py").write_text("print(1)\n")
    (source / "other.py").write_text("x")
    found = snapshot.take(str(source), home)
    wanted = hashlib.sha256(b"print(1)\n").hexdigest()
    session = send(found, [wanted, wanted])
    assert [unframed(body) for body in session.bodies] == [{wanted: b"print(1)\n"}]


def test_a_wheel_of_the_workspace_that_lies_in_the_folder_is_sent_from_there(source: Path, home: str) -> None:
    found = snapshot.take(str(source), home)
    [file] = found.files
    found.add([snapshot.File(".windlass/wheels/x/train.py", file.digest, file.size, False, "")])
    assert [unframed(body) for body in send(found, [file.digest]).bodies] == [{file.digest: b"print(1)\n"}]


def test_many_bytes_go_in_several_requests(source: Path, home: str) -> None:
    for i in range(3):
        (source / f"{i}.bin").write_bytes(os.urandom(5 << 20))
    (source / "empty").touch()
    found = snapshot.take(str(source), home)
    told: list[tuple[int, int]] = []
    session = send(found, [file.digest for file in found.files], lambda done, total: told.append((done, total)))
    sent: dict[str, bytes] = {}
    for body in session.bodies:
        sent.update(unframed(body))
    assert {digest: hashlib.sha256(data).hexdigest() for digest, data in sent.items()} == {d: d for d in sent}
    assert set(sent) == {file.digest for file in found.files}
    assert len(session.bodies) > 1
    assert told[-1][0] == told[-1][1] == sum(file.size for file in found.files)


@pytest.mark.parametrize("change", ["longer than before", "", None])
def test_a_file_that_changes_before_it_is_sent(source: Path, home: str, change: str | None) -> None:
    found = snapshot.take(str(source), home)
    if change is None:
        (source / "train.py").unlink()
    else:
        (source / "train.py").write_text(change)
    with pytest.raises(SourceChanged):
        send(found, [found.files[0].digest])
