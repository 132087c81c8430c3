"""A sample of the crash matrix, for every change; `make test-faults` runs all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cells import SAMPLE, Cell
from tests.faults.strike import strike
from tests.faults.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    world = World(tmp_path / "home", ledger)
    try:
        yield world
    finally:
        world.close()


@pytest.mark.parametrize("cell", SAMPLE, ids=str)
def test_nothing_is_lost_or_invented(world: World, cell: Cell) -> None:
    strike(world, cell, database=None)
