"""The package of this folder, installed as users install one: its kinds are found by their entry points."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed in; on PYTHONPATH, a Python has it."""
    folder = tmp_path_factory.mktemp("farm")
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(HERE)]
    subprocess.run(command, check=True)
    return folder
