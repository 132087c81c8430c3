"""A real private server in a home of its own, started by the SDK itself as a user's would be."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass import Experiment, Run, Workspace
from windlass.client.http import embedded_server
from windlass.client.metrics import metric_uploader

Project = Callable[..., str]


def own_files(run: Run) -> list[str]:
    """The run's files without the system's: a run that lasts long enough is sampled, a short one is not."""
    return [name for name in run.get_file_names() if not name.startswith("system_logs/")]


def stop(home: Path) -> None:
    """End the server of a home, by its own id. Not by a request: if that were repeated, it would start another."""
    server = embedded_server.read(str(home))
    if server is None or not embedded_server._is_server_of_user(server.pid):
        return
    os.kill(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + 15
    while embedded_server._is_server_of_user(server.pid):
        if time.monotonic() > deadline:
            os.kill(server.pid, signal.SIGKILL)
        time.sleep(0.01)


def own_home(folder: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("WINDLASS_", "AZUREML_"))]:
            patch.delenv(name)
        patch.setenv("WINDLASS_HOME", str(folder))
        patch.setenv("RATTLER_CACHE_DIR", str(folder.parent / "rattler-cache"))
        yield folder
        for left in list(
            metric_uploader._all
        ):  # a run that was not completed sends heartbeats, which start a server again
            left.close()
        stop(folder)


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from own_home(tmp_path_factory.mktemp("sdk") / "home")


@pytest.fixture
def lone_home(tmp_path: Path, shared_home: Path) -> Iterator[Path]:
    """A server that this test alone has, and may kill."""
    yield from own_home(tmp_path / "home")


@pytest.fixture
def ws(shared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Workspace.from_config()


@pytest.fixture
def exp(ws: Workspace) -> Experiment:
    return Experiment(ws, f"exp-{os.urandom(4).hex()}")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Make a source folder of files given by keyword; `train` stands for train.py. Returns its path."""

    def make(**files: str) -> str:
        folder = tmp_path / f"project-{os.urandom(2).hex()}"
        for name, text in files.items():
            path = folder / name if "." in name else folder / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(folder)

    return make
