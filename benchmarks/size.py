"""Benchmark of the size of an installation."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rounds import Effort
from benchmarks.row import Row, at_most

PROJECT = Path(__file__).parent.parent
IMPORT_ALONE = "import windlass; windlass.Workspace, windlass.Experiment, windlass.ScriptRunConfig, windlass.Run"


def installed(effort: Effort) -> Iterator[Row]:
    """The package and what it needs, in a fresh environment without uv, py-rattler and database drivers."""
    with tempfile.TemporaryDirectory() as folder:
        python = _install(Path(folder, "venv"))
        packages = next(Path(folder, "venv", "lib").glob("python*/site-packages"))
        count = len(list(packages.glob("*.dist-info")))
        size, blocks = _mb(packages)
        note = f"The sizes of all files, compiled as pip does; {blocks:.0f} MB in whole blocks of the disk."
        yield Row("installed", size, "MB", None, "", at_most(60), note)
        yield Row("packages, ourselves included", count, "", None, "", at_most(25))
        yield Row("packages that the SDK needs beside itself", _needed_by_client(python), "", None, "", at_most(0))


def _install(folder: Path) -> str:
    python = str(folder / "bin" / "python")
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    subprocess.run(
        [*uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, str(PROJECT)], check=True
    )
    return python


def _mb(folder: Path) -> tuple[float, float]:
    """The sizes of all files, and the blocks that they take on this disk."""
    found = [os.lstat(os.path.join(root, name)) for root, _, names in os.walk(folder) for name in names]
    return sum(file.st_size for file in found) / 2**20, sum(file.st_blocks for file in found) * 512 / 2**20


def _needed_by_client(python: str) -> float:
    """0 if the SDK imports where nothing else can be found; otherwise it raises with what was missing."""
    source = str(PROJECT / "src")
    code = f"import sys; sys.path.insert(0, {source!r}); {IMPORT_ALONE}"
    subprocess.run([python, "-I", "-S", "-c", code], check=True)
    return 0


MEASURES = (installed,)
