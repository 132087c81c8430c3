"""A run that fills the disk of its machine: it ends with the truth while the disk is full, and can be cancelled."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .pipe import Host, is_alive, wait_for

FILLS = """
import os, sys, time
def fill(path):
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(bytes(size)): pass
            except OSError: pass
"""
EXITS = "fill('outputs/big')\nsys.exit(6)"
WAITS = "fill('outputs/big')\nopen('full', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.005)\nsys.exit(6)"
REMOVES_THE_ROOM = "os.unlink('../claim/room')\n" + EXITS
MANY_FILES = "for n in range(3000): open(f'outputs/{n:050}', 'w').close()\n" + EXITS


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host | None]:
    """On a disk of a few megabytes; None where only the administrator may mount one."""
    if os.geteuid() != 0:
        yield None
        return
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=True, timeout=60)
    made = Host(disk / "machine")
    try:
        yield made
    finally:
        made.end()
        deadline = time.monotonic() + 60
        while subprocess.run(["umount", disk], capture_output=True, check=False).returncode:
            assert time.monotonic() < deadline, "the disk is still in use"
            time.sleep(0.05)


def is_full(host: Host) -> bool:
    return os.statvfs(host.root).f_bavail == 0


def begin(host: Host, script: str) -> None:
    host.python("a.1", FILLS + script)


def test_a_run_that_fills_the_disk_ends_with_its_exit_code(host: Host | None) -> None:
    if host is None:
        return
    begin(host, EXITS)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 6)
    assert [path for path, _, digest in ended["files"] if digest] == ["source/outputs/big", "user_logs/std_log.txt"]
    host.clean("a.1")


def test_a_run_that_has_filled_the_disk_can_be_cancelled(host: Host | None) -> None:
    if host is None:
        return
    begin(host, WAITS)
    wait_for((host.folder("a.1") / "source/full").exists)
    assert is_full(host)
    host.ask("stop", job="a.1", grace=5, fence=1)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["signal"]) == ("stopped", signal.SIGTERM)
    assert not (host.folder("a.1") / "stop.json").exists()


def test_a_supervisor_that_is_killed_on_a_full_disk_is_replaced(host: Host | None) -> None:
    if host is None:
        return
    begin(host, WAITS)
    wait_for((host.folder("a.1") / "source/full").exists)
    supervisor = host.file("a.1", "claim/supervisor.json")["pid"]
    os.kill(supervisor, signal.SIGKILL)
    wait_for(lambda: not is_alive(supervisor))
    (host.folder("a.1") / "source/go").touch()
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 6)


def test_an_end_that_cannot_be_recorded_is_told_with_the_cause(host: Host | None) -> None:
    if host is None:
        return
    begin(host, REMOVES_THE_ROOM)
    seen = wait_for(lambda: (o := host.observe("a.1"))["message"] and o)
    assert seen["phase"] == "running"
    assert "has ended (exit code 6)" in seen["message"] and f"disk of {host.root} is full" in seen["message"]
    (host.folder("a.1") / "source/outputs/big").unlink()
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 6)


def test_a_record_too_long_for_a_full_disk_is_shortened_for_a_cancel(host: Host | None) -> None:
    if host is None:
        return
    begin(host, MANY_FILES)
    wait_for(lambda: host.observe("a.1")["message"])
    host.ask("stop", job="a.1", grace=5, fence=1)
    ended = host.wait("a.1")
    assert (ended["reason"], ended["exit_code"]) == ("exited", 6)
    assert "files of the run are not in its record" in ended["message"]
    assert 500 < len(ended["files"]) < 3000
