"""Snapshots, artifacts and live logs."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.makers import submit
from windlass.core.digests import snapshot_digest
from windlass.core.entities import Artifact, SnapshotFile
from windlass.core.errors import Conflict, InvalidRequest, NotFound, SnapshotIncomplete
from windlass.store import Store
from windlass.store.files.blobs import Blobs
from windlass.store.files.live_logs import LiveLogs


def snapshot_file(path: str, data: bytes, executable: bool = False) -> SnapshotFile:
    return SnapshotFile(path, hashlib.sha256(data).hexdigest(), len(data), executable)


def test_a_snapshot_is_kept_when_its_bytes_are_here(store: Store) -> None:
    files = [
        snapshot_file("train.py", b"print()"),
        snapshot_file("bin/go", b"#!", True),
        snapshot_file("copy.py", b"print()"),
    ]
    with pytest.raises(SnapshotIncomplete, match="2 of 3") as refused:
        store.snapshots.put(files)
    assert refused.value.details["missing"] == [files[0].digest, files[1].digest]
    assert not store.snapshots.known(snapshot_digest(files))
    store.blobs.put([b"print()"])
    store.blobs.put([b"#!"])
    digest = store.snapshots.put(files)
    assert digest == snapshot_digest(files) == store.snapshots.put(list(reversed(files)))
    assert store.snapshots.get(digest).files == tuple(files)
    assert store.snapshots.known(digest)
    assert submit(store, "r1", snapshot=digest)[0].snapshot == digest


def test_a_known_snapshot_is_not_looked_through_again(store: Store) -> None:
    """However many files it has: its row answers for them."""
    digest, size = store.blobs.put([b"x"])
    files = [SnapshotFile("a", digest, size)]
    store.snapshots.put(files)
    store.blobs.path(digest).unlink()
    assert store.snapshots.put(files) == snapshot_digest(files)


def test_an_empty_snapshot_is_one(store: Store) -> None:
    assert store.snapshots.get(store.snapshots.put([])).files == ()


def test_a_snapshot_says_the_truth(store: Store) -> None:
    digest, _ = store.blobs.put([b"x"])
    with pytest.raises(InvalidRequest, match="has 1 bytes, not 7"):
        store.snapshots.put([SnapshotFile("a", digest, 7)])
    with pytest.raises(InvalidRequest, match="twice"):
        store.snapshots.put([SnapshotFile("a", digest, 1), SnapshotFile("a", digest, 1)])
    with pytest.raises(InvalidRequest):
        store.snapshots.put([SnapshotFile("a", "../../etc/passwd", 1)])
    with pytest.raises(NotFound):
        store.snapshots.get("0" * 64)


def test_many_who_send_the_same_snapshot(store: Store) -> None:
    digest, size = store.blobs.put([b"x"])
    files = [SnapshotFile(f"f{number}", digest, size) for number in range(50)]
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: store.snapshots.put(files), range(8)))) == 1


def test_a_file_of_a_run_is_written_once(store: Store) -> None:
    run, _, _ = submit(store, "r1")
    first = Artifact("outputs/ünï cödé.bin", "a" * 64, 2**40, run.created_at)
    store.artifacts.add("r1", first)
    store.artifacts.add("r1", Artifact(first.path, first.digest, first.size, run.created_at + timedelta(seconds=1)))
    assert store.artifacts.get("r1", first.path) == first
    with pytest.raises(Conflict, match="another file"):
        store.artifacts.add("r1", Artifact(first.path, "b" * 64, 1, run.created_at))
    assert store.artifacts.list("r1") == [first]
    for id, path in (("r1", "nothing"), ("nobody", first.path)):
        with pytest.raises(NotFound):
            store.artifacts.get(id, path)
    with pytest.raises(NotFound):
        store.artifacts.add("nobody", first)
    assert store.artifacts.list("nobody") == []


def test_of_many_who_write_a_file_one_does(store: Store) -> None:
    run, _, _ = submit(store, "r1")

    def write(number: int) -> bool:
        try:
            store.artifacts.add("r1", Artifact("outputs/x", f"{number:064}", 1, run.created_at))
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(write, range(8)))
    assert answers.count(True) == 1
    assert int(store.artifacts.get("r1", "outputs/x").digest) == answers.index(True)


@pytest.fixture
def logs(tmp_path: Path) -> LiveLogs:
    return LiveLogs(tmp_path / "logs", Blobs(tmp_path / "blobs"))


PATH = "user_logs/std_log.txt"


def test_a_log_grows_and_overlap_is_skipped(logs: LiveLogs) -> None:
    assert logs.append("r1", 1, PATH, 0, b"hello") == 5
    assert logs.append("r1", 1, PATH, 0, b"hello") == 5
    assert logs.append("r1", 1, PATH, 3, b"lo wor") == 9
    assert logs.append("r1", 1, PATH, 9, b"") == 9
    assert logs.read("r1", 1, PATH) == b"hello wor"
    assert logs.read("r1", 1, PATH, offset=4, limit=3) == b"o w"
    assert logs.read("r1", 1, PATH, offset=100) == logs.read("r1", 1, PATH, offset=2**70) == b""
    assert logs.size("r1", 1, PATH) == 9


def test_a_gap_is_refused(logs: LiveLogs) -> None:
    logs.append("r1", 1, PATH, 0, b"hello")
    with pytest.raises(InvalidRequest, match="has 5 bytes") as refused:
        logs.append("r1", 1, PATH, 6, b"x")
    assert refused.value.details == {"expected": 5}
    with pytest.raises(InvalidRequest):
        logs.append("r1", 1, PATH, -1, b"xx")
    with pytest.raises(InvalidRequest):
        logs.read("r1", 1, PATH, offset=-1)
    assert logs.read("r1", 1, PATH) == b"hello"


def test_attempts_and_files_are_apart(logs: LiveLogs) -> None:
    logs.append("r1", 1, PATH, 0, b"one")
    logs.append("r1", 2, PATH, 0, b"second")
    logs.append("r1", 1, "logs/deep/er.txt", 0, b"\xff\0")
    assert logs.list("r1", 1) == {"logs/deep/er.txt": 2, PATH: 3}
    assert logs.list("r1", 3) == {}
    assert (logs.size("r1", 3, PATH), logs.read("r2", 1, PATH)) == (0, b"")
    logs.drop("r1", 1)
    logs.drop("r1", 1)
    assert logs.list("r1", 1) == {} and logs.read("r1", 2, PATH) == b"second"


def test_a_sealed_log_is_a_blob_and_stays_readable(logs: LiveLogs, tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    logs.append("r1", 1, PATH, 0, b"whole")
    digest, size = logs.seal("r1", 1, PATH)
    assert (digest, size) == (hashlib.sha256(b"whole").hexdigest(), 5)
    assert logs.read("r1", 1, PATH) == b"whole"
    assert logs.append("r1", 1, PATH, 2, b"ole") == 5
    with pytest.raises(InvalidRequest, match="sealed at 5"):
        logs.append("r1", 1, PATH, 5, b"more")
    assert logs.seal("r1", 1, PATH) == (digest, size)
    logs.drop("r1", 1)
    with blobs.open(digest) as file:
        assert file.read() == b"whole"
    with pytest.raises(NotFound):
        logs.seal("r1", 1, PATH)


def test_two_logs_with_the_same_bytes(logs: LiveLogs) -> None:
    for id in ("r1", "r2"):
        logs.append(id, 1, PATH, 0, b"")
        logs.append(id, 1, "b.txt", 0, b"same")
    assert logs.seal("r1", 1, PATH)[1] == 0 == logs.seal("r2", 1, PATH)[1]
    assert logs.seal("r1", 1, "b.txt") == logs.seal("r2", 1, "b.txt")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", "a//b", "a\0b", "a\\b", "C:/x", "x" * 256])
def test_logs_stay_in_their_folder(logs: LiveLogs, path: str) -> None:
    for attempt in (
        lambda: logs.append("r1", 1, path, 0, b"x"), lambda: logs.read("r1", 1, path),
        lambda: logs.seal("r1", 1, path), lambda: logs.size("r1", 1, path),
    ):  # fmt: skip
        with pytest.raises(InvalidRequest):
            attempt()
    with pytest.raises(InvalidRequest):
        logs.append("../r1", 1, PATH, 0, b"x")


def test_a_file_is_no_folder(logs: LiveLogs) -> None:
    logs.append("r1", 1, "logs/a", 0, b"x")
    for path in ("logs/a/b", "logs"):
        with pytest.raises(InvalidRequest, match="There cannot be a log"):
            logs.append("r1", 1, path, 0, b"x")
        assert logs.read("r1", 1, path) == b""
    with pytest.raises(InvalidRequest):
        logs.append("r1", 1, "/".join(["d" * 203] * 20), 0, b"x")


def test_many_who_append_the_same_bytes(logs: LiveLogs) -> None:
    data = os.urandom(100_000)

    def resend(_: int) -> None:
        while (size := logs.size("r1", 1, PATH)) < len(data):
            start = max(size - 100, 0)
            logs.append("r1", 1, PATH, start, data[start : start + 900])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(resend, range(4)))
    assert logs.read("r1", 1, PATH) == data


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(data=st.binary(max_size=200), cuts=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=40))
def test_any_pieces_in_any_order_make_the_log(tmp_path: Path, data: bytes, cuts: list[tuple[int, int]]) -> None:
    """Pieces that begin at or before the end are taken, others refused; the log is always a beginning of the truth."""
    logs = LiveLogs(tmp_path / "logs", Blobs(tmp_path / "blobs"))
    logs.drop("r1", 1)
    for start, length in [*cuts, (0, len(data))]:
        if start <= len(data):
            try:
                logs.append("r1", 1, PATH, start, data[start : start + length])
            except InvalidRequest:
                assert start > logs.size("r1", 1, PATH)
        assert data.startswith(logs.read("r1", 1, PATH))
    assert logs.read("r1", 1, PATH) == data
