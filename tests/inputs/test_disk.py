"""A real disk of a few megabytes that fills up, below the home, below a download, and by a script's own doing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell, using
from tests.disks import fill, may_mount, small_disk
from tests.faults.world import is_alive, wait_for
from tests.inputs.command import complains

# Else nothing is taken in long before a disk as small as this is full.
NO_RESERVE: dict[str, str | None] = {"WINDLASS_DISK_RESERVE_BYTES": "0"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path | None]:
    """None where disks can be mounted by the administrator only, and we are somebody else."""
    if not may_mount():
        yield None
        return
    with small_disk(tmp_path, 16) as disk:
        yield disk


def test_a_home_on_a_disk_that_is_too_small(disk: Path | None, folder: Path) -> None:
    if disk is None:
        return
    (folder / "train.py").write_text("print('never')")
    with using(disk / "home") as shell:
        complains(shell("submit", "train.py", cwd=folder), 125, "nearly full", str(shell.home), "windlass gc")
        assert shell("runs").code == 0
    fill(disk)
    with using(disk / "other") as shell:
        complains(shell("runs", env=NO_RESERVE), 5, "disk is full", str(shell.home))
        complains(shell("submit", "train.py", cwd=folder, env=NO_RESERVE), 125, "disk is full")
        complains(shell("server", "run", env=NO_RESERVE), 125, "disk is full", str(shell.home))


def test_a_disk_that_fills_up_meanwhile(disk: Path | None, folder: Path) -> None:
    """Nothing is lost, what is there can be read, and when there is room again nobody has to start anything anew."""
    if disk is None:
        return
    (folder / "train.py").write_text("open('outputs/model', 'wb').write(bytes(100_000)); print('fine')")
    with using(disk / "home") as shell:
        assert shell("submit", "train.py", cwd=folder, env=NO_RESERVE).out == "fine\n"
        machine = shell.home / "machine"
        wait_for("its folder to go, which makes room", lambda: not [*machine.glob("runs/*"), *machine.glob("trash/*")])
        filler = fill(disk)
        complains(shell("submit", "train.py", cwd=folder), 125, "is full", "Free some space")
        (folder / "more.bin").write_bytes(bytes(range(256)) * 1000)
        complains(shell("submit", "train.py", cwd=folder), 125, "is full", "Free some space")
        assert "Completed" in shell("runs").out
        fill(disk)  # some of it has been freed since
        complains(shell("download", "@last", "--output", str(disk / "here")), 8, "No space left on device")
        filler.unlink()
        assert shell("submit", "train.py", cwd=folder).out == "fine\n"
        assert "Traceback" not in (shell.home / "server.log").read_text()


FILLER = """
import os
os.write(1, b"begun\\n")
with open("outputs/big", "wb", buffering=0) as file:
    while True:
        file.write(bytes(65536))
"""


def test_c23_a_script_that_fills_the_disk_of_its_server(disk: Path | None, folder: Path) -> None:
    """How it ended is not known to the record before there is room for it; then it is the truth."""
    if disk is None:
        return
    (folder / "fill.py").write_text(FILLER)
    with using(disk / "home") as shell:
        assert shell("runs", env=NO_RESERVE).code == 0
        filler = disk / "filler"
        filler.write_bytes(bytes(10 << 20))
        run_id = shell("submit", "--detach", "fill.py", cwd=folder).out.strip()
        process = shell.home / "machine" / "runs" / f"{run_id}.1" / "claim" / "process.json"
        wait_for("the script", process.exists)
        pid = int(json.loads(process.read_text())["pid"])
        wait_for("its end", lambda: not is_alive(pid))
        filler.unlink()
        run = wait_for("word of it", lambda: _ended(shell, run_id))
        assert (run["state"], run["exit_code"]) == ("Failed", 1)
        assert "Traceback" not in (shell.home / "server.log").read_text()


LOGS = """
import os, sys
for number in range(6):
    with open(f"logs/l{number}.txt", "wb") as file:
        file.truncate(900 << 20)
sys.exit(6)
"""
SMALL_RESERVE: dict[str, str | None] = {
    "WINDLASS_DISK_RESERVE_BYTES": str(4 << 20),
    "WINDLASS_LOG_CAP_BYTES": str(8 << 20),
}


def test_logs_that_fill_the_disk_of_the_server(disk: Path | None, folder: Path) -> None:
    """The run ends with its exit code and says what is missing, the reserve stays free, and others are submitted."""
    if disk is None:
        return
    subprocess.run(["mount", "-o", "remount,size=40m", disk], check=True, timeout=60)
    (folder / "logs").mkdir()
    (folder / "logs" / "readme").write_text("a folder that is there when the script begins")
    (folder / "fill.py").write_text(LOGS)
    (folder / "train.py").write_text("print('fine')")
    with using(disk / "home") as shell:
        assert shell("runs", env=SMALL_RESERVE).code == 0
        run_id = shell("submit", "--detach", "fill.py", cwd=folder).out.strip()
        run = wait_for("its end", lambda: _ended(shell, run_id), 120)
        assert (run["state"], run["exit_code"]) == ("Failed", 6)
        assert "nearly full" in str(run["message"])
        assert shutil.disk_usage(disk).free > 4 << 20
        assert "log capped" in shell("events", run_id).out
        assert shell("submit", "train.py", cwd=folder).out == "fine\n"
        assert shell("gc").code == 0


def test_a_run_is_canceled_on_a_full_disk(disk: Path | None, folder: Path) -> None:
    """Something else has filled the disk to its last byte."""
    if disk is None:
        return
    subprocess.run(["mount", "-o", "remount,size=40m", disk], check=True, timeout=60)
    (folder / "wait.py").write_text("import time; print('up', flush=True); time.sleep(600)")
    with using(disk / "home") as shell:
        assert shell("runs", env={"WINDLASS_DISK_RESERVE_BYTES": str(16 << 20)}).code == 0
        run_id = shell("submit", "--detach", "wait.py", cwd=folder).out.strip()
        wait_for("it to run", lambda: shell("show", "--json", run_id).json["state"] == "Running")
        wait_for("the ballast", lambda: (shell.home / "windlass.sqlite.ballast").exists())
        fill(disk)
        complains(shell("submit", "wait.py", cwd=folder), 125, "nearly full")
        assert shell("cancel", run_id).code == 0
        run = wait_for("its end", lambda: _ended(shell, run_id))
        assert run["state"] == "Canceled"
        assert shell("gc").code == 0


def _ended(shell: Shell, run_id: str) -> dict[str, object] | None:
    run: dict[str, object] = shell("show", "--json", run_id).json
    return run if run["state"] in ("Failed", "Completed", "Canceled") else None
