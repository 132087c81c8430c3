"""A server of our own for the commands, stopped by its own pid."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell, using


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The command with a home of its own and a running server."""
    with using(tmp_path_factory.mktemp("cli") / "home") as found:
        found.start_server()
        yield found


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Shell]:
    """The command with a home of its own, which nobody has used yet."""
    with using(tmp_path / "fresh home") as found:
        yield found


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[int], None]:
    """Makes the captured standard output a terminal without colours, of the width that is asked for."""

    def make(width: int) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))

    return make


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder to submit from."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
