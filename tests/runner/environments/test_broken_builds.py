"""A building that is broken off, at whatever step and by whatever: nothing of it is left, and the next run builds."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.channels import small_channel
from tests.wheels import make_wheel

from ..conftest import Hosts
from ..pipe import Host, is_alive, wait_for
from .test_environment import LOG, PLATFORM, UV, built, counting_uv, wheel
from .test_rattler import wishing

# Leaves a daemon running, and hangs beside it; once `go` is there, neither.
HANG = """
import os, sys, time
def note(name):
    with open(name + ".tmp", "w") as file:
        file.write(str(os.getpid()))
    os.rename(name + ".tmp", name)
os.chdir(sys.argv[1])
if not os.path.exists("go"):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        note("daemon")
        time.sleep(600)
    while not os.path.exists("daemon"):
        time.sleep(0.01)
    note("hanging")
    if sys.argv[2:] != ["on"]:
        time.sleep(600)
"""
BACKEND = """
import shutil, subprocess
def build_wheel(folder, settings=None, metadata=None):
    subprocess.check_call({hang!r})
    return shutil.copy({wheel!r}, folder).rpartition("/")[2]
"""


@dataclass
class Gate:
    """Where a building hangs until it is opened."""

    folder: Path
    python: str = sys.executable

    def words(self, *more: str) -> list[str]:
        (self.folder / "hang.py").write_text(HANG)
        return [self.python, str(self.folder / "hang.py"), str(self.folder), *more]

    def line(self, *more: str) -> str:
        return " ".join(self.words(*more))

    def wait(self) -> None:
        wait_for(lambda: self.is_reached, 60)

    @property
    def is_reached(self) -> bool:
        return (self.folder / "hanging").exists()

    def open(self) -> None:
        (self.folder / "go").touch()

    @property
    def left(self) -> list[int]:
        """Which of what it has started still live."""
        notes = (self.folder / name for name in ("hanging", "daemon"))
        pids = [int(note.read_text()) for note in notes if note.exists()]
        return [pid for pid in pids if is_alive(pid)]


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path)
    yield gate
    for pid in gate.left:
        os.kill(pid, signal.SIGKILL)


def make_sdist(folder: Path, name: str, version: str, gate: Gate) -> Path:
    """Sources whose building hangs, of what is in a wheel of the same name."""
    made = make_wheel(gate.folder / "made", name, version, scripts={"uv": "uv:main"}, body=CALLS_UV)
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n',
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "own.py": BACKEND.format(hang=gate.words(), wheel=str(made)),
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for at, text in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{at}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


CALLS_UV = f"import os, sys\nversion = '1.0'\ndef main(): os.execv({UV!r}, [{UV!r}, *sys.argv[1:]])\n"


def making_the_folder(gate: Gate) -> dict[str, Any]:
    return built(wheel(gate.folder, "tiny"), uv=counting_uv(gate.folder, f'[ "$1" = pip ] || {gate.line()}'))


def installing(gate: Gate) -> dict[str, Any]:
    return built(wheel(gate.folder, "tiny"), uv=counting_uv(gate.folder, f'[ "$1" = venv ] || {gate.line()}'))


def building_sources(gate: Gate) -> dict[str, Any]:
    return built(f"tiny @ file://{make_sdist(gate.folder, 'tiny', '1.0', gate)}")


def bringing_uv(gate: Gate) -> dict[str, Any]:
    make_sdist(gate.folder / "shelf", "uv", "1.0", gate)
    return built(wheel(gate.folder, "tiny"), uv=None)


def linking(gate: Gate) -> dict[str, Any]:
    slow = gate.folder / "slow"
    slow.write_text(f'#!/bin/sh\n{sys.executable} "$@" || exit 1\n{gate.line()}\n')
    slow.chmod(0o755)
    return wishing(small_channel(gate.folder / "channel"), "tinyconda", tools={"rattler": str(slow)})


def asking_fake_conda(gate: Gate) -> dict[str, Any]:
    """A stand-in that has half of it done."""
    path = gate.folder / "conda"
    make = f'{UV} venv --quiet --no-project --python {sys.executable} "$4" && mkdir "$4/conda-meta"'
    path.write_text(f"#!/bin/sh\n{make}\n{gate.line()}\n")
    path.chmod(0o755)
    return wishing(small_channel(gate.folder / "channel"), "tinyconda", tools={"conda": str(path)})


Step = Callable[[Gate], dict[str, Any]]


def each(*steps: Step) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("step", steps, ids=lambda step: step.__name__)


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """Programs that install, and find nothing but what the tests made. A uv is not among what is on the PATH."""
    caches = {name: str(tmp_path / name) for name in ("UV_CACHE_DIR", "RATTLER_CACHE_DIR", "PIP_CACHE_DIR")}
    shelf = {"PIP_FIND_LINKS": str(tmp_path / "shelf"), "PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}
    return {**caches, **shelf, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}


@pytest.fixture
def host(hosts: Hosts, offline: dict[str, str]) -> Host:
    return hosts(env=offline)


def left_in(folder: Path) -> list[str]:
    """What is there beside locks and logs."""
    return [path.name for path in folder.iterdir() if path.suffix not in (".lock", ".log")]


@each(making_the_folder, installing, building_sources, bringing_uv, linking, asking_fake_conda)
def test_stopped(host: Host, gate: Gate, step: Step) -> None:
    wishes = step(gate)
    host.start("a.1", ["{python}", "-c", "print('ran')"], **wishes)
    gate.wait()
    host.ask("stop", job="a.1", grace=0, fence=1)
    assert host.wait("a.1")["reason"] == "stopped"
    assert gate.left == []
    assert left_in(host.root / "environments") == left_in(host.root / "tools") == []
    gate.open()
    host.start("b.1", ["{python}", "-c", "print('ran')"], **wishes)
    assert host.wait("b.1", 60)["exit_code"] == 0, host.read("b.1", LOG)


@each(making_the_folder, installing, building_sources, linking, asking_fake_conda)
def test_killed_and_begun_anew(hosts: Hosts, offline: dict[str, str], gate: Gate, step: Step) -> None:
    """Supervisor and host."""
    first = hosts(env=offline)
    run = first.run_json("a.1", ["{python}", "-c", "print('ran')"], **step(gate))
    first.ask("start", run=run)
    gate.wait()
    first.kill()
    first.kill_supervisor("a.1")
    second = hosts(env=offline)
    wait_for(lambda: second.observe("a.1").get("startable"))
    gate.open()
    second.ask("start", run=run)
    assert second.wait("a.1", 60)["exit_code"] == 0, second.read("a.1", LOG)
    assert gate.left == []


@pytest.mark.parametrize("what", ["stop", "clean"])
def test_killed_and_then_not_wanted_any_more(host: Host, gate: Gate, what: str) -> None:
    host.start("a.1", ["{python}", "-c", "print('ran')"], **building_sources(gate))
    gate.wait()
    host.kill_supervisor("a.1")
    wait_for(lambda: host.observe("a.1").get("startable"))
    assert gate.left != [], "only what the supervisor has started itself dies with it"
    host.ask(what, job="a.1")
    if what == "stop":
        assert host.wait("a.1")["reason"] == "stopped"
    wait_for(lambda: gate.left == [])


@each(installing, building_sources)
def test_out_of_time(host: Host, gate: Gate, step: Step) -> None:
    host.start("a.1", ["{python}", "-c", "print('ran')"], **step(gate), build_limit=4)
    assert host.wait("a.1", 60)["reason"] == "environment_failed"  # on a slow machine before it hangs
    assert gate.left == []
    assert left_in(host.root / "environments") == []


def test_nothing_that_was_left_running_outlives_a_step_that_succeeds(host: Host, gate: Gate) -> None:
    """It could go on writing where scripts read by now."""
    uv = counting_uv(gate.folder, f'[ "$1" = venv ] || {gate.line("on")}')
    host.start("a.1", ["{python}", "-c", "import time; time.sleep(600)"], **built(wheel(gate.folder, "tiny"), uv=uv))
    host.wait_running("a.1")
    assert gate.left == []
    host.ask("stop", job="a.1", grace=0, fence=1)
    host.wait("a.1")


def test_of_ten_who_wait_one_takes_over_when_the_builder_is_stopped(host: Host, gate: Gate) -> None:
    wishes = installing(gate)
    host.start("builder.1", ["{python}", "-c", "import tiny"], **wishes)
    gate.wait()
    jobs = [f"w{number}.1" for number in range(10)]
    for job in jobs:
        host.start(job, ["{python}", "-c", "import tiny"], **wishes)
        wait_for(lambda: "preparing" in host.event_names(job))  # noqa: B023
    gate.open()
    host.ask("stop", job="builder.1", grace=0, fence=1)
    for job in jobs:
        assert host.wait(job, 60)["exit_code"] == 0, host.read(job, LOG)
    assert (gate.folder / "calls").read_text().split() == ["venv", "pip"] * 2
    assert gate.left == []


def test_who_may_wait_longer_takes_over_from_one_that_is_out_of_time(host: Host, gate: Gate) -> None:
    """Two servers with different settings may have the same machine."""
    wishes = installing(gate)
    host.start("short.1", ["{python}", "-c", "import tiny"], **wishes, build_limit=4)
    wait_for(lambda: gate.is_reached or host.observe("short.1")["phase"] == "ended", 60)
    gate.open()  # for who comes next: the first one hangs already
    host.start("long.1", ["{python}", "-c", "import tiny"], **wishes, build_limit=600)
    assert "not ready within 0.00111 h" in host.wait("short.1", 60)["message"]
    assert host.wait("long.1", 60)["exit_code"] == 0, host.read("long.1", LOG)


def test_who_may_wait_shorter_gives_up_and_leaves_the_builder_to_it(host: Host, gate: Gate) -> None:
    wishes = installing(gate)
    host.start("builder.1", ["{python}", "-c", "import tiny"], **wishes)
    gate.wait()
    host.start("short.1", ["{python}", "-c", "import tiny"], **wishes, build_limit=1)
    assert "not ready within 0.000278 h" in host.wait("short.1")["message"]
    assert gate.left != [] and host.observe("builder.1")["stage"] == "Preparing"
    host.ask("stop", job="builder.1", grace=0, fence=1)
    assert host.wait("builder.1")["reason"] == "stopped"


@pytest.mark.slow
def test_a_uv_that_came_and_cannot_be_executed(host: Host, gate: Gate) -> None:
    """As after a power cut, or where it is for another system."""
    gate.open()
    good = f'#!/bin/sh\nexec {UV} "$@"\n'.encode()
    sent = {"digest": host.put(good), "size": len(good), "platform": PLATFORM}
    there = host.root / "tools" / f"uv-{str(sent['digest'])[:16]}"
    there.touch(0o700)
    bringing_uv(gate)
    for version in ("1.0", "2.0"):
        wishes = {**built(wheel(gate.folder, "tiny", version)), "tools": {"uv": sent}}
        host.start(f"{version}.1", ["{python}", "-c", "import tiny"], **wishes)
        assert host.wait(f"{version}.1", 60)["exit_code"] == 0, host.read(f"{version}.1", LOG)
    assert b"Getting uv for this machine" in host.read("1.0.1", LOG)
    assert there.read_bytes() == good, "it was unpacked anew"


def test_a_building_that_talks_without_end_is_broken_off(host: Host, gate: Gate) -> None:
    uv = counting_uv(
        gate.folder, f'[ "$1" = venv ] || {{ echo $$ > {gate.folder}/hanging; exec yes {"what " * 200}; }}'
    )
    host.start("a.1", ["{python}", "-c", "print('ran')"], **built(wheel(gate.folder, "tiny"), uv=uv))
    ended = host.wait("a.1", 60)
    assert (ended["reason"], host.read("a.1")) == ("environment_failed", b"")
    assert "printed more than 64 MB" in ended["message"]
    assert not is_alive(int((gate.folder / "hanging").read_text()))


@pytest.fixture
def small_disk(root: Path) -> Iterator[None]:
    """All that a machine has."""
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", root], check=True, timeout=60)
    yield
    subprocess.run(["umount", "--lazy", root], check=True, timeout=60)


@pytest.mark.usefixtures("small_disk")
def test_a_building_that_fills_the_disk_gives_it_back(host: Host, gate: Gate) -> None:
    fill = 'cat /dev/zero > "$(dirname "$4")/filler"; echo error: no room for this; exit 1'
    uv = counting_uv(gate.folder, f'[ "$1" = venv ] || {{ {gate.line("on")}; {fill}; }}')
    wishes = built(wheel(gate.folder, "tiny"), uv=uv)
    host.start("a.1", ["{python}", "-c", "print('ran')"], **wishes)
    ended = host.wait("a.1", 60)
    assert ended["reason"] == "environment_failed"
    assert "no room for this" in ended["message"]
    assert {Path(name).suffix for name in left_in(host.root / "environments")} == {".failed"}
    host.start("b.1", ["{python}", "-c", "print('ran')"])
    assert host.wait("b.1")["exit_code"] == 0


def test_who_takes_over_from_a_killed_builder_ends_what_it_left_running(host: Host, gate: Gate) -> None:
    wishes = building_sources(gate)
    host.start("builder.1", ["{python}", "-c", "import tiny"], **wishes)
    gate.wait()
    host.start("waiter.1", ["{python}", "-c", "import tiny"], **wishes)
    wait_for(lambda: "preparing" in host.event_names("waiter.1"))
    gate.open()
    host.kill_supervisor("builder.1")
    assert host.wait("waiter.1", 60)["exit_code"] == 0, host.read("waiter.1", LOG)
    assert gate.left == []
