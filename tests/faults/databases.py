"""Databases that can be struck: PostgreSQL killed outright, and SQLite on a disk that stops answering."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import time
from pathlib import Path

from tests.faults.world import World
from tests.postgres import PostgresServer

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN: from now on every access answers EIO
_WITHOUT_FLUSH = 2
_MB = 1 << 20


class KilledPostgres:
    """SIGKILL of the server and all its processes, then crash recovery."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def kill(self) -> None:
        self._server.kill()

    def restore(self) -> None:
        self._server.start()


class CutDisk:
    """An ext4 of its own on a loop device. Cut off, it loses what was not flushed, as when the power fails.

    SQLite is part of the server's process, so that restoring it means to start a new server.
    """

    def __init__(self, folder: Path) -> None:
        self._image = folder / "disk.img"
        self.mount = folder / "disk"
        self.world: World | None = None
        self.mount.mkdir()
        with open(self._image, "wb") as image:
            image.truncate(64 * _MB)
        _run("mkfs.ext4", "-q", "-F", self._image)
        self._attach()

    @property
    def url(self) -> str:
        return f"sqlite:///{self.mount}/db.sqlite"

    def kill(self) -> None:
        where = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(where, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSH))
        finally:
            os.close(where)

    def restore(self) -> None:
        assert self.world is not None
        self.world.kill_server()
        self.detach()
        self._attach()
        self.world.start_server()

    def detach(self) -> None:
        for _ in range(300):  # who was killed may hold it for a moment
            if subprocess.run(["umount", self.mount], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.1)
        _run("umount", self.mount)

    def _attach(self) -> None:
        # By a loop device of its own: namespaces that were made meanwhile have the last one mounted still, and cut off.
        device = _run("losetup", "--find", "--show", self._image)
        try:
            _run("mount", device, self.mount)
        finally:
            _run("losetup", "--detach", device)  # as soon as nobody uses it


def _run(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout.strip()
