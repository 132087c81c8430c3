from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from .pipe import RUNNER, Host, is_alive, start_time


class Hosts(Protocol):
    def __call__(self, **more: str | Path | dict[str, str] | tuple[str, ...]) -> Host: ...


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A machine's folder. Whatever its runs left alive is ended, by its own number and starting time."""
    folder = tmp_path / "machine"
    yield folder
    for name in ("process.json", "supervisor.json"):
        for path in folder.glob(f"runs/*/claim/{name}"):
            written = json.loads(path.read_text())
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended by itself
                if is_alive(written["pid"]) and start_time(written["pid"]) == written["starttime"]:
                    os.kill(written["pid"], signal.SIGKILL)


@pytest.fixture
def hosts(root: Path) -> Iterator[Hosts]:
    """Makes hosts of one machine."""
    made: list[Host] = []

    def make(**more: str | Path | dict[str, str] | tuple[str, ...]) -> Host:
        made.append(Host(root, **{"program": RUNNER, **more}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for host in made:
        host.end()


@pytest.fixture
def host(hosts: Hosts) -> Host:
    return hosts()
