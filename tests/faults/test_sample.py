"""A sample of the crash matrix, for every change; `make test-faults` runs all of it."""

from __future__ import annotations

import pytest

from tests.faults.cells import CELLS, IMPOSSIBLE, POINTS, SAMPLE, VICTIMS, Cell
from tests.faults.document import PAGE, render
from tests.faults.strike import strike
from tests.faults.world import World


@pytest.mark.parametrize("cell", SAMPLE, ids=str)
def test_nothing_is_lost_or_invented(world: World, cell: Cell) -> None:
    strike(world, cell, database=None)


def test_the_grid_is_whole() -> None:
    """Every cell is either run or has its reason, and the sample is of them."""
    assert len(CELLS) + len(IMPOSSIBLE) == len(POINTS) * len(VICTIMS)
    assert len(CELLS) >= 100
    assert set(SAMPLE) <= set(CELLS)


def test_the_page_shows_the_grid() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "python -m tests.faults.document"
