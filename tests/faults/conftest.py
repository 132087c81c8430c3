from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A home without a server yet, and nothing of it left afterwards."""
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    world = World(tmp_path / "home", ledger)
    try:
        yield world
    finally:
        world.close()
