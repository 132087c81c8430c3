"""Bytes by digest: whole or not at all, and durable when they are acknowledged."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from windlass.core.errors import InvalidRequest, NotFound, StorageFull
from windlass.store.files.blobs import Blobs
from windlass.store.files.durability import reporting_full_disk


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


def files(blobs: Blobs) -> list[Path]:
    return [path for path in blobs.folder.rglob("*") if path.is_file()]


def content(blobs: Blobs, digest: str) -> bytes:
    with blobs.open(digest) as file:
        return file.read()


def test_a_stream_is_kept_under_its_digest(blobs: Blobs) -> None:
    digest, size = blobs.put([b"ab", b"", b"c"])
    assert (digest, size) == (digest_of(b"abc"), 3)
    assert content(blobs, digest) == b"abc" and blobs.size(digest) == 3
    assert blobs.put([b"abc"], expect=digest) == (digest, 3)
    assert len(files(blobs)) == 1


def test_nothing_is_something(blobs: Blobs) -> None:
    digest, size = blobs.put([])
    assert (digest, size) == (digest_of(b""), 0)
    assert content(blobs, digest) == b""


def test_other_bytes_than_expected_are_refused(blobs: Blobs) -> None:
    with pytest.raises(InvalidRequest, match="not " + digest_of(b"x")):
        blobs.put([b"y"], expect=digest_of(b"x"))
    assert files(blobs) == []
    blobs.put([b"x"])
    with pytest.raises(InvalidRequest):
        blobs.put([b"y"], expect=digest_of(b"x"))  # also when the right ones are there
    assert content(blobs, digest_of(b"x")) == b"x"


def test_a_stream_that_breaks_leaves_nothing(blobs: Blobs) -> None:
    def broken() -> Iterator[bytes]:
        yield b"some"
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError):
        blobs.put(broken(), expect=digest_of(b"something"))
    with pytest.raises(ConnectionResetError):
        blobs.put_many([(digest_of(b"a"), [b"a"]), (digest_of(b"something"), broken())])
    assert files(blobs) == []


def test_many_at_once(blobs: Blobs) -> None:
    contents = [f"file {number}".encode() for number in range(100)]
    blobs.put_many((digest_of(each), [each]) for each in [*contents, contents[0]])
    assert all(content(blobs, digest_of(each)) == each for each in contents)
    assert blobs.missing([digest_of(each) for each in contents]) == []
    assert len(files(blobs)) == 100


def test_of_many_one_wrong_one_keeps_none(blobs: Blobs) -> None:
    with pytest.raises(InvalidRequest):
        blobs.put_many([(digest_of(b"a"), [b"a"]), (digest_of(b"b"), [b"wrong"])])
    assert files(blobs) == []


def test_what_is_missing(blobs: Blobs) -> None:
    here, _ = blobs.put([b"here"])
    away = digest_of(b"away")
    assert blobs.missing([away, here, away]) == [away]
    for ask in (blobs.open, blobs.size):
        with pytest.raises(NotFound):
            ask(away)


@pytest.mark.parametrize(
    "digest", ["", "abc", "../" * 20 + "a" * 4, "g" * 64, "A" * 64, "a" * 63 + "/", "a" * 64 + "\n"]
)
def test_what_is_no_digest_is_refused(blobs: Blobs, digest: str) -> None:
    with pytest.raises(InvalidRequest):
        blobs.open(digest)
    with pytest.raises(InvalidRequest):
        blobs.missing([digest])
    with pytest.raises(InvalidRequest):
        blobs.put([b"x"], expect=digest)


def test_many_writers_of_the_same_bytes(blobs: Blobs) -> None:
    start = threading.Barrier(8)
    data = [b"x" * 1000] * 100

    def put(_: int) -> str:
        start.wait()
        return blobs.put(iter(data), expect=digest_of(b"".join(data)))[0]

    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(put, range(8)))
    assert digests == {digest_of(b"".join(data))}
    assert content(blobs, digests.pop()) == b"".join(data)
    assert len(files(blobs)) == 1


def test_only_their_owner_reads_them(blobs: Blobs) -> None:
    digest, _ = blobs.put([b"secret"])
    path = blobs.path(digest)
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_is_adopted(blobs: Blobs, tmp_path: Path) -> None:
    moved, kept = tmp_path / "moved", tmp_path / "kept"
    moved.write_bytes(b"one")
    kept.write_bytes(b"two")
    assert blobs.adopt(moved) == (digest_of(b"one"), 3)
    assert blobs.adopt(kept, keep=True) == (digest_of(b"two"), 3)
    assert not moved.exists() and kept.read_bytes() == b"two"
    assert content(blobs, digest_of(b"one")) == b"one" and content(blobs, digest_of(b"two")) == b"two"
    moved.write_bytes(b"one")
    assert blobs.adopt(moved) == (digest_of(b"one"), 3)
    assert not moved.exists()


def test_a_file_of_another_disk_is_adopted(blobs: Blobs) -> None:
    elsewhere = Path("/dev/shm") / f"windlass-{os.getpid()}"
    elsewhere.write_bytes(b"far")
    try:
        assert elsewhere.stat().st_dev != blobs.folder.stat().st_dev
        assert blobs.adopt(elsewhere) == (digest_of(b"far"), 3)
        assert not elsewhere.exists() and content(blobs, digest_of(b"far")) == b"far"
    finally:
        elsewhere.unlink(missing_ok=True)


def test_to_be_asked_for_is_to_stay_young(blobs: Blobs, tmp_path: Path) -> None:
    digests = [blobs.put([str(number).encode()])[0] for number in range(4)]
    (tmp_path / "same").write_bytes(b"3")
    for digest in digests:
        os.utime(blobs.path(digest), (0, 0))
    blobs.missing(digests[:1])
    blobs.put([b"1"], expect=digests[1])
    blobs.adopt(tmp_path / "same")
    assert [blobs.remove_older(digest, 1000.0) for digest in digests] == [0, 0, 1, 0]
    assert blobs.missing(digests) == [digests[2]]


FILL = """
import resource, sys
from pathlib import Path
from windlass.core.errors import StorageFull
from windlass.store.files.blobs import Blobs
blobs = Blobs(Path(sys.argv[1]))
blobs.put([b"before"])
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
many = lambda: (b"x" * 4096 for _ in range(64))
for attempt in (lambda: blobs.put(many()), lambda: blobs.put_many([("0" * 64, many())])):
    try:
        attempt()
    except StorageFull as error:
        print(error.code, error.transient)
print(blobs.put([b"small"])[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(blobs.put(many())[1])
"""


def test_a_full_disk_is_reported_and_survived(tmp_path: Path) -> None:
    """The kernel refuses to let files grow; when it relents, everything works again without a restart."""
    done = subprocess.run(
        [sys.executable, "-c", FILL, tmp_path / "blobs"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["storage_full", "True"] * 2 + ["5", str(4096 * 64)]
    blobs = Blobs(tmp_path / "blobs")
    assert len(files(blobs)) == 3


def test_no_space_on_the_device_is_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(StorageFull, match="disk is full"):
        with reporting_full_disk(tmp_path), open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")
