"""Calling the command as people do: as a process, in a pipe or at a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests import forkserver, sampling, server_process

# As the installed script does it, but of this interpreter and this source tree.
COMMAND = [sys.executable, "-c", "import sys; from windlass.cli import main; sys.exit(main())"]
PATIENCE_SECONDS = 60


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def _forked(arguments: tuple[str, ...], cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a fork of a process that has imported it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull, "rb") as nothing:
        files = nothing.fileno(), out.fileno(), err.fileno()
        child = forkserver.fork_server("windlass").start(arguments, environment, cwd, files, session=False)
        try:
            code = child.wait(PATIENCE_SECONDS)
        finally:
            child.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([*COMMAND, *arguments], code, out.read(), err.read())


class Shell:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.server: server_process.Process | None = None  # kept: Python warns of a process object that is dropped

    def environment(self, **changes: str | None) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("WINDLASS_", "VIRTUAL_ENV", "CONDA_"))}
        found: dict[str, str | None] = {**kept, "WINDLASS_HOME": str(self.home), "COLUMNS": "80", **changes}
        return {key: value for key, value in found.items() if value is not None}

    def raw(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: dict[str, str | None] | None = None,
        stdin: Any = subprocess.DEVNULL,
        preexec: Callable[[], None] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        environment, cwd = self.environment(**(env or {})), cwd or self.home.parent
        if sampling.IS_ON and preexec is None and stdin == subprocess.DEVNULL and forkserver.can_serve(environment):
            return _forked(arguments, cwd, environment)
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=cwd,
            env=environment,
            stdin=stdin,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            preexec_fn=preexec,
        )

    def __call__(self, *arguments: str, **more: Any) -> Result:
        done = self.raw(*arguments, **more)
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start_server(self, **changes: str | None) -> None:
        """Start the server of this home, without the command `server start`, which costs a second."""
        self.server = server_process.start(self.home, self.environment(**changes))

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self("server", "status", "--json").json
        return found

    def submit(self, folder: Path, script: str, *options: str) -> dict[str, Any]:
        """Write a script, run it to its end, and return the run."""
        (folder / "train.py").write_text(script)
        found: dict[str, Any] = self("submit", "--json", *options, "train.py", cwd=folder).json
        return found


class Terminal:
    """The command at a terminal of 80 columns."""

    def __init__(
        self,
        shell: Shell,
        *arguments: str,
        cwd: Path,
        env: dict[str, str | None] | None = None,
        command: list[str] = COMMAND,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        changes: dict[str, str | None] = {"TERM": "xterm-256color", "COLUMNS": None, **(env or {})}
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=cwd,
            env=shell.environment(**changes),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until a text was shown."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} was never shown: {self.seen!r}"
            assert self._read(), f"{text!r} was never shown: {self.seen!r}"

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> int:
        """Read the rest and return the exit code."""
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(PATIENCE_SECONDS)

    @property
    def text(self) -> str:
        """What was shown, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.seen).replace("\r\n", "\n")

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], PATIENCE_SECONDS)
        assert ready, f"nothing more was shown: {self.seen!r}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)


@contextlib.contextmanager
def using(home: Path) -> Iterator[Shell]:
    """The command with this home, whose server is ended afterwards, by its own id."""
    shell = Shell(home)
    try:
        yield shell
    finally:
        server_process.stop(home)
        if shell.server is not None:
            shell.server.wait(PATIENCE_SECONDS)
