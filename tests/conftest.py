"""What tests of any folder may ask for: a database's address, machines that SSH reaches, a Docker engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import sampling

if TYPE_CHECKING:
    from tests.engines.dockerd import Dockerd
    from tests.hosts.network import Network
    from tests.postgres import PostgresServer


# Shells start what runs in the background deaf to Ctrl-C, and whatever the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# pyenv's shims are shell scripts, which cost more than the scripts that the tests start by them.
_PYTHONS = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if not folder.endswith("/shims")]
os.environ["PATH"] = os.pathsep.join([*_PYTHONS, str(Path(sys.executable).resolve().parent)])
# How long an example may take is no property of ours, and a machine may be busy.
settings.register_profile("windlass", deadline=None, print_blob=True)
settings.register_profile("sample", parent=settings.get_profile("windlass"), max_examples=sampling.EXAMPLES)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", action="store_true", help="a part of the long tables of inputs (tests/sampling.py)")


def pytest_configure(config: pytest.Config) -> None:
    sampling.IS_ON = bool(config.getoption("--sample"))
    settings.load_profile("sample" if sampling.IS_ON else "windlass")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if sampling.IS_ON:
        items[:], left_out = sampling.sample(items)
        config.hook.pytest_deselected(items=left_out)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        items[:] = sampling.busy_order(items, workers)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a PostgreSQL server that all tests of this session share, those of other workers too."""
    from tests.postgres import shared_server

    mine = tmp_path_factory.getbasetemp()
    with shared_server(mine.parent if hasattr(request.config, "workerinput") else mine) as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The address of a fresh PostgreSQL database."""
    from tests.postgres import fresh_database

    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server of this test alone, which it may kill and start again."""
    from tests.postgres import PostgresServer

    server = PostgresServer.make()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def dockerd(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Dockerd]:
    """A Docker engine with images that tests know, shared by all tests of this session, those of other workers too."""
    from tests.engines.dockerd import shared_dockerd

    mine = tmp_path_factory.getbasetemp()
    with shared_dockerd(mine.parent if hasattr(request.config, "workerinput") else mine) as engine:
        yield engine


@pytest.fixture(scope="session")
def killable_dockerd() -> Iterator[Dockerd]:
    """An engine of this worker's own, which its tests may kill as long as they start it again."""
    from tests.engines.dockerd import Dockerd
    from tests.engines.images import PYTHON

    engine = Dockerd.make()
    try:
        engine.start("--live-restore")
        engine.load(PYTHON)
        yield engine
    finally:
        engine.remove()


@pytest.fixture
def own_dockerd() -> Iterator[Dockerd]:
    """A running Docker engine of this test alone, which it may kill and start again. It has the small image only."""
    from tests.engines.dockerd import Dockerd
    from tests.engines.images import BUSYBOX

    engine = Dockerd.make()
    try:
        engine.start()
        engine.load(BUSYBOX)
        yield engine
    finally:
        engine.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh database of each kind."""
    from tests.databases import migrated_sqlite
    from tests.postgres import migrated_database

    if request.param == "sqlite":
        yield migrated_sqlite(tmp_path)
        return
    with migrated_database(request.getfixturevalue("postgres_server")) as url:
        yield url


@pytest.fixture(scope="session")
def host_network() -> Iterator[Network]:
    """Where hosts can be made that are reached by SSH."""
    from tests.hosts.network import Network

    with Network.made() as network:
        yield network


@pytest.fixture
def network(host_network: Network) -> Iterator[Network]:
    """The same, and the hosts that a test makes there go at its end."""
    yield host_network
    host_network.clear()


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the package of tests/plugin is installed as users do it: on PYTHONPATH, a Python has it."""
    folder = tmp_path_factory.mktemp("farm")
    package = Path(__file__).with_name("plugin")
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        str(package),
    ]
    subprocess.run(command, check=True)
    return folder
