"""A server and a kind whose jobs an engine starts on another machine. The engine is a stand-in (stand_in_engine.py)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.contract.stand_in_driver import AttachedDriver
from tests.contract.stand_in_engine import EngineProcess
from windlass.testing import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, time
from windlass import Run
run = Run.get_context()
print("first", flush=True)
while not os.path.exists(os.environ["GO"]): time.sleep(0.01)
run.log("loss", 0.5)
os.makedirs("outputs", exist_ok=True)
open("outputs/model.txt", "w").write("kept")
print("last", flush=True)
raise SystemExit(3)
"""


class EngineShell(Shell):
    """The command where the kind of the stand-in engine is installed; its server has it too."""

    def __init__(self, home: Path, packages: Path) -> None:
        super().__init__(home)
        self._packages = packages

    def environment(self, **changes: str | None) -> dict[str, str]:
        return super().environment(**{"PYTHONPATH": f"{self._packages}:{REPOSITORY}", **changes})


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[EngineShell]:
    package = tmp_path / "packages" / "stand_in-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: stand-in\nVersion: 1.0\n")
    entry = f"{AttachedDriver.kind} = tests.contract.stand_in_driver:AttachedDriver"
    (package / "entry_points.txt").write_text(f"[windlass.drivers]\n{entry}\n")
    made = EngineShell(tmp_path / "home", package.parent)
    yield made
    made("server", "stop")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    made = EngineProcess(tmp_path / "engine")
    yield made
    made.close()


def test_a_run_outlives_its_server_and_keeps_its_record(
    shell: EngineShell, engine: EngineProcess, tmp_path: Path
) -> None:
    folders = ("--queue", str(engine.folder), "--root", str(tmp_path / "shared"))
    attached = shell("compute", "attach", AttachedDriver.kind, "queue", *folders)
    assert attached.code == 0, attached.err
    project, go = tmp_path / "project", tmp_path / "go"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT)
    options = ("--target", "queue", "--env", f"GO={go}", "--detach", "--json")
    submitted: dict[str, Any] = shell("submit", *options, "train.py", cwd=project).json
    run = submitted["id"]
    wait_until(lambda: "first" in shell("logs", run).out, "the script runs")
    os.kill(shell.status()["pid"], signal.SIGKILL)
    go.touch()
    shown = shell("logs", "--follow", run)
    assert shown.out.splitlines()[-2:] == ["first", "last"], shown
    record: dict[str, Any] = shell("show", "--json", run).json
    assert (record["state"], record["exit_code"], record["attempt"]) == ("Failed", 3, 1)
    assert shell("metrics", "--json", run).json
    assert "outputs/model.txt" in shell("files", run).out
    assert len(list((engine.folder / "queue").iterdir())) == 1
