"""A private server with a Docker engine, a project, and a terminal in it where the documents' lines are typed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.shell import Result, Shell, Terminal, using
from tests.engines.dockerd import Dockerd
from tests.engines.images import PYTHON
from tests.hosts.host import Host
from tests.hosts.network import Network
from tests.seeds.items import ITEMS
from windlass import Workspace, compat


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory, dockerd: Dockerd) -> Iterator[Shell]:
    """The command, and a server whose engine has the image that containers are made from by default."""
    dockerd.docker("tag", PYTHON, "python:3.11-slim")
    dockerd.let_in_everybody()
    with using(tmp_path_factory.mktemp("seeds") / "home") as found:
        found.start_server(DOCKER_HOST=dockerd.address)
        yield found


@pytest.fixture
def shell(started: Shell) -> Iterator[Shell]:
    """The command; targets that a test attaches are detached at its end."""
    yield started
    for target in started("compute", "list", "--json").json["targets"]:
        if target["attached_by"]:
            started("compute", "detach", "--force", target["name"])


@pytest.fixture
def machine(network: Network, dockerd: Dockerd) -> Host:
    """A machine that is reached by SSH, with Docker."""
    return network.host("remotevm", environment={"DOCKER_HOST": dockerd.address})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "myscript.py").write_text("print('trained')\n")
    return folder


@dataclass(frozen=True)
class Bench:
    """A terminal in a project, where the documents' command lines are typed."""

    shell: Shell
    project: Path

    def run(self, at: str, *more: str, **facts: str) -> Result:
        """Run a command of the table as a script does."""
        return self.shell(*self._words(at, facts), *more, cwd=self.project)

    def confirm(self, at: str, **facts: str) -> Result:
        """Run a command of the table at a terminal, and say yes to the machine's host key."""
        terminal = Terminal(self.shell, *self._words(at, facts), cwd=self.project)
        terminal.wait_for("Is that the machine?")
        terminal.press("y\n")
        return Result(terminal.end(), terminal.text, "")

    def submit(self, configuration: str) -> Result:
        """Run the project's script by another run configuration than those that the documents name."""
        return self.shell("az", "ml", "experiment", "submit", "-c", configuration, "myscript.py", cwd=self.project)

    def _words(self, at: str, facts: dict[str, str]) -> list[str]:
        return shlex.split(ITEMS[at].text(**facts))


@pytest.fixture
def bench(shell: Shell, project: Path) -> Bench:
    return Bench(shell, project)


@pytest.fixture
def ws(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The workspace `ws` of the snippets, which run in the project's folder."""
    for name in [name for name in os.environ if name.startswith(("WINDLASS_", "AZUREML_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WINDLASS_HOME", str(shell.home))
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(Path(compat.__file__).parent))  # where `azureml` is
    return Workspace.from_config()


@pytest.fixture
def kinds(ws: Workspace) -> set[str]:
    """The kinds of targets that the server has."""
    return {each["kind"] for each in ws._session.call("GET", f"{ws._path}/kinds")["kinds"]}
