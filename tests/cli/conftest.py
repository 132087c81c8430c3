"""A server of our own for the commands, stopped by its own pid."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The command with a home of its own and a running server."""
    folder = tmp_path_factory.mktemp("cli")
    found = Shell(folder / "home")
    assert found("server", "start").code == 0
    try:
        yield found
    finally:
        stop(found)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Shell]:
    """The command with a home of its own, which nobody has used yet."""
    found = Shell(tmp_path / "fresh home")
    try:
        yield found
    finally:
        stop(found)


def stop(shell: Shell) -> None:
    status = shell.status()
    shell("server", "stop")
    if status["running"]:
        try:
            os.kill(status["pid"], signal.SIGKILL)
        except ProcessLookupError:
            pass


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder to submit from."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
