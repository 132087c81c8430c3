"""A script's output is kept to the byte, and its cap never touches the script."""

from __future__ import annotations

import hashlib
import os

from .pipe import Host, wait_for

MB = 1 << 20


def test_output_is_kept_to_the_byte(host: Host) -> None:
    script = r"""
import os, sys
os.write(1, bytes(range(256)) * 100)
os.write(2, b"\xe2\x82 \xff\xfe invalid UTF-8\n")
os.write(1, b"\r 10%\r 20%\r100%\n")
os.write(1, b"windlass-pipe 1\n\x00\x00\x00\x02\x00\x00\x00\x00{}")
os.write(1, b"x" * 3_000_000)
"""
    host.python("a.1", script)
    ended = host.wait("a.1")
    expected = bytes(range(256)) * 100 + b"\xe2\x82 \xff\xfe invalid UTF-8\n" + b"\r 10%\r 20%\r100%\n"
    expected += b"windlass-pipe 1\n\x00\x00\x00\x02\x00\x00\x00\x00{}" + b"x" * 3_000_000
    read, offset = b"", 0
    while piece := host.read("a.1", offset=offset, limit=MB):
        read, offset = read + piece, offset + len(piece)
    assert read == expected
    assert ended["files"] == [["user_logs/std_log.txt", len(expected), hashlib.sha256(expected).hexdigest()]]


def test_reading_honours_offset_and_limit(host: Host) -> None:
    host.start("a.1", ["printf", "0123456789"])
    host.wait("a.1")
    assert host.read("a.1", offset=3, limit=4) == b"3456"
    assert host.read("a.1", offset=8, limit=100) == b"89"
    assert host.read("a.1", offset=10) == b""
    assert host.read("a.1", offset=10**15) == b""
    assert host.read("a.1", path="source/outputs/absent") == b""
    assert host.read("nobody.1") == b""


def test_a_script_may_close_its_output(host: Host) -> None:
    host.python("a.1", "import os; os.write(1, b'so far'); os.close(1); os.close(2); os._exit(5)")
    assert host.wait("a.1")["exit_code"] == 5
    assert host.read("a.1") == b"so far"


def test_beyond_its_cap_a_log_loses_its_middle_and_the_script_nothing(host: Host) -> None:
    """Head and tail are kept, what lies between is given back to the disk, and every write of the script succeeds."""
    script = f"""
import os, time
for i in range(64):
    assert os.write(1, bytes([65 + i % 26]) * {MB}) == {MB}
open("written", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
os.write(1, b"THE END")
"""
    host.python("a.1", script, log_cap=8 * MB)
    folder = host.folder("a.1")
    log = folder / "user_logs/std_log.txt"
    wait_for((folder / "source/written").exists)
    wait_for(lambda: log.stat().st_blocks * 512 < 12 * MB)
    (folder / "source/go").touch()
    ended = host.wait("a.1")
    assert ended["exit_code"] == 0
    size = 64 * MB + 7
    assert ["user_logs/std_log.txt", size, None] in ended["files"]
    assert log.stat().st_size == size
    assert host.read("a.1", limit=4 * MB) == b"".join(bytes([65 + i]) * MB for i in range(4))
    assert host.read("a.1", offset=size - MB - 7, limit=MB) == bytes([65 + 63 % 26]) * MB
    assert host.read("a.1", offset=size - 7) == b"THE END"
    assert host.read("a.1", offset=32 * MB, limit=10) == bytes(10)


def test_outputs_have_no_cap(host: Host) -> None:
    host.python("a.1", "open('outputs/big', 'wb').write(b'x' * 3_000_000)", log_cap=MB)
    digest = hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert ["source/outputs/big", 3_000_000, digest] in host.wait("a.1")["files"]


def test_ranks_and_children_share_the_log_in_whole_lines(host: Host) -> None:
    script = """
import os
for i in range(4):
    if os.fork() == 0:
        for j in range(200): os.write(1, b"%d:%03d\\n" % (i, j))
        os._exit(0)
for i in range(4): os.wait()
"""
    host.python("a.1", script)
    host.wait("a.1")
    lines = host.read("a.1").splitlines()
    assert sorted(lines) == sorted(b"%d:%03d" % (i, j) for i in range(4) for j in range(200))
    assert os.path.getsize(host.folder("a.1") / "user_logs/std_log.txt") == 800 * 6
