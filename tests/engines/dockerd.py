"""A real Docker engine for tests: in a folder of its own, with images made here, stopped by its own pid."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SECONDS = 180.0


class Dockerd:
    """An engine in a temporary folder. `start` and `kill` may follow each other any number of times.

    It has no bridge and leaves the machine's packet filter alone: containers of its default network have none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.address = f"unix://{self.socket}"

    @classmethod
    def make(cls) -> Dockerd:
        """A new one. It goes away when this process does, however that happens."""
        made = cls(Path(tempfile.mkdtemp(prefix="windlass-docker-")))
        assert made.hold()
        os.posix_spawn(sys.executable, [sys.executable, __file__, str(made.folder)], os.environ, setsid=True)
        return made

    def hold(self) -> bool:
        """Keep it from going away while this process lives; False if it is too late for that."""
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            self._lifeline = os.open(self.folder / "lifeline", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lifeline, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
        return False

    def let_go(self) -> None:
        os.close(self._lifeline)

    @property
    def pid(self) -> int:
        return int((self.folder / "pid").read_text())

    @property
    def is_up(self) -> bool:
        return self.docker("version", "--format", "{{.Server.Version}}", check=False).returncode == 0

    def start(self, *options: str, env: dict[str, str] | None = None) -> None:
        (self.folder / "pid").unlink(missing_ok=True)  # of one that was killed; its number may be another's by now
        argv = [
            "dockerd", "--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec",
            "--pidfile", f"{self.folder}/pid", "--host", self.address,
            "--iptables=false", "--ip6tables=false", "--bridge=none", *options,
        ]  # fmt: skip
        log = str(self.folder / "log.txt")
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        child = os.posix_spawnp("dockerd", argv, {**os.environ, **(env or {})}, file_actions=actions, setsid=True)
        deadline = time.monotonic() + _SECONDS
        while not self.is_up:
            words = Path(log).read_text(errors="replace")[-2000:]
            assert _is_alive(child) and time.monotonic() < deadline, words
            time.sleep(0.05)

    def kill(self) -> None:
        """As a crash does it: the engine is gone, what runs in containers goes on."""
        below = self.folder / "exec/containerd/containerd.pid"
        pids = [self.pid, int(below.read_text())]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._wait(pid)
        below.unlink()  # a dead one that nobody has buried yet still looks alive to the next engine

    def stop(self) -> None:
        """As a restart of the service does it: containers are ended."""
        pid = self.pid  # it removes the file on its way
        os.kill(pid, signal.SIGTERM)
        self._wait(pid)

    def _wait(self, pid: int) -> None:
        deadline = time.monotonic() + _SECONDS
        while _is_alive(pid):
            assert time.monotonic() < deadline, "the engine does not end"
            time.sleep(0.02)
        with contextlib.suppress(ChildProcessError):  # another process's
            os.waitpid(pid, 0)

    def docker(self, *argv: str, check: bool = True, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """The command line of Docker, which shares no code with ours."""
        done = subprocess.run(
            ["docker", *argv], env={**os.environ, "DOCKER_HOST": self.address}, input=stdin, capture_output=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
        out, err = done.stdout.decode(errors="replace").strip(), done.stderr.decode(errors="replace").strip()
        assert not check or done.returncode == 0, f"docker {' '.join(argv)}: {err}"
        return subprocess.CompletedProcess(argv, done.returncode, out, err)

    def containers(self, *filters: str) -> list[str]:
        """The names of all containers, the ended ones too."""
        options = [word for each in filters for word in ("--filter", each)]
        return self.docker("ps", "--all", "--format", "{{.Names}}", *options).stdout.split()

    def load(self, *references: str) -> None:
        """Images that tests know by name."""
        from tests.engines.images import PYTHON, busybox_tar, python_tar

        for reference in references:
            tar = python_tar() if reference == PYTHON else busybox_tar()
            self.docker("import", str(tar), reference)

    def let_in_everybody(self) -> None:
        """As if every account of this machine were in the group of those who may use it."""
        self.folder.chmod(0o711)
        self.socket.chmod(0o666)

    def remove(self) -> None:
        if (self.folder / "pid").exists() and _is_alive(self.pid):
            names = self.docker("ps", "--all", "--quiet", check=False).stdout.split()
            if names:
                self.docker("rm", "--force", "--volumes", *names, check=False)
            self.stop()
        else:
            _kill_left(self.folder)
        for point in reversed(_mounts_below(self.folder)):
            subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def shared_dockerd(folder: Path) -> Iterator[Dockerd]:
    """One engine for all processes that name the same folder."""
    from tests.engines.images import BUSYBOX, PYTHON

    with open(folder / "dockerd.json", "a+") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        note.seek(0)
        known = note.read()
        engine = Dockerd(Path(json.loads(known))) if known else Dockerd.make()
        if known and not engine.hold():
            engine, known = Dockerd.make(), ""
        if not known:
            engine.start()
            engine.load(PYTHON, BUSYBOX)
            note.truncate(0)
            note.write(json.dumps(str(engine.folder)))
    try:
        yield engine
    finally:
        engine.let_go()


def _kill_left(folder: Path) -> None:
    """What an engine that was killed has left: its shims, which name its folder, and the processes below them."""
    for shim in _naming(f"{folder}/exec/"):
        for pid in (*_children(shim), shim):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _naming(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _mounts_below(folder: Path) -> list[str]:
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]


def _bury(folder: Path) -> None:
    """Wait until nobody holds the engine in this folder, then remove it."""
    with open(folder / "lifeline", "rb") as lifeline:
        fcntl.flock(lifeline, fcntl.LOCK_EX)
        Dockerd(folder).remove()


if __name__ == "__main__":
    _bury(Path(sys.argv[1]))
