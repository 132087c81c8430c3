"""A package of others runs the laws of drivers for its kinds, with what Windlass ships for that."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests import sampling

HERE = Path(__file__).parent
# Where not all are run.
SOME = "test_05 or test_11 or test_13 or test_15 or test_18"


def test_kinds_of_another_package_obey_the_laws(farm: Path, tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(farm), "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
    chosen = ["-k", SOME] if sampling.IS_ON else []
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path), *chosen]
    command = [sys.executable, "-m", "pytest", *options, str(HERE / "suite.py")]
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"^\d+ passed", done.stdout.splitlines()[-1])


def test_the_package_imports_nothing_private() -> None:
    for path in HERE.rglob("windlass_farm/*.py"):
        for module, names in re.findall(r"^from (windlass[\w.]*) import (\([^)]*\)|.*)$", path.read_text(), re.M):
            assert not re.search(r"(^|[.\s(,])_", f"{module} {names}"), f"{path.name}: {module} {names}"
