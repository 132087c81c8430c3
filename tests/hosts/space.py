"""The namespaces of a host (or of the hub): made by its first process, which does what it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.hosts.mounts import Mount

_PROGRAM = Path(__file__).with_name("init.py")


class Space:
    """It lasts as long as its first process, whose number here is `pid`."""

    def __init__(self, name: str, mounts: list[Mount], daemon: list[str], removes: Path | None = None) -> None:
        argv = [sys.executable, "-I", "-S", str(_PROGRAM)]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        wanted = {"name": name, "mounts": mounts, "daemon": daemon, "removes": str(removes or "")}
        self.pid = int(self._ask(json.dumps(wanted)))

    def do(self, command: str) -> None:
        assert self._ask(command) == "done"

    def end(self) -> None:
        self._process.communicate(timeout=90)

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        assert self._process.stdout is not None
        heard = self._process.stdout.readline().strip()
        assert heard, "the host could not be made: its words are above"
        return heard
