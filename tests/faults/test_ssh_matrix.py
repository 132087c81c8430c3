"""The whole crash matrix of a machine that is reached by SSH."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cells import SSH, Cell
from tests.faults.ssh_world import SshWorld
from tests.faults.strike import TRAITS, strike
from tests.hosts.network import Network

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("cell", SSH.cells, ids=str)
def test_by_ssh(network: Network, tmp_path: Path, cell: Cell) -> None:
    with SshWorld.made(tmp_path, network, **TRAITS.get(cell.victim, {})) as world:
        strike(world, cell, database=None)
