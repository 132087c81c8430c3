"""The wheel: it has the built studio, so that installing it needs no Node."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from windlass.server.web.studio import BUILT

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_wheel_serves_the_studio(tmp_path: Path) -> None:
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "build", "--quiet", "--wheel", "--out-dir", str(tmp_path)], cwd=ROOT, check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    studio = tmp_path / "installed" / "windlass" / "server" / "web" / "studio"
    names = {path.relative_to(studio) for path in studio.rglob("*") if path.is_file()}
    assert names == {path.relative_to(BUILT) for path in BUILT.rglob("*") if path.is_file()}
    assert not [name for name in names if name.suffix == ".map"]
    show = (
        "from windlass.server.web.studio import Studio, BUILT; from windlass.server.http.threads import RequestThreads;"
        "from starlette.datastructures import Headers; threads = RequestThreads(); print(BUILT);"
        "print(Studio('', threads)._respond('/workspaces/default', Headers()).body.decode()); threads.close()"
    )
    command = [sys.executable, "-c", show]
    served = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "installed"), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert str(studio) in served.stdout, served.stderr
    assert '<div id="root">' in served.stdout and "./assets/" in served.stdout
