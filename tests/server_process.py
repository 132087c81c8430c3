"""Start `python -m windlass.server` for a test: by a fork in `make test`, as a new process in the full suites."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import forkserver, sampling
from tests.forkserver import Child

START_SECONDS = 180
STOP_SECONDS = 20
Process = subprocess.Popen[bytes] | Child


def start(home: Path, environment: Mapping[str, str], wrapper: Sequence[str] = ()) -> Process:
    """Return when the server has published its address. `wrapper` are words before its command."""
    home.mkdir(mode=0o700, exist_ok=True)
    address = home / "server.json"
    address.unlink(missing_ok=True)
    arguments = ["--home", str(home)]
    with open(home / "server.log", "ab") as log, open(os.devnull, "rb") as nothing:
        if sampling.IS_ON and not wrapper and forkserver.can_serve(environment):
            files = nothing.fileno(), log.fileno(), log.fileno()
            server: Process = forkserver.fork_server("windlass.server").start(
                arguments, environment, Path.cwd(), files, session=True
            )
        else:
            server = subprocess.Popen(
                [*wrapper, sys.executable, "-m", "windlass.server", *arguments],
                env=environment,
                stdin=nothing,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    deadline = time.monotonic() + START_SECONDS
    while not address.exists() and server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    if server.poll() is None and not address.exists():
        server.kill()
    assert address.exists(), (home / "server.log").read_text()[-2000:]
    return server


def stop(home: Path) -> None:
    """End the server of a home, if it has one, by its own id."""
    try:
        pid = json.loads((home / "server.json").read_text())["pid"]
        process = os.pidfd_open(pid)
    except (OSError, ValueError):
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], STOP_SECONDS)[0]:
            signal.pidfd_send_signal(process, signal.SIGKILL)
    finally:
        os.close(process)
