"""One server on each database for all tests of this folder: each of them must leave it as well as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell, using
from tests.faults.world import World
from tests.inputs.outside import Outside
from tests.postgres import fresh_database


@pytest.fixture(scope="session")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    yield from running(tmp_path_factory.mktemp("inputs"), "sqlite")


@pytest.fixture(scope="session")
def on_postgresql(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Outside]:
    with fresh_database(postgres_server) as url:
        yield from running(tmp_path_factory.mktemp("inputs"), "postgresql", url)


def running(folder: Path, database: str, url: str | None = None) -> Iterator[Outside]:
    world = World(folder / "home", folder / "ledger", url)
    world.ledger.mkdir()
    try:
        world.start_server()
        outside = Outside(world, database)
        yield outside
        assert outside.run("print('still well')")["state"] == "Completed"
        outside.check_unharmed()
    finally:
        world.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> Iterator[Outside]:
    """For what the database has a say in."""
    outside: Outside = request.getfixturevalue(f"on_{request.param}")
    yield outside
    outside.check_unharmed()


@pytest.fixture
def sqlite(on_sqlite: Outside) -> Iterator[Outside]:
    """For what never comes as far as the database."""
    yield on_sqlite
    on_sqlite.check_unharmed()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to submit from."""
    found = tmp_path / "project"
    found.mkdir()
    return found


@pytest.fixture
def shell(sqlite: Outside) -> Shell:
    """The command with the home of the server."""
    return Shell(sqlite.home)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Shell]:
    """The command with a home of its own, which nobody has used yet."""
    with using(tmp_path / "fresh home") as found:
        yield found
