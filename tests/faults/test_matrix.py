"""The whole crash matrix of this machine, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cells import LOCAL, Cell
from tests.faults.databases import CutDisk, KilledPostgres
from tests.faults.strike import strike
from tests.faults.world import World
from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CutDisk]:
    disk = CutDisk(tmp_path)
    try:
        yield disk
    finally:
        disk.detach()


@pytest.mark.parametrize("cell", [cell for cell in LOCAL.cells if cell.victim != "K7"], ids=str)
def test_on_sqlite(world: World, cell: Cell) -> None:
    strike(world, cell, database=None)


@pytest.mark.parametrize("cell", [cell for cell in LOCAL.cells if cell.victim == "K7"], ids=str)
def test_on_sqlite_whose_disk_is_cut_off(disk: CutDisk, world: World, cell: Cell) -> None:
    world.database, disk.world = disk.url, world
    try:
        strike(world, cell, disk)
    finally:
        world.close()  # before the disk is taken away


@pytest.mark.parametrize("cell", [cell for cell in LOCAL.cells if cell.victim != "K7"], ids=str)
def test_on_postgresql(world: World, postgres_url: str, cell: Cell) -> None:
    world.database = postgres_url
    world.files = world.home.with_name("files")
    strike(world, cell, database=None, with_rival=cell.victim == "K9")


@pytest.mark.parametrize("cell", [cell for cell in LOCAL.cells if cell.victim == "K7"], ids=str)
def test_on_postgresql_that_is_killed(world: World, own_postgres: PostgresServer, cell: Cell) -> None:
    world.database = own_postgres.url()
    strike(world, cell, KilledPostgres(own_postgres))
