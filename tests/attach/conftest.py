"""A private server and real machines: what people do, from the terminal and from Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell, using


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with using(tmp_path_factory.mktemp("attach") / "home") as found:
        found.start_server()
        yield found


@pytest.fixture
def shell(started: Shell) -> Iterator[Shell]:
    """The command, without targets at the beginning and at the end."""
    yield started
    for target in started("compute", "list", "--json").json["targets"]:
        if target["attached_by"]:
            started("compute", "detach", "--force", target["name"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("import os, sys\nprint('hello from', os.uname().nodename, sys.argv[1:])\n")
    return folder
