"""Virtual environments as people have them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from windlass.runner.environments import interpreters


def make_venv(folder: Path, python: str, *options: str) -> Path:
    subprocess.run([python, "-m", "venv", *options, str(folder)], check=True)
    return folder


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment with nothing in it."""
    return make_venv(tmp_path / "venv", sys.executable, "--without-pip")


@pytest.fixture
def old_venv(tmp_path: Path) -> Path:
    """The same, of the oldest Python on this machine that the SDK supports."""
    return make_venv(tmp_path / "old venv", interpreters.nearest("3.8").path, "--without-pip")


@pytest.fixture(scope="session")
def pip_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip. A test that uses it leaves it as it was."""
    return make_venv(tmp_path_factory.mktemp("pip") / "venv", sys.executable)
