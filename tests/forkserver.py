"""Start Python programs from a process that has imported their modules: a server takes 0.1 s of CPU so, instead of 0.7.

`make test` starts hundreds of servers and commands. Each worker has one fork server per program (`python -m
tests.forkserver PROGRAM`), which ends with the worker. `make test-all` starts the real command lines.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_MESSAGE = 1 << 20
_PID_BYTES = 10
# Read by the interpreter or the dynamic linker when a process starts: a fork comes too late for them.
_AT_START = ("LANG", "LC_", "LD_", "PYTHON")


class Child:
    """A forked process, with the methods of subprocess.Popen that tests use."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            code = os.read(self._status, 64)
            os.close(self._status)
            assert code, "the fork server is gone"
            self.returncode = int(code)
        return self.returncode


class ForkServer:
    """The fork server of one program."""

    def __init__(self, program: str) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forkserver", program], cwd=ROOT, stdin=there.fileno()
            )
        self._process.returncode = 0  # it ends with the socket; nothing waits for it
        self._socket = here
        atexit.register(here.close)

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, files: Sequence[int], session: bool
    ) -> Child:
        """Run the program with these descriptors as standard input, output and error, in a new session if asked."""
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "cwd": str(cwd),
            "session": session,
        }
        status, far_status = os.pipe()
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [*files, far_status])
        finally:
            os.close(far_status)
        return Child(int(os.read(status, _PID_BYTES)), status)


@functools.cache
def fork_server(program: str) -> ForkServer:
    return ForkServer(program)


def can_serve(environment: Mapping[str, str]) -> bool:
    """Whether a forked process is the same as one started with these variables."""

    def early(variables: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items() if name.startswith(_AT_START)}

    return early(environment) == early(os.environ)


Program = Callable[[list[str]], int]


def _server() -> Program:
    for name in ("sqlite", "postgresql.psycopg"):
        importlib.import_module(f"sqlalchemy.dialects.{name}")
    from windlass.server.main import main

    return main


def _command() -> Program:
    for name in ("click", "windlass.cli.root", "windlass.cli.submit.options", "windlass.cli.submit.watch"):
        importlib.import_module(name)
    from windlass.cli import main

    return main


PROGRAMS: dict[str, Callable[[], Program]] = {"windlass.server": _server, "windlass": _command}


def main() -> None:
    gc.disable()
    program = PROGRAMS[sys.argv[1]]()
    gc.freeze()
    arguments = _serve()
    if arguments is not None:
        gc.enable()
        sys.exit(program(arguments))


def _serve() -> list[str] | None:
    """Fork for each request; return the program's arguments in the child, None in the fork server when it ends."""
    requests = socket.socket(fileno=0)
    wakeup, far_wakeup = os.pipe()
    os.set_blocking(far_wakeup, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(far_wakeup)
    statuses: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([0, wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 4096)
            _report(statuses)
        if 0 not in ready:
            continue
        message, files, _, _ = socket.recv_fds(requests, _MESSAGE, 4)
        if not message:
            for pid in statuses:  # of a worker that was killed
                os.kill(pid, signal.SIGTERM)
            return None
        *standard, status = files
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (wakeup, far_wakeup, status, *statuses.values()):
                os.close(fd)
            requests.detach()
            return _become(json.loads(message), standard)
        os.write(status, b"%*d" % (_PID_BYTES, pid))
        for fd in standard:
            os.close(fd)
        statuses[pid] = status


def _report(statuses: dict[int, int]) -> None:
    """Write the exit codes of the children that ended, as subprocess gives them."""
    for pid in list(statuses):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with contextlib.suppress(BrokenPipeError):
                os.write(statuses[pid], b"%d" % os.waitstatus_to_exitcode(status))
            os.close(statuses.pop(pid))


def _become(request: dict[str, Any], standard: Sequence[int]) -> list[str]:
    """In the child: take over the program's session, descriptors, folder and variables."""
    if request["session"]:
        os.setsid()
    for number, fd in enumerate(standard):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    failpoints = sys.modules.get("windlass.failpoints")
    if failpoints is not None:
        failpoints.__dict__["FOLDER"] = os.environ.get("WINDLASS_FAILPOINTS", "")
    arguments: list[str] = request["arguments"]
    return arguments


if __name__ == "__main__":
    main()
