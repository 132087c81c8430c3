"""A real disk that fills up: new runs are refused while there is still room to write down how the others end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.serving import HOME, Server, serving

_MB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], check=True, timeout=60)
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True, timeout=60)


@pytest.mark.slow
def test_runs_are_refused_before_the_disk_is_full(disk: Path) -> None:
    with serving(f"sqlite:///{disk}/db.sqlite", disk, disk_reserve_bytes=16 * _MB) as server:
        first = server.interactive()
        refused = _fill(server, disk)
        assert refused > 100
        ended = server.call("POST", f"{HOME}/runs/{first['id']}/end", {"state": "Completed"})
        assert ended.json["state"] == "Completed"
        (disk / "filler").unlink()
        server.interactive()


def _fill(server: Server, disk: Path) -> int:
    """Let something else fill the disk, and count the submits that are refused on the way; the last ones all are."""
    refused = 0
    with open(disk / "filler", "wb") as filler:
        while os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize > 4 * _MB:
            filler.write(b"x" * (_MB // 10))
            filler.flush()
            answer = server.call("POST", f"{HOME}/runs", {"experiment": "demo", "type": "interactive"})
            assert answer.status == (507 if refused else answer.status), answer.raw
            refused += answer.status == 507
    return refused
